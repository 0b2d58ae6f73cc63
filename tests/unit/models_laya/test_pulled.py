"""A checkpoint fetched from a hub: its record proves it, and names it."""

from pathlib import Path

import pytest

from systone.errors import ConfigError
from systone.pull.hub import Hub
from systone.pull.model import pull
from systone.pull.table import MODELS
from tests.unit.pull.conftest import FakeHub

LAYA = MODELS["laya-multilingual"].parts[0]


@pytest.fixture
def pulled(checkpoint: Path, tmp_path: Path) -> Path:
    fake = FakeHub()
    fake.commits = {LAYA.revision}
    files = [p for p in checkpoint.rglob("*") if p.is_file() and "manifest" not in p.name]
    fake.files[LAYA.repo] = {str(p.relative_to(checkpoint)): p.read_bytes() for p in files}
    fake.files[LAYA.repo]["other/model.safetensors"] = b"a sibling's"
    out = tmp_path / "laya-multilingual"
    with Hub(fake.url) as hub:
        pull(MODELS["laya-multilingual"], out, hub)
    fake.close()
    return out


def test_it_is_served_under_its_name_and_revision(load, pulled) -> None:
    assert not (pulled / "other").exists()
    card = load(pulled).adapter.card
    assert (card.name, card.revision) == ("laya-multilingual", LAYA.revision)
    assert "multilingual" in card.aliases


def test_a_file_changed_since_it_was_fetched_is_refused(load, pulled) -> None:
    path = pulled / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"model\.safetensors: differs from the digest"):
        load(pulled)
