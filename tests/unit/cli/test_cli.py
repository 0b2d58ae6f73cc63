import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

import systone
from systone.cli import main
from systone.models import registry
from tests.fakes import FakeExecutor, fake_model, fake_noul


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """`serve` sets logging up for its process; here that is pytest's."""
    root = logging.getLogger("systone")
    before = (root.handlers, root.level, root.propagate)
    yield
    root.handlers, root.level, root.propagate = before


@pytest.fixture(autouse=True)
def _fake_model(monkeypatch) -> None:
    """Every source is the fake model; the environment has no settings of ours."""
    monkeypatch.setattr(registry, "load", lambda source, settings: fake_model(source))
    monkeypatch.delenv("SYSTONE_MODEL", raising=False)


def run(capsys, *argv: str) -> tuple[int, str, str]:
    try:
        status = main(argv)
    except SystemExit as ended:
        status = int(ended.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def test_ask_without_anything_answers_the_example_with_bars(capsys) -> None:
    status, out, err = run(capsys, "ask")
    assert (status, err) == (0, "")
    for word in ("desk", "replacement", "damage", "█", "%", "calibrated: false", "demo-grade"):
        assert word in out


def test_ask_answers_questions_from_flags_as_json(capsys) -> None:
    status, out, _ = run(
        capsys,
        "ask",
        "--state=Two crates are wet.",
        "--noul=wet: Is a crate wet?",
        "--noul=Is it raining?",
        "--choice=who: Who owns it?=dock,yard",
        "--score=harm=none,some,much",
        "--json",
    )
    assert status == 0
    answers = json.loads(out)["answers"]
    assert list(answers) == ["wet", "Is it raining?", "who", "harm"]
    assert answers["wet"]["noul"] == fake_noul("Two crates are wet.", "Is a crate wet?")
    assert list(answers["who"]["probabilities"]) == ["dock", "yard"]
    assert answers["harm"]["legend"] == {"0": "none", "1": "some", "2": "much"}


def test_ask_reads_states_questions_and_requests_from_files(capsys, tmp_path, monkeypatch) -> None:
    questions = {"wet": {"type": "noul", "instructions": "Is it wet?"}}
    (tmp_path / "state.json").write_text('{"crate": 7}')
    (tmp_path / "state.txt").write_text('{"crate": 7}')
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    request = {"state": {"crate": 7}, "questions": questions}
    (tmp_path / "request.json").write_text(json.dumps(request))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO('{"crate": 7}'))

    def noul(*argv: str) -> float:
        status, out, err = run(capsys, "ask", "--json", *argv)
        assert status == 0, err
        value: float = json.loads(out)["answers"]["wet"]["noul"]
        return value

    as_json = fake_noul({"crate": 7}, "Is it wet?")
    as_text = fake_noul('{"crate": 7}', "Is it wet?")
    assert noul("state.json", "--questions=questions.json") == as_json
    assert noul("--request=request.json") == as_json
    assert noul("state.txt", "--questions=questions.json") == as_text
    assert noul("-", "--questions=questions.json") == as_text


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--state=x"], "no question"),
        (["--noul=x"], "no state"),
        (["file.txt", "--state=x", "--noul=x"], "twice"),
        (["missing.txt", "--noul=x"], "can't read missing.txt"),
        (["--state=x", "--choice=desk"], "expected ID=A,B,C"),
        (["--state=x", "--choice=desk=a,,b"], "expected ID=A,B,C"),
        (["--state=x", "--noul=q: a", "--noul=q: b"], "two questions have the id 'q'"),
        (["--request=r.json", "--state=x"], "whole request"),
        (["--state=x", "--noul=x", "--model=a", "--policy=always"], "--policy"),
        (["--state=x", "--noul=: no id"], "id"),
        (["--state=refuse", "--noul=x"], "refuses this state"),
    ],
)
def test_ask_reports_what_is_wrong_in_one_line(capsys, argv, words) -> None:
    status, out, err = run(capsys, "ask", *argv)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_ask_takes_its_model_from_the_environment(capsys, monkeypatch) -> None:
    monkeypatch.setenv("SYSTONE_MODEL", "from-env")
    assert '"model":"from-env"' in run(capsys, "ask", "--json")[1]
    assert '"model":"flag"' in run(capsys, "ask", "--json", "--model=flag")[1]


