"""For every test: without a GPU, Triton's kernels run in its interpreter; and what is measured.

Triton reads the variable when a kernel is defined: it must be set before anything imports one."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# Lines are counted of protocol/ and schedule/ only: tests of other rooms run without the tracer,
# which makes the interpreter half as slow again.
_TRACED = {"protocol", "schedule", "server", "engine", "config", "cli"}


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Keep bytes out of the names of tests: gzip writes the clock into its header, and processes
    that share the tests must find the same names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("pytest_cov"):
        return
    for item in items:
        rooms = item.path.relative_to(config.rootpath).parts
        if rooms[:2] == ("tests", "unit") and rooms[2] not in _TRACED:
            item.add_marker(pytest.mark.no_cover)
