"""Tables on their way to a device: their places, padding and bounds. On the CPU."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from systone.errors import EngineFaultError
from systone.execute.buckets import Bucket, Size
from systone.execute.graph_stage import Capacity, PassStage, StageRoom
from systone.execute.kept_words import KeptWords
from systone.execute.selfcheck_rows import check_rows, pass_of, sample_pass
from systone.kernels.work import COUNTS, READOUTS, TILES, Scan, WorkTables, work_arrays
from systone.plan import TablesMemo
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.plan.test_memo import part_of

ROOM = StageRoom(tokens=4096, segments=256, ancestors=512, readouts=64, tile_tokens=32)
CPU = torch.device("cpu")


@pytest.fixture
def stage() -> PassStage:
    return PassStage(ROOM, CPU)


def places(tables: WorkTables) -> dict[str, int]:
    names = ("token_ids", "conv_prev", "chunk_tile", "scan_entries", "tile_first", "seg_start")
    return {name: getattr(tables, name).data_ptr() for name in names}


@pytest.mark.parametrize("shared", [True, False])
def test_what_kernels_read_arrives(stage: PassStage, shared: bool) -> None:
    tables = pass_of(check_rows(1000), shared=shared)
    size = Size.of(tables)
    staged = stage.load(tables, Capacity.of_size(size, 2176), 32)
    arrays = work_arrays(tables, 32)
    arrays["scan_ptr"] = arrays["scan_ptr"][: staged.scan_ptr.shape[0]]
    read = [name for name in arrays if getattr(staged, name).numel()]
    assert {"token_ids", "scan_ptr", "anc_seg", "readout_query", "counts"} <= set(read)
    for name in read:
        array = torch.from_numpy(arrays[name])
        assert torch.equal(getattr(staged, name)[: array.shape[0]], array), name
    assert staged.counts[READOUTS] == size.readouts
    assert staged.num_tokens == 2176
    assert staged.num_readouts == 32


def test_pad_rows_read_token_0_and_nothing_before_them(stage: PassStage) -> None:
    big = pass_of(check_rows(1000), shared=True)
    for _ in range(2):  # both slots hold something else before
        stage.load(big, Capacity.of_size(Size.of(big), 2048), 64)
    small = sample_pass(1000, 1)
    staged = stage.load(small, Capacity.of_bucket(Bucket(64), 1), 8)
    rows = small.num_tokens
    assert (staged.token_ids[rows:] == -1).all()
    assert not staged.positions[rows:].any()
    assert (staged.conv_prev[rows:] == -1).all()
    assert staged.readout_token[2:].tolist() == [0] * 6
    assert staged.readout_seg[2:].tolist() == [0] * 6


def test_a_bucket_has_the_same_places_for_every_pass(stage: PassStage) -> None:
    capacity = Capacity.of_bucket(Bucket(64), 2)
    first = places(stage.load(sample_pass(1000, 2), capacity, 8))
    second = places(stage.load(sample_pass(1000, 0), capacity, 16))
    assert first == second
    other = places(stage.load(sample_pass(1000, 0), Capacity.of_bucket(Bucket(128), 0), 8))
    assert other["seg_start"] == first["seg_start"]  # what the tail reads never moves
    assert other["chunk_tile"] != first["chunk_tile"]


def test_depths_beyond_a_pass_are_empty(stage: PassStage) -> None:
    staged = stage.load(sample_pass(1000, 1), Capacity.of_bucket(Bucket(128), 3), 8)
    assert staged.scan_ptr.tolist() == [0, 1, 1, 1, 3, 3]
    assert staged.scans == (Scan(0, 3, 5, leaf=False, long=True),)


def test_short_passes_are_scanned_in_one_launch() -> None:
    scans = lambda tokens, depth: Capacity.of_bucket(Bucket(tokens), depth).scans  # noqa: E731
    assert scans(64, 0) == (Scan.at(0, leaf=True, long=False),)
    assert scans(128, 0) == (Scan(0, 0, 2, leaf=True, long=True),)
    assert scans(64, 1) == (Scan(0, 1, 3, leaf=False, long=True),)
    assert [s.whole for s in scans(512, 2)] == [True]
    assert scans(576, 2) == (
        Scan.at(0, leaf=False, long=True), Scan.at(1, leaf=False, long=True),
        Scan.at(2, leaf=True, long=False), Scan.at(3, leaf=True, long=True),
    )  # fmt: skip


def test_short_passes_have_short_tiles() -> None:
    stage = PassStage(replace(ROOM, short_tile_tokens=16), CPU)
    tables = naive_tables([[[list(range(100))]]])
    tiles = {}
    for tokens in (512, 576):
        staged = stage.load(tables, Capacity.of_bucket(Bucket(tokens), 0), 8)
        tiles[staged.tile_tokens] = int(staged.counts[TILES])
    assert tiles == {16: 7, 32: 4}


def test_a_pass_deeper_than_its_graph_is_refused(stage: PassStage) -> None:
    with pytest.raises(EngineFaultError, match="2 more depths"):
        stage.load(sample_pass(1000, 2), Capacity.of_bucket(Bucket(64), 0), 8)


def test_a_pass_that_does_not_fit_is_refused(stage: PassStage) -> None:
    tables = pass_of(check_rows(1000), shared=True)
    with pytest.raises(EngineFaultError, match="token_ids"):
        stage.load(tables, Capacity.of_bucket(Bucket(512), 2), 32)
    narrow = PassStage(StageRoom(2048, 256, 512, 16, 32), CPU)
    with pytest.raises(EngineFaultError, match="readout_token"):
        narrow.load(tables, Capacity.of_size(Size.of(tables), 2048), 32)


def test_the_largest_pass_fits() -> None:
    stage = PassStage(ROOM, CPU)
    capacity = Capacity(4096, 256, 4096 // 64 + 256, 256)
    assert stage.load(sample_pass(1000, 0), capacity, 64).counts.shape == (COUNTS,)


def test_a_pass_beyond_what_the_device_was_set_up_for_is_refused(stage: PassStage) -> None:
    for capacity, name in ((Capacity(5120, 1, 80, 0), "token_ids"),
                           (Capacity(64, 300, 300, 0), "seg_len")):  # fmt: skip
        with pytest.raises(EngineFaultError, match=f"{name}; the device was set up"):
            stage.load(sample_pass(1000, 0), capacity, 8)
    with pytest.raises(EngineFaultError, match="readout_token"):
        stage.load(sample_pass(1000, 0), Capacity(64, 4, 4, 0), 128)


def test_a_pass_stays_in_its_slot_until_the_pass_after_the_next(stage: PassStage) -> None:
    capacity = Capacity.of_bucket(Bucket(64), 2)
    first, second = sample_pass(1000, 1), sample_pass(1000, 2)
    stage.load(first, capacity, 8)
    held = [host.clone() for host in stage._hosts]
    stage.load(second, capacity, 8)
    changed = [not torch.equal(a, b) for a, b in zip(held, stage._hosts, strict=True)]
    assert changed == [False, True]
    stage.load(second, capacity, 8)
    assert not torch.equal(held[0], stage._hosts[0])


def test_a_structure_that_comes_again_arrives_whole_with_its_own_tokens(stage: PassStage) -> None:
    memo = TablesMemo()
    room = Capacity.of_bucket(Bucket(128), 2)
    for start in (0, 200, 400):
        tables = memo.of(part_of([[40, 9, 3], [40, 9, 5], [40, 12]], start))
        stage.load(pass_of(check_rows(1000), shared=True), Capacity.of_bucket(Bucket(2048), 2), 64)
        staged = stage.load(tables, room, 8)
        fresh = PassStage(ROOM, CPU).load(tables, room, 8)
        for field in fields(WorkTables):
            got, wanted = getattr(staged, field.name), getattr(fresh, field.name)
            if isinstance(got, torch.Tensor):
                assert got.shape == wanted.shape
            else:
                assert got == wanted
        arrays = work_arrays(tables, 32)
        arrays["scan_ptr"] = fresh.scan_ptr.numpy()
        for name, array in arrays.items():
            placed = getattr(staged, name)
            if placed.numel():
                assert placed[: array.shape[0]].numpy().tolist() == array.tolist(), name
        assert staged.token_ids[: tables.num_tokens].tolist() == tables.token_ids.tolist()
        assert (staged.token_ids[tables.num_tokens :] == -1).all()


def test_the_same_structure_in_another_layout_is_laid_out_anew(stage: PassStage) -> None:
    memo = TablesMemo()
    for start, tokens, readouts in ((0, 64, 8), (9, 128, 8), (18, 64, 16), (27, 64, 8)):
        tables = memo.of(part_of([[20, 3]], start))
        staged = stage.load(tables, Capacity.of_bucket(Bucket(tokens), 1), readouts)
        assert staged.token_ids.shape == (tokens,)
        assert staged.positions[:23].tolist() == list(range(23))
        assert staged.readout_token[0] == 22
        assert staged.token_ids[:23].tolist() == tables.token_ids.tolist()


def test_a_slot_that_holds_a_structure_still_is_given_its_tokens_only(stage: PassStage) -> None:
    memo, room = TablesMemo(), Capacity.of_bucket(Bucket(128), 2)
    first, other = [[40, 9, 3], [40, 9, 5]], [[40, 9], [40, 7, 6]]
    for start, lengths in enumerate([first] * 5 + [other] * 2 + [first, other] * 3 + [first] * 4):
        tables = memo.of(part_of(lengths, 100 * start))
        staged = stage.load(tables, room, 8)
        fresh = PassStage(ROOM, CPU).load(tables, room, 8)
        for name in ("token_ids", "conv_prev", "seg_start", "anc_seg", "readout_token"):
            wanted = getattr(fresh, name)
            used = len(getattr(tables, name))
            assert torch.equal(getattr(staged, name)[:used], wanted[:used]), name
    marked = stage._hosts[stage._next]
    place = stage._plan(room, 8).places["positions"][0]
    marked[place] = 77  # proof that nothing but token ids is written
    assert stage.load(memo.of(part_of(first, 9000)), room, 8).positions[0] == 77


def test_kept_words_are_bounded_and_those_of_the_tables_asked_for() -> None:
    memo, kept = TablesMemo(), KeptWords(max_entries=2)
    made = [memo.of(part_of([[n]], 0)) for n in (3, 4, 5)]
    words = np.zeros(4, np.int32)
    for at, tables in enumerate(made):
        kept.keep(tables, "here", np.full(4, at, np.int32), [(0, 4)])
    assert len(kept) == 2
    assert kept.find(made[0], "here") is None
    assert kept.find(made[2], "there") is None
    found = kept.find(made[2], "here")
    assert found is not None
    found.write(words)
    assert words.tolist() == [2] * 4
    other = pass_of(check_rows(1000), shared=True)  # may be written to: never kept
    kept.keep(other, "here", words, [(0, 4)])
    assert kept.find(other, "here") is None


def test_of_an_entry_only_what_was_written_is_kept() -> None:
    kept = KeptWords()
    tables = TablesMemo().of(part_of([[3]], 0))
    kept.keep(tables, "here", np.arange(3000, dtype=np.int32), [(2000, 2003), (4, 6), (8, 9)])
    words = np.full(3000, -1, np.int32)
    found = kept.find(tables, "here")
    assert found is not None
    found.write(words)
    assert np.flatnonzero(words >= 0).tolist() == [4, 5, 6, 7, 8, 2000, 2001, 2002]
    assert (words[words >= 0] == np.flatnonzero(words >= 0)).all()
    kept.keep(tables, "here", np.zeros(200_000, np.int32), [(0, 65_537)])  # too many
    assert kept.find(tables, "here") is found
