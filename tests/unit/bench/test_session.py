"""Whole runs against a server in this process: folder, figures, audit, comparisons."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from systone.bench.audit import audit
from systone.bench.datasets import json_lines
from systone.bench.figures import figures_of
from systone.bench.folder import MANIFEST, dump, manifest_bytes
from systone.bench.items import Item
from systone.bench.plan import Level, Plan
from systone.bench.records import from_lines, to_lines
from systone.bench.run import RunStoppedError
from systone.bench.session import Options, Report, run_http
from systone.bench.sizes import Sizer
from systone.errors import ConfigError
from tests.unit.bench.conftest import StubServer, request, running_stub, write_requests

FILES = {"run.json", "items.json", "records.jsonl.xz", "figures.json", "tables.md"}


def measure(
    stub: StubServer,
    path: Path,
    out: Path,
    *,
    levels: tuple[Level, ...] = (Level("closed", 1), Level("closed", 4)),
    against: str | None = None,
    equal_to: Path | None = None,
) -> Report:
    workload = json_lines(path, Sizer(None))
    targets: dict[Any, str] = {"a": stub.url} | ({"b": against} if against else {})
    plan = Plan(
        len(workload.items),
        levels,
        rounds=2,
        warmups=2,
        targets=tuple(targets),
        part_size=4,
        same_texts=True,
    )
    options = Options(out, commit="abc", equal_to=equal_to)
    return run_http(targets, plan, workload, options, lambda step, done: None)


def test_a_run_writes_every_request_and_what_the_server_said(
    stub: StubServer, requests_file: Path, tmp_path: Path
) -> None:
    report = measure(stub, requests_file, tmp_path / "out")
    records = from_lines((tmp_path / "out" / "records.jsonl.xz").read_bytes())
    mine = [record for record in records if record.target == "a"]
    assert len(mine) == 2 * (2 + 2 * 9) == stub.answered
    levels = {(level["target"], level["level"]): level for level in report.figures["levels"]}
    assert set(levels) == {("null", "c1"), ("null", "c4"), ("a", "c1"), ("a", "c4")}
    assert levels["a", "c1"]["requests"] == 18
    assert levels["a", "c1"]["device_mean_ms"] == 1.5
    assert levels["a", "c1"]["peak_device_mib"] == 3.0
    assert levels["a", "c1"]["device_busy_share"] == 0.0
    assert report.run["targets"]["a"]["modes"]["stub"]["device"] == "stub"
    assert report.run["environment"]["commit"] == "abc"
    answers = report.figures["answers"]
    assert (answers["texts"], answers["texts_with_differing_answers"]) == (9, 0)
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES | {MANIFEST}
    assert audit(tmp_path / "out").differences == ()


def test_a_server_that_tells_nothing_leaves_those_figures_out(
    stub: StubServer, requests_file: Path, tmp_path: Path
) -> None:
    stub.tells = False
    report = measure(stub, requests_file, tmp_path / "out", levels=(Level("open", 200.0),))
    level = next(one for one in report.figures["levels"] if one["target"] == "a")
    assert level["level"] == "r200"
    assert level["device_busy_share"] is level["peak_device_mib"] is None
    assert level["max_late_ms"] is not None
    assert report.run["targets"]["a"]["modes"] == {}
    assert audit(tmp_path / "out").differences == ()


def test_failures_are_in_the_records_the_figures_and_the_table(
    stub: StubServer, tmp_path: Path
) -> None:
    lines = [{"id": s, "request": request(s)} for s in ("fine", "refuse", "nonsense")]
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    report = measure(stub, path, tmp_path / "out", levels=(Level("closed", 2),))
    level = next(one for one in report.figures["levels"] if one["target"] == "a")
    assert (level["requests"], level["failures"]) == (6, 4)
    listed = [(f["item"], f["round"]) for f in report.figures["failures"]]
    assert sorted(listed) == sorted(
        [("refuse", -1), *((item, r) for item in ("refuse", "nonsense") for r in (0, 1))]
    )
    table = (tmp_path / "out" / "tables.md").read_text()
    assert "## Failures: 5" in table
    assert table.count("status 503") == 3
    assert audit(tmp_path / "out").differences == ()


def test_two_servers_are_compared_in_pairs(
    stub: StubServer, requests_file: Path, tmp_path: Path
) -> None:
    report = measure(
        stub, requests_file, tmp_path / "out", levels=(Level("closed", 2),), against=stub.url
    )
    (pair,) = report.figures["pairs"]
    assert (pair["blocks"], pair["blocks_with_failures"]) == (6, 0)  # 9 requests by 4, 2 rounds
    assert pair["latency_b_over_a"]["low"] <= pair["latency_b_over_a"]["ratio"]
    assert audit(tmp_path / "out").differences == ()


def test_answers_can_be_held_to_those_of_another_run(
    stub: StubServer, requests_file: Path, tmp_path: Path
) -> None:
    measure(stub, requests_file, tmp_path / "one", levels=(Level("closed", 1),))
    report = measure(stub, requests_file, tmp_path / "two", equal_to=tmp_path / "one")
    answers = report.figures["answers"]
    assert (answers["compared"], answers["compared_and_different"]) == (40, 0)
    records = from_lines((tmp_path / "one" / "records.jsonl.xz").read_bytes())
    other = [r if r.item != "q1" else _answering(r, "other") for r in records]
    (tmp_path / "one" / "records.jsonl.xz").write_bytes(to_lines(other))
    report = measure(stub, requests_file, tmp_path / "three", equal_to=tmp_path / "one")
    assert report.figures["answers"]["compared_and_different"] == 2 * 3  # 2 levels, 1 warm-up each


def _answering(record: Any, digest: str) -> Any:
    return replace(record, answers=digest)


@pytest.mark.parametrize(("stops_at", "kept"), [("a c4 round 2", ["c1"]), ("a c1 round 2", [])])
def test_a_run_that_is_stopped_keeps_its_whole_levels(
    stub: StubServer, requests_file: Path, tmp_path: Path, stops_at: str, kept: list[str]
) -> None:
    def show(step: str, done: int) -> None:
        if step == stops_at:
            raise RunStoppedError

    workload = json_lines(requests_file, Sizer(None))
    levels = (Level("closed", 1), Level("closed", 4))
    plan = Plan(len(workload.items), levels, rounds=2, warmups=1)
    ask = partial(run_http, {"a": stub.url}, plan, workload, Options(tmp_path / "out"), show)
    if not kept:
        with pytest.raises(RunStoppedError):
            ask()
        return
    report = ask()
    assert [one["level"] for one in report.figures["levels"] if one["target"] == "a"] == kept
    assert report.run["plan"]["levels"] == kept
    assert audit(tmp_path / "out").differences == ()


def test_a_server_that_is_not_there_stops_the_run(requests_file: Path, tmp_path: Path) -> None:
    workload = json_lines(requests_file, Sizer(None))
    plan = Plan(len(workload.items), (Level("closed", 1),))
    with pytest.raises(ConfigError, match="can't connect to http://127"):
        run_http(
            {"a": "http://127.0.0.1:9"}, plan, workload, Options(tmp_path / "o"), lambda *_: None
        )


def test_a_folder_with_something_in_it_is_not_written_to(
    stub: StubServer, requests_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="is not empty"):
        measure(stub, requests_file, tmp_path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("measured")
    with running_stub() as stub:
        measure(stub, write_requests(path), path / "run", levels=(Level("closed", 2),))
    assert audit(path / "run").differences == ()
    return path / "run"


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> Path:
    """A copy of a run's folder, to be changed."""
    shutil.copytree(measured, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of a short run's time; test_command.py draws."""
    monkeypatch.setattr("systone.bench.plots.available", lambda: False)


def test_one_changed_byte_anywhere_is_red_and_named(folder: Path, tmp_path: Path) -> None:
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        for place in {0, len(data) // 3, len(data) // 2, len(data) - 1}:
            copy = tmp_path / "copy"
            shutil.copytree(folder, copy)
            (copy / file.name).write_bytes(
                data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            )
            found = audit(copy).differences
            assert any(file.name in line or "manifest" in line for line in found), (file, place)
            shutil.rmtree(copy)


def test_files_added_or_lost_are_red(folder: Path) -> None:
    (folder / "more.txt").write_text("x")
    assert audit(folder).differences == ("more.txt: not in the manifest",)
    (folder / "more.txt").unlink()
    (folder / "tables.md").unlink()
    assert "tables.md: missing" in audit(folder).differences


def _figure(value: Any) -> None:
    value["levels"][-1]["p95_ms"] += 0.001


def _dropped(value: Any) -> None:
    value["levels"][-1]["groups"].pop()


@pytest.mark.parametrize(
    ("change", "named"),
    [(_figure, r"figures\.levels\[\d\]\.p95_ms: stored"), (_dropped, r"groups: stored")],
)
def test_a_figure_that_the_records_do_not_give_is_red_though_the_hashes_fit(
    folder: Path, change: Callable[[Any], None], named: str
) -> None:
    figures = json.loads((folder / "figures.json").read_bytes())
    change(figures)
    (folder / "figures.json").write_bytes(dump(figures))
    (folder / MANIFEST).write_bytes(manifest_bytes(folder))
    found = audit(folder).differences
    assert len(found) == 1
    assert re.search(named, found[0])


def test_a_record_left_out_is_red_though_hashes_and_figures_fit(folder: Path) -> None:
    records = from_lines((folder / "records.jsonl.xz").read_bytes())[:-1]
    items = [Item(**item) for item in json.loads((folder / "items.json").read_bytes())]
    run = json.loads((folder / "run.json").read_bytes())
    (folder / "records.jsonl.xz").write_bytes(to_lines(records))
    (folder / "figures.json").write_bytes(
        dump(figures_of(records, items, run["samples"], run["plan"]["seed"]))
    )
    (folder / MANIFEST).write_bytes(manifest_bytes(folder))
    (only,) = audit(folder).differences
    assert only.startswith("records: none for ('a', 'c2', 1, 0, 8")


def test_a_folder_of_something_else_cannot_be_audited(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no manifest\.json"):
        audit(tmp_path)
