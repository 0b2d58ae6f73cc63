"""Pulling from a hub that redirects, serves ranges and breaks off; and what is refused."""

import hashlib
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from systone.cli import main
from systone.errors import ConfigError
from systone.pull.hub import Hub
from systone.pull.model import pull
from systone.pull.table import MODELS, Model, Part, find
from systone.weights.hub import check_digests, hub_files
from tests.unit.pull.conftest import COMMIT, FakeHub

BIG = random.Random(1).randbytes(300_000)
REPO = "maker/small"


def model(**fields: object) -> Model:
    return Model("small", "MIT", (Part(REPO, COMMIT, **fields),))


@pytest.fixture
def hub(fake_hub: FakeHub) -> Iterator[Hub]:
    fake_hub.files[REPO] = {
        "model.safetensors": BIG,
        "config.json": b"{}",
        "tokenizer/tokenizer.json": b"[]",
        "notes.md": b"not wanted",
    }
    with Hub(fake_hub.url) as hub:
        yield hub


def test_a_model_arrives_whole_with_a_record_of_its_commit(hub, tmp_path) -> None:
    pulled = pull(model(), tmp_path / "m", hub)
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == BIG
    assert (tmp_path / "m" / "tokenizer" / "tokenizer.json").read_bytes() == b"[]"
    assert not (tmp_path / "m" / "notes.md").exists()
    assert (pulled.num_files, pulled.num_bytes) == (3, len(BIG) + 4)
    record = hub_files(tmp_path / "m")  # what a load takes as proof of the revision
    assert record is not None
    assert record.revision == COMMIT
    check_digests(tmp_path / "m", record)


def test_a_broken_transfer_resumes_where_it_broke(hub, fake_hub, tmp_path) -> None:
    fake_hub.break_after = [100_000, 50_000]
    pull(model(), tmp_path, hub)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG
    assert fake_hub.ranges("model.safetensors") == [None, "bytes=100000-", "bytes=150000-"]


def test_breaks_without_end_are_outlasted_while_bytes_arrive(hub, fake_hub, tmp_path) -> None:
    fake_hub.break_after = [20_000] * 12  # twice as many as tries without progress
    pull(model(), tmp_path, hub)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


def test_a_second_pull_resumes_what_the_first_left(hub, fake_hub, tmp_path) -> None:
    fake_hub.break_after = [70_000] + [0] * 40
    with pytest.raises(ConfigError, match=r"model\.safetensors"):
        pull(model(), tmp_path, hub)
    assert not (tmp_path / "model.safetensors").exists()  # it appears only when it is whole
    fake_hub.break_after, fake_hub.requests = [], []
    pull(model(), tmp_path, hub)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG
    assert fake_hub.ranges("model.safetensors") == ["bytes=70000-"]


def test_a_finished_pull_fetches_nothing_again(hub, fake_hub, tmp_path) -> None:
    pull(model(), tmp_path, hub)
    fake_hub.requests = []
    pull(model(), tmp_path, hub)
    assert fake_hub.ranges("model.safetensors") == []


def test_a_busy_hub_is_asked_again(hub, fake_hub, tmp_path) -> None:
    fake_hub.busy = 2
    pull(model(), tmp_path, hub)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


def test_a_file_that_differs_from_the_hubs_digest_is_refused_and_removed(
    hub, fake_hub, tmp_path
) -> None:
    fake_hub.corrupt = {"model.safetensors"}
    with pytest.raises(ConfigError, match=r"model\.safetensors differs from the digest.*removed"):
        pull(model(), tmp_path, hub)
    assert not (tmp_path / "model.safetensors").exists()
    fake_hub.corrupt = set()
    pull(model(), tmp_path, hub)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


@pytest.mark.parametrize("digits", [64, 8])
def test_a_file_that_differs_from_the_published_digest_is_refused(hub, tmp_path, digits) -> None:
    right = hashlib.sha256(BIG).hexdigest()[:digits]
    pull(model(pins={"model.safetensors": right}), tmp_path, hub)
    wrong = "0" * digits
    with pytest.raises(ConfigError, match=f"published SHA-256 {wrong}; removed"):
        pull(model(pins={"model.safetensors": wrong}), tmp_path / "other", hub)
    assert not list((tmp_path / "other").glob("model.*"))


def test_a_pinned_file_must_be_there(hub, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"has no head\.pt, which is pinned"):
        pull(model(pins={"head.pt": "0" * 64}), tmp_path, hub)


