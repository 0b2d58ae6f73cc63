import json
import struct
from pathlib import Path

import pytest

from systone.cli import main
from tests.unit.bench.conftest import StubServer, request, write_requests


def run(*args: object) -> int:
    return main(["bench", *map(str, args)])


def test_the_last_line_is_json_and_tables_come_before_it(
    stub: StubServer, requests_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ("--workload", requests_file, "--concurrency", "1,2", "--rounds", 1, "--out", out)
    assert run(stub.url, *args) == 0
    printed = capsys.readouterr()
    assert "Latency, ms" in printed.out
    assert "By kind and tokens of the longest candidate" in printed.out
    assert "a c2 round 1" in printed.err  # progress
    last = json.loads(printed.out.splitlines()[-1])
    assert last["workload"] == "nine"
    assert [level["level"] for level in last["levels"]] == ["c1", "c2", "c1", "c2"]
    assert last["failures"] == 0
    assert len(last["manifest_sha256"]) == 64
    assert run("audit", out) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["audit"] == "green"
    (out / "tables.md").write_text("better figures")
    assert run("audit", out) == 1
    audited = capsys.readouterr().out.splitlines()
    assert audited[0].startswith("differs: tables.md: SHA-256")
    assert json.loads(audited[-1])["audit"] == "red"


def test_a_failed_request_gives_status_1(
    stub: StubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(request("refuse")))
    args = ("--workload", path, "--concurrency", 1, "--rounds", 1, "--warmups", 0)
    assert run(stub.url, *args, "--out", tmp_path / "out") == 1
    printed = capsys.readouterr().out
    assert "failed: c1 0: status 503" in printed
    assert json.loads(printed.splitlines()[-1])["failures"] == 1


def test_plots_are_pictures_of_the_runs(
    stub: StubServer, requests_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    args = ("--workload", requests_file, "--concurrency", "1,4", "--rounds", 1)
    assert run(stub.url, *args, "--out", tmp_path / "one") == 0
    assert run(stub.url, *args, "--out", tmp_path / "two") == 0
    capsys.readouterr()
    assert run("plot", tmp_path / "one", tmp_path / "two", "--out", tmp_path / "both") == 0
    drawn = [Path(name) for name in json.loads(capsys.readouterr().out)]
    assert [path.name for path in drawn] == ["throughput.png", "latency.png"]
    for path in (*drawn, tmp_path / "one" / "latency.png"):
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert struct.unpack(">II", data[16:24]) == (1200, 750)


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        (["systone-mini"], "--out DIR"),
        (["no-model", "--out", "o", "--workload", "nine.jsonl"], "'no-model' is neither"),
        (["systone-mini", "--out", "o", "--port", "1"], "--port: a run sets this itself"),
        (["http://h", "--out", "o", "--policy", "off"], "--policy is for a model"),
        (["http://h", "--out", "o", "--against", "x"], "--against takes the URL"),
        (["http://h", "x", "--out", "o"], "takes one target"),
        (["http://h", "--out", "o", "--workload", "w"], "is none of"),
        (["http://h", "--out", "o", "--rounds", "0"], "--rounds: must be at least 1"),
        (["http://h", "--out", "o", "--concurrency", "0"], "'c0' is no level"),
        (["audit"], "takes one folder"),
        (["audit", "a", "b"], "takes one folder"),
        (["audit", "absent"], "no manifest.json"),
        (["plot", "absent", "--out", "o"], "not a folder of systone bench"),
        (["peers", "d", "--out", "o", "--concurrency", "2"], "one request at a time"),
    ],
)
def test_a_wrong_command_is_one_line_and_status_2(
    args: list[str],
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_requests(tmp_path)
    assert run(*args) == 2
    error = capsys.readouterr().err
    assert fault in error
    assert error.count("\n") == 1
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_a_model_is_served_for_the_run(
    requests_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ("--workload", requests_file, "--requests", 2, "--concurrency", 1, "--rounds", 1)
    assert run("systone-mini", *args, "--max-queue", 7, "--out", out) == 0
    written = json.loads((out / "run.json").read_bytes())
    assert written["targets"]["a"]["flags"] == ["--max-queue=7"]
    assert written["targets"]["a"]["modes"]["systone-mini"]["device"] == "cpu"
    log = (tmp_path / "out.server.log").read_text()
    assert "listening on" in log
    assert "stopped" in log
    level = json.loads((out / "figures.json").read_bytes())["levels"][-1]
    assert level["server_rss_mib"] > 50
    assert 0 < level["device_busy_share"] <= 1
    assert level["overhead_p50_ms"] > 0
    assert run("audit", out) == 0


@pytest.mark.slow
def test_a_model_that_cannot_be_served_stops_the_run(
    requests_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("--workload", requests_file, "--concurrency", 1, "--out", tmp_path / "out")
    assert run("systone-mini", *args, "--max-queue", 0) == 2
    error = capsys.readouterr().err
    assert "the server of systone-mini ended: systone serve: --max-queue: '0' must be" in error
