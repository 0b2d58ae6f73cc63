from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import systone.commands.export
import systone.commands.synth
import systone.commands.verify_weights
from systone.errors import ConfigError
from systone.weights.manifest import MANIFEST_NAME, Manifest


def call(command: ModuleType, *arguments: object) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return int(command.run(parser.parse_args([str(a) for a in arguments])))


def test_naming_the_commands_loads_no_torch() -> None:
    code = (
        "import sys, systone.commands.synth, systone.commands.export, "
        "systone.commands.verify_weights; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_export_prints_what_it_made(
    micro_9b: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(systone.commands.export, micro_9b, tmp_path / "e") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"open-jev-9b in {tmp_path / 'e'}: ")
    assert second.startswith("differs from PEFT's merge in ")
    assert call(systone.commands.verify_weights, tmp_path / "e") == 0
    assert capsys.readouterr().out.endswith("open-jev-9b: export by its manifest\n")


def test_export_takes_a_package_and_its_base(micro_9b: Path, tmp_path: Path) -> None:
    arguments = (micro_9b / "package", tmp_path / "e", "--base", micro_9b / "base")
    assert call(systone.commands.export, *arguments, "--merge", "single-rounding") == 0
    assert Manifest.read(tmp_path / "e").merge["rule"] == "single-rounding"


def test_verify_names_the_first_fault(copy_9b: Path) -> None:
    head = copy_9b / "package" / "checkpoint" / "head.pt"
    head.write_bytes(head.read_bytes() + b"x")
    with pytest.raises(ConfigError, match=r"head\.pt: SHA-256 differs"):
        call(systone.commands.verify_weights, copy_9b)


def test_pinning_makes_unknown_parts_loadable(
    copy_9b: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    revision = Manifest.read(copy_9b / "base").base_revision
    (copy_9b / "base" / MANIFEST_NAME).unlink()
    (copy_9b / "package" / MANIFEST_NAME).unlink()
    pin = ("--pin", "--revision")
    assert call(systone.commands.verify_weights, copy_9b / "base", *pin, revision) == 0
    assert call(systone.commands.verify_weights, copy_9b / "package", *pin, "mine") == 0
    assert "of a base in" in capsys.readouterr().out
    assert call(systone.commands.verify_weights, copy_9b) == 0
    with pytest.raises(ConfigError, match="already there"):
        call(systone.commands.verify_weights, copy_9b / "package", *pin, "mine")


@pytest.mark.parametrize("part", ["base", "package"])
def test_pinning_asks_for_the_revision(copy_9b: Path, part: str) -> None:
    (copy_9b / part / MANIFEST_NAME).unlink()
    with pytest.raises(ConfigError, match="say which revision"):
        call(systone.commands.verify_weights, copy_9b / part, "--pin")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (systone.commands.synth, ("open-jev-9b", "--size", "tiny", "--out", "x")),
        (systone.commands.export, ("a", "b")),
        (systone.commands.verify_weights, ("a",)),
    ],
)
def test_without_torch_the_commands_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, command: ModuleType, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("systone.weights.extra.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs torch: pip install systone\[torch\]"):
        call(command, *arguments)


@pytest.mark.slow
def test_synth_writes_a_tiny_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "d"
    arguments = ("open-jev-27b-v1.1", "--size", "tiny", "--seed", 3, "--out", out)
    assert call(systone.commands.synth, *arguments) == 0
    assert capsys.readouterr().out.startswith(f"open-jev-27b-v1.1 (tiny, seed 3) in {out}: ")
    assert call(systone.commands.verify_weights, out) == 0