def test_models_describes_each_model(capsys) -> None:
    status, out, _ = run(capsys, "models", "--model", "one", "--model", "two")
    assert status == 0
    for word in ("one  (one, revision r1", "two  (two", "calibrated: false", "demo-grade", "255"):
        assert word in out


def test_check_prints_effective_settings_and_models(capsys, monkeypatch) -> None:
    monkeypatch.setenv("SYSTONE_MAX_QUEUE", "9")
    status, out, _ = run(capsys, "check", "--port", "1234", "--api-key=a", "--api-key=b", "dir")
    assert status == 0
    lines = out.splitlines()
    for line in ("model = dir", "port = 1234", "max_queue = 9", "pack = on", "api_key = (2 keys)"):
        assert line in lines
    assert "deadline_s = 60.0" in lines
    assert any(line.startswith("dir  (dir") for line in lines)


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["serve", "--no-such-flag"], "--no-such-flag"),
        (["serve", "--port", "notaport"], "--port"),
        (["serve", "--pol", "off"], "--pol"),
        (["serve", "--pack", "off", "--policy", "shared"], "--pack off"),
        (["serve", "--model", "no-such-model"], "no-such-model"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_command_lines_are_one_line_and_status_2(capsys, argv, word) -> None:
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert word in err.splitlines()[-1]
    assert err.count("\n") == 1


def test_serve_hands_its_settings_to_the_server(capsys, monkeypatch) -> None:
    from systone.server import lifecycle

    seen = []
    monkeypatch.setattr(lifecycle, "serve", lambda settings: seen.append(settings) or 7)
    monkeypatch.setattr("systone.logs.set_up_logs", seen.append)
    assert run(capsys, "serve", "--port=0", "--log-level=error", "--model=m")[0] == 7
    level, settings = seen
    assert (level, settings.server.port, settings.models[0].source) == ("error", 0, "m")


def test_help_lists_every_command_and_every_setting(capsys) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert all(name in out for name in ("ask", "check", "models", "serve", "verify-weights"))
    _, out, _ = run(capsys, "serve", "--help")
    assert all(flag in out for flag in ("--model", "--port", "--max-queue", "--policy"))
    assert run(capsys)[0] == 2
    assert systone.__version__ in run(capsys, "--version")[1]


def test_an_interrupted_command_ends_with_130(capsys, monkeypatch) -> None:
    def interrupt(source: str, settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "load", interrupt)
    assert run(capsys, "models")[0] == 130


def test_a_reader_that_had_enough_is_no_error(capsys, monkeypatch) -> None:
    def broken(source: str, settings: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(registry, "load", broken)
    assert run(capsys, "models")[0] == 0


def test_package_exports_are_lazy_and_complete() -> None:
    code = (
        "import sys, systone\n"
        "heavy = {'numpy', 'systone.engine', 'systone.config'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert set(systone.__all__) <= set(dir(systone))\n"
        "assert all(getattr(systone, name) for name in systone.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        _ = systone.nothing  # type: ignore[attr-defined]


def test_ask_in_python_keeps_one_engine_per_model(monkeypatch) -> None:
    from systone import oneshot

    executors = []

    def load(source: str, settings: object) -> object:
        executors.append(FakeExecutor())
        return fake_model(source, executor=executors[-1])

    monkeypatch.setattr(registry, "load", load)
    monkeypatch.setattr(oneshot, "_engines", {})
    questions = {"wet": systone.Noul("Is it wet?")}
    for state in ("a", "b"):
        decision = systone.ask(state, questions)
        assert decision.model == "systone-mini"
    assert systone.ask("a", questions, model="other").model == "other"
    assert len(executors) == 2
    for engine in oneshot._engines.values():
        engine.close()
