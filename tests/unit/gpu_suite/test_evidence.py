"""Joined evidence says what failed and what was not run; replies over HTTP are compared whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.gpu_suite import evidence, http_checks


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUT", str(tmp_path))
    return tmp_path


def part(out: Path, name: str, *checks: dict[str, Any], **more: Any) -> None:
    report = {"commit": "abc", "device": "D", "checks": list(checks), **more}
    (out / f"gpu_{name}.json").write_text(json.dumps(report))


def joined(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "gpu_exact.json").read_text()))


def test_every_part_with_every_check_true_passes(out: Path) -> None:
    for name in evidence.EXACT:
        part(out, name, {"name": "a way", "rows": 3, "equal": True}, {"name": "f", "caught": True})
    assert evidence.merge()
    report = joined(out)
    assert report["device"] == "D"
    assert len(report["checks"]) == 2 * len(evidence.EXACT)
    assert report["not_run"] == []


@pytest.mark.parametrize(
    "check",
    [
        {"name": "x", "equal": False}, {"name": "x", "caught": False},
        {"name": "x", "within": False}, {"name": "x", "equal": None},
    ],
)  # fmt: skip
def test_one_check_that_fails_or_did_not_run_fails_all(out: Path, check: dict[str, Any]) -> None:
    for name in evidence.EXACT:
        part(out, name, check)
    assert not evidence.merge()
    assert ("x" in joined(out)["not_run"]) == ("equal" in check and check["equal"] is None)


def test_a_part_that_is_missing_or_broke_off_is_named(out: Path) -> None:
    for name in evidence.EXACT[1:]:
        part(out, name, **({"failed": "why"} if name == "http" else {}))
    assert not evidence.merge()
    assert joined(out)["not_run"] == ["start", "http: stopped early"]


def reply(score: float) -> dict[str, Any]:
    return {"scores": {"q": [score, 2.0]}, "answers": {"q": {"noul": 0.5}}}


@pytest.fixture
def health(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the server says of its modes."""
    modes: dict[str, Any] = {"selfcheck": {"refused": 0}}
    answer = httpx.MockTransport(lambda _: httpx.Response(200, json={"models": [{"modes": modes}]}))
    plain = httpx.Client
    monkeypatch.setattr(http_checks.httpx, "Client", lambda **o: plain(transport=answer, **o))
    return modes


def test_scores_must_be_the_very_numbers(health: dict[str, Any]) -> None:
    truth = {0: reply(1.0)}
    row = http_checks._row("n", "http://x", truth, [(0, reply(1.0)), (0, reply(1.0))])
    assert (row["equal"], row["rows"], row["requests"]) == (True, 4, 2)
    off = reply(1.0 + 2**-52)
    assert http_checks._row("n", "http://x", truth, [(0, off)])["equal"] is False


def test_replies_of_a_server_that_fell_back_count_as_not_run(health: dict[str, Any]) -> None:
    health["selfcheck"]["refused"] = 1
    truth = {0: reply(1.0)}
    assert http_checks._row("n", "http://x", truth, [(0, reply(1.0))])["equal"] is None
