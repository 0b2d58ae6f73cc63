import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from systone.bench import evidence
from systone.bench.audit import audit
from systone.bench.datasets import json_lines
from systone.bench.folder import MANIFEST, dump, manifest_bytes
from systone.bench.plan import Level, Plan
from systone.bench.session import Options, run_http
from systone.bench.sizes import Sizer
from systone.cli import main
from systone.errors import ConfigError
from tests.unit.bench.conftest import StubServer, running_stub, write_requests

ROW = {"tokens": 64, "ms": 1.0, "tflops": 2.0, "gbytes_s": 4000.0}
RUNS = (
    ("main", "workload", (1, 4)),
    ("serial", "serial", (1,)),
    ("soak", "soak", (4,)),
    ("peer", "peer", (1,)),
)


def described(**fields: Any) -> dict[str, Any]:
    shape = {"model": "stub", "workload": "nine", "sharing": "default", "name": "nine"}
    return {
        "format": evidence.FORMAT,
        "commit": "abc",
        "machine": {"device": "a stub"},
        "ceilings": {"bf16_tflops": 800.0},
        "floors": {"stub": [ROW]},
        "runs": [{"folder": name, "role": role, **shape} for name, role, _ in RUNS],
        "not_run": [],
        **fields,
    }


def make(folder: Path, stub: StubServer, texts: Path) -> None:
    folder.mkdir()
    workload = json_lines(texts, Sizer(None))
    for name, role, amounts in RUNS:
        levels = tuple(Level("closed", amount) for amount in amounts)
        plan = Plan(len(workload.items), levels, rounds=2, warmups=1, same_texts=True)
        held = folder / "serial" if role == "soak" else None
        options = Options(folder / name, commit="abc", equal_to=held)
        run_http({"a": stub.url}, plan, workload, options, lambda step, done: None)
    (folder / evidence.SET).write_bytes(dump(described()))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evidence")
    with pytest.MonkeyPatch.context() as patch, running_stub() as stub:
        patch.setattr("systone.bench.plots.available", lambda: False)
        make(path / "set", stub, write_requests(path))
    evidence.write(path / "set")
    return path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of the folder, with its summary beside it, to be changed."""
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy" / "set"


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(evidence.summary_path(folder).read_bytes())
    return found


def test_the_summary_has_a_row_for_every_level_of_every_role(whole: Path) -> None:
    found = summary(whole / "set")
    assert (found["commit"], found["device"]) == ("abc", "a stub")
    assert [(row["name"], row["concurrency"]) for row in found["workload"]] == [
        ("nine", 1),
        ("nine", 4),
    ]
    one = found["workload"][0]
    assert (one["requests"], one["failures"], one["sharing"]) == (18, 0, "default")
    assert one["mean_ms"] > 0
    assert one["rps"] > 0
    assert one["floor_ms_total"] is one["ratio"] is None  # no tokenizer counted these texts
    assert one["answers"]["texts_with_differing_answers"] == 0
    (soak,) = found["soak"]
    assert (soak["requests"], soak["compared_with_serial"]) == (18, 19)
    assert soak["different_from_serial"] == 0
    (peer,) = found["peers"]
    assert peer["slower_at_p50"] == round(peer["p50_ms"] / peer["our_p50_ms"], 3)


def test_time_is_told_beside_the_floor_of_the_same_requests(copy: Path) -> None:
    items = json.loads((copy / "main" / "items.json").read_bytes())
    sized = [{**item, "longest": 64, "tokens": 128, "unique": 64} for item in items]
    (copy / "main" / "items.json").write_bytes(dump(sized))
    evidence.write(copy)
    one, four = summary(copy)["workload"]
    assert one["floor_ms_total"] == 18.0
    assert one["ratio"] == round(one["measured_ms_total"] / 18.0, 4)
    assert one["tflops"] == round(18 * 2.0 / one["measured_ms_total"], 1)
    assert one["gbytes_s"] == round(18 * 4.0 / one["measured_ms_total"] * 1e3, 1)
    assert four["gbytes_s"] is None  # a batch reads the weights once
    assert one["token_counts_other_than_planned"] == 18  # the stub counts none


def test_what_was_written_is_green_by_folder_and_by_summary(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (whole / "set", whole / "set.json"):
        assert main(["bench", "audit", str(path)]) == 0
        last = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (last["audit"], last["differences"]) == ("green", 0)
        assert last["requests"] > 4 * 18


def test_one_changed_byte_in_any_file_is_red(copy: Path) -> None:
    files = [p for p in copy.rglob("*") if p.is_file()] + [evidence.summary_path(copy)]
    assert len(files) == 4 * 6 + 3
    for file in files:
        data = file.read_bytes()
        place = len(data) // 2
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert audit(copy).differences, file
        file.write_bytes(data)
    assert audit(copy).differences == ()


def _rps(found: dict[str, Any]) -> None:
    found["workload"][0]["rps"] += 1.0


def _peer(found: dict[str, Any]) -> None:
    found["peers"][0]["slower_at_p50"] = 10.0


@pytest.mark.parametrize("change", [_rps, _peer])
def test_a_summary_that_the_runs_do_not_give_is_red(
    copy: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    found = summary(copy)
    change(found)
    evidence.summary_path(copy).write_bytes(dump(found))
    (difference,) = audit(copy).differences
    assert difference.startswith("set.json.")
    assert "recomputed" in difference


def test_a_set_that_names_another_floor_is_red_though_its_hashes_fit(copy: Path) -> None:
    (copy / evidence.SET).write_bytes(dump(described(commit="other")))
    (copy / MANIFEST).write_bytes(manifest_bytes(copy))
    assert audit(copy).differences == ('set.json.commit: stored "abc", recomputed "other"',)


def test_a_run_or_a_manifest_that_is_missing_is_red(copy: Path) -> None:
    (copy / MANIFEST).unlink()
    assert audit(copy).differences == (f"{MANIFEST}: missing",)
    shutil.rmtree(copy / "soak")
    assert any("can't be recomputed" in line for line in audit(copy).differences)


def test_a_summary_is_written_for_evidence_only(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence.summary_path(copy).unlink()
    assert main(["bench", "evidence", str(copy)]) == 0
    *tables, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["written"] == str(copy) + ".json"
    rows = [line.split(" | ") for line in tables if line.startswith("| nine | stub")]
    assert [row[2:5] for row in rows] == [
        ["default", "1", "18"],
        ["default", "4", "18"],
        ["1", "18", "0"],  # the peer
    ]
    assert "Ceilings of the same session: bf16_tflops 800.0." in tables
    assert audit(copy).differences == ()
    with pytest.raises(ConfigError, match=r"no set\.json"):
        evidence.write(tmp_path)