def test_a_path_that_leads_out_is_refused(hub, fake_hub, tmp_path) -> None:
    fake_hub.files[REPO]["../escape.json"] = b"{}"
    with pytest.raises(ConfigError, match="unsafe entry"):
        pull(model(), tmp_path / "m", hub)
    assert not (tmp_path / "escape.json").exists()


def test_unknown_repositories_and_revisions_are_one_line(hub, tmp_path) -> None:
    with pytest.raises(ConfigError, match="no such repository"):
        pull(Model("x", "", (Part("maker/none", COMMIT),)), tmp_path, hub)
    with pytest.raises(ConfigError, match="revision/unknown: no such repository, revision"):
        pull(Model("x", "", (Part(REPO, "unknown"),)), tmp_path, hub)


def test_two_repositories_become_one_directory(hub, fake_hub, tmp_path) -> None:
    fake_hub.files["maker/base"] = {"config.json": b"{}"}
    for path in ("checkpoint/model.json", "package/checkpoint/model.json"):
        fake_hub.files["maker/head"] = {path: b"{}"}
        parts = (Part("maker/head", COMMIT, "package"), Part("maker/base", COMMIT, "base"))
        out = tmp_path / path.replace("/", "-")
        pull(Model("two", "MIT", parts), out, hub)
        assert (out / "package" / "checkpoint" / "model.json").exists()
        assert (out / "base" / "config.json").exists()


def test_no_credentials_are_sent(hub, fake_hub, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "unused")
    pull(model(), tmp_path, hub)
    assert fake_hub.tokens == []


def test_progress_reaches_the_size_of_every_file(hub, tmp_path) -> None:
    last: dict[str, tuple[int, int]] = {}
    pull(model(), tmp_path, hub, lambda step, done, total: last.update({step: (done, total)}))
    assert last["model.safetensors"] == (len(BIG), len(BIG))


def test_the_command_prints_what_it_fetched(hub, fake_hub, tmp_path, capsys) -> None:
    out = tmp_path / "got"
    assert main(["pull", f"{REPO}@main", "--from", fake_hub.url, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"{REPO}@{COMMIT}" in printed
    assert f"serve it: systone serve --model {out}" in printed


def test_every_row_is_pinned_to_commits() -> None:
    for row in MODELS.values():
        for part in row.parts:
            assert len(part.revision) == 40, row.name
            assert int(part.revision, 16)
    assert len({part.folder for part in MODELS["open-jev-9b"].parts}) == 2


def test_a_name_is_a_row_a_row_at_a_revision_or_a_repository() -> None:
    assert find("laya") is MODELS["laya"]
    other = find("open-jev-9b@abc")
    assert (other.parts[0].revision, other.parts[0].pins) == ("abc", {})
    assert other.parts[1] == MODELS["open-jev-9b"].parts[1]
    assert find("a/b@v1").parts[0] == Part("a/b", "v1")
    for wrong in ("nothing", "a/b", "laya@", "a/b/c@v"):
        with pytest.raises(ConfigError):
            find(wrong)


def test_the_client_library_is_asked_for_when_missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"systone\[pull\]"):
        Hub()


def test_a_hub_that_cannot_be_reached_is_one_line(fake_hub, tmp_path: Path) -> None:
    with (
        Hub("http://127.0.0.1:9") as dead,
        pytest.raises(ConfigError, match=r"127\.0\.0\.1:9/api/.* gave up after 6 tries"),
    ):
        pull(model(), tmp_path, dead)
    with pytest.raises(ConfigError, match="is not the address"):
        Hub("file:///etc")


def test_a_store_without_ranges_starts_the_file_over(hub, fake_hub, tmp_path) -> None:
    fake_hub.break_after, fake_hub.ranged = [100_000], False
    pull(model(), tmp_path, hub)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG
    assert fake_hub.ranges("model.safetensors") == [None, "bytes=100000-"]


def test_a_file_changed_since_is_fetched_again(hub, tmp_path) -> None:
    pull(model(), tmp_path, hub)
    (tmp_path / "model.safetensors").write_bytes(BIG[::-1])
    pull(model(), tmp_path, hub)
    assert (tmp_path / "model.safetensors").read_bytes() == BIG


def test_a_listing_in_pages_is_read_to_its_end(hub, fake_hub, tmp_path) -> None:
    fake_hub.page = 2
    assert pull(model(), tmp_path, hub).num_files == 3


def test_a_full_disk_is_told_before_anything_is_fetched(
    hub, fake_hub, tmp_path, monkeypatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(ConfigError, match="300,004 bytes are to be fetched, 1,000 are free"):
        pull(model(), tmp_path, hub)
    assert fake_hub.ranges("model.safetensors") == []
