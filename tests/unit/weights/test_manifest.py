from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from systone.errors import ConfigError
from systone.weights.manifest import MANIFEST_NAME, Manifest


def make(directory: Path) -> Manifest:
    (directory / "sub").mkdir()
    (directory / "a.bin").write_bytes(b"alpha")
    (directory / "sub" / "b.json").write_bytes(b"{}")
    manifest = Manifest(
        kind="base",
        model="m",
        model_id="o/m",
        base_revision="r",
        files={
            "a.bin": hashlib.sha256(b"alpha").hexdigest(),
            "sub/b.json": hashlib.sha256(b"{}").hexdigest(),
        },
        tensors={"w": ("BF16", (2, 3))},
    )
    manifest.write(directory)
    return manifest


def refusal(directory: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        Manifest.read(directory).verify(directory)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_what_is_written_is_read_and_proves_the_files(tmp_path: Path) -> None:
    made = make(tmp_path)
    assert Manifest.read(tmp_path) == made
    Manifest.read(tmp_path).verify(tmp_path)


def test_equal_manifests_are_written_to_equal_bytes(tmp_path: Path) -> None:
    made = make(tmp_path)
    first = (tmp_path / MANIFEST_NAME).read_bytes()
    replace(made, files=dict(reversed(made.files.items()))).write(tmp_path)
    assert (tmp_path / MANIFEST_NAME).read_bytes() == first


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "a.bin").write_bytes(b"alphb")
    assert refusal(tmp_path) == f"{tmp_path / 'a.bin'}: SHA-256 differs from the manifest's"


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "sub" / "b.json").unlink()
    assert refusal(tmp_path).startswith(f"{tmp_path / 'sub/b.json'}: listed in the manifest, but")


@pytest.mark.parametrize("name", ["extra.safetensors", "notes.txt", ".hidden", "sub/more.bin"])
def test_a_file_too_many_is_found(tmp_path: Path, name: str) -> None:
    make(tmp_path)
    (tmp_path / name).write_bytes(b"")
    assert refusal(tmp_path) == f"{tmp_path / name}: not listed in the manifest"


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "d"
    inside.mkdir()
    make(inside)
    (inside / "a.bin").rename(tmp_path / "a.bin")
    (inside / "a.bin").symlink_to(tmp_path / "a.bin")
    assert refusal(inside).startswith(f"{inside / 'a.bin'}: a link that leads out of")


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "sub")
    assert refusal(tmp_path) == f"{tmp_path / 'again'}: a link to a directory"


def test_a_link_inside_the_directory_is_a_file(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "a.bin").rename(tmp_path / "sub" / "real")
    (tmp_path / "a.bin").symlink_to("sub/real")
    assert refusal(tmp_path) == f"{tmp_path / 'sub/real'}: not listed in the manifest"


@pytest.mark.parametrize("name", ["../a.bin", "/etc/passwd", "sub/../../x"])
def test_a_manifest_that_points_outside_is_refused(tmp_path: Path, name: str) -> None:
    make(tmp_path)
    fields = json.loads((tmp_path / MANIFEST_NAME).read_bytes())
    fields["files"][name] = "0" * 64
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(fields))
    assert "malformed entry" in refusal(tmp_path)


@pytest.mark.parametrize(
    "bend",
    [
        lambda f: f.pop("format"),
        lambda f: f.update(format="systone-manifest/9"),
        lambda f: f.update(kind="other"),
        lambda f: f.update(surprise=1),
        lambda f: f.pop("files"),
        lambda f: f.update(files=[]),
        lambda f: f.update(tensors={"w": 1}),
        lambda f: f["files"].update({"a.bin": "short"}),
    ],
)
def test_another_format_is_refused(tmp_path: Path, bend: object) -> None:
    make(tmp_path)
    fields = json.loads((tmp_path / MANIFEST_NAME).read_bytes())
    bend(fields)  # type: ignore[operator]
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(fields))
    assert refusal(tmp_path).startswith(str(tmp_path / MANIFEST_NAME))


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff"])
def test_a_broken_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    assert refusal(tmp_path).startswith(str(tmp_path / MANIFEST_NAME))
