"""Kernels loaded while serving are counted and named."""

from __future__ import annotations

import logging

import pytest
import triton

from systone.execute.selfcheck_compiles import CompileCount


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a listener of somebody else's hears."""
    names: list[str] = []
    theirs = lambda **report: names.append(report["repr"])  # noqa: E731
    monkeypatch.setattr(triton.knobs.runtime, "jit_post_compile_hook", theirs)
    return names


def load(name: str) -> None:
    triton.knobs.runtime.jit_post_compile_hook(repr=f"{name}[num_warps: 4](*bf16)")


def test_a_kernel_loaded_between_begin_and_end_is_counted_and_named(
    heard: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    compiles = CompileCount()
    load("before")
    compiles.begin()
    with caplog.at_level(logging.WARNING):
        load("gemm_kernel")
    compiles.end()
    load("after")
    assert (compiles.count, compiles.names) == (1, ["gemm_kernel"])
    assert [record.getMessage() for record in caplog.records] == [
        "gemm_kernel had to be loaded or compiled while serving"
    ]
    assert len(heard) == 3
