from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from systone.errors import ConfigError
from systone.weights.hub import check_digests, hub_files

REVISION = "a" * 40


def git(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def cache(root: Path) -> Path:
    """The shared cache's layout: snapshots of links into blobs."""
    blobs, snapshot = root / "blobs", root / "snapshots" / REVISION
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for name, content, digest in (
        ("model.safetensors", b"weights", hashlib.sha256(b"weights").hexdigest()),
        ("config.json", b"{}", git(b"{}")),
    ):
        (blobs / digest).write_bytes(content)
        (snapshot / name).symlink_to(Path("..", "..", "blobs", digest))
    return snapshot


def local(root: Path) -> Path:
    """A local directory's layout: files, and metadata beside them."""
    metadata = root / ".cache" / "huggingface" / "download"
    metadata.mkdir(parents=True)
    for name, content, digest in (
        ("model.safetensors", b"weights", hashlib.sha256(b"weights").hexdigest()),
        ("config.json", b"{}", git(b"{}")),
    ):
        (root / name).write_bytes(content)
        (metadata / f"{name}.metadata").write_text(f"{REVISION}\n{digest}\n1700000000.0\n")
    return root


def complaint(directory: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        check(directory)
    return str(refused.value)


def check(directory: Path) -> None:
    found = hub_files(directory)
    assert found is not None
    check_digests(directory, found)


@pytest.mark.parametrize("layout", [cache, local])
def test_revision_and_digests_are_those_the_client_recorded(tmp_path: Path, layout: object) -> None:
    directory = layout(tmp_path)  # type: ignore[operator]
    found = hub_files(directory)
    assert found is not None
    assert found.revision == REVISION
    assert set(found.digests) == {"model.safetensors", "config.json"}
    check_digests(directory, found)


@pytest.mark.parametrize("layout", [cache, local])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_changed_file_is_found(tmp_path: Path, layout: object, name: str) -> None:
    directory = layout(tmp_path)  # type: ignore[operator]
    (directory / name).write_bytes(b"weightz")
    assert (
        complaint(directory) == f"{directory / name}: differs from the digest of the hub's client"
    )


@pytest.mark.parametrize("layout", [cache, local])
def test_weights_without_a_digest_are_refused(tmp_path: Path, layout: object) -> None:
    directory = layout(tmp_path)  # type: ignore[operator]
    (directory / "more.safetensors").write_bytes(b"")
    assert "more.safetensors: the hub's client recorded no digest" in complaint(directory)


def test_a_link_out_of_the_cache_is_refused(tmp_path: Path) -> None:
    snapshot = cache(tmp_path / "cache")
    (tmp_path / "elsewhere").write_bytes(b"")
    (snapshot / "x.json").symlink_to(tmp_path / "elsewhere")
    assert "x.json: a link that leads out of the hub's cache" in complaint(snapshot)


def test_files_of_two_revisions_are_refused(tmp_path: Path) -> None:
    directory = local(tmp_path)
    path = directory / ".cache" / "huggingface" / "download" / "config.json.metadata"
    path.write_text(path.read_text().replace(REVISION, "b" * 40))
    assert "more than one revision" in complaint(directory)


def test_a_plain_directory_has_no_revision(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert hub_files(tmp_path) is None
