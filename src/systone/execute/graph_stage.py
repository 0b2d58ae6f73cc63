"""The tables of passes in flight: two pinned host slots that alternate, one buffer on the device.

A pass travels in one copy. Where an array lies depends on the capacities it is laid out for, never
on the pass, so that a captured graph finds it again; what the tail reads lies first, at places that
are the same for every token bucket. Arrays no kernel reads stay on the host. Words are int32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from systone.errors import EngineFaultError
from systone.execute.buckets import Bucket, Size, row_bucket
from systone.execute.kept_words import Kept, KeptWords
from systone.kernels.work import COUNTS, Scan, WorkTables, work_arrays
from systone.plan.tables import CHUNK, I32, PassTables

_ALIGN = 4  # words: every array starts on a 16-byte border
_SLOTS = 2
_SHORT_TOKENS = 512  # of a pass with short attention tiles and one scan for all its segments
_SIZES_KEPT = 256
# And what pad rows hold. One without a token is zero in every layer: a device at the limit of its
# power then runs its products a little quicker.
_TOKEN_ARRAYS = {"token_ids": -1, "positions": 0, "conv_prev": -1}
_NOT_ARRAYS = ("tile_tokens", "scans")
_READOUT_ARRAYS = ("readout_token", "readout_seg", "readout_query")

Place = tuple[int, tuple[int, ...]]  # first word, shape at full capacity


@dataclass(frozen=True, slots=True)
class StageRoom:
    """The most a pass may hold. `tile_tokens`: queries of an attention tile, `short_tile_tokens`
    in short passes (None: the same)."""

    tokens: int
    segments: int
    ancestors: int
    readouts: int
    tile_tokens: int
    short_tile_tokens: int | None = None

    def tile_of(self, tokens: int) -> int:
        """Queries of a tile in a pass of `tokens` padded tokens."""
        if self.short_tile_tokens is None or tokens > _SHORT_TOKENS:
            return self.tile_tokens
        return self.short_tile_tokens


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a trunk's tables are laid out for; `depth`: depths with inner segments."""

    tokens: int
    segments: int
    chunks: int
    depth: int

    @classmethod
    def of_bucket(cls, bucket: Bucket, depth: int) -> Capacity:
        return cls(bucket.tokens, bucket.segments, bucket.chunks, depth)

    @classmethod
    def of_size(cls, size: Size, rows: int) -> Capacity:
        """Exactly one pass, at `rows` padded tokens."""
        return cls(rows, size.segments, size.chunks, size.depth)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Every scan a pass of this capacity may need; one without entries does nothing. Short
        passes have few ancestors: walking them again costs less than a launch for each depth."""
        short = Scan.at(self.depth, leaf=True, long=False)
        if self.tokens <= CHUNK and self.depth == 0:
            return (short,)
        if self.tokens <= _SHORT_TOKENS:
            return (Scan.of_all(self.depth),)
        inner = tuple(Scan.at(depth, leaf=False, long=True) for depth in range(self.depth))
        return (*inner, short, Scan.at(self.depth + 1, leaf=True, long=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How passes of one size travel: the places of their arrays, the tensors that kernels read, and
    what is copied from which slot to where."""

    places: Mapping[str, Place]
    depth: int
    staged: WorkTables
    sent: torch.Tensor
    from_slot: tuple[torch.Tensor, ...]


class PassStage:
    """Used by one thread and one stream."""

    def __init__(
        self, room: StageRoom, device: torch.device, stream: torch.cuda.Stream | None = None
    ) -> None:
        """`stream`: the one that is current whenever a pass is sent; None: looked up each time."""
        self.room = room
        self.stream = stream
        self._tail = _placed(_tail_shapes(room), 0)
        size = stage_bytes(room) // 4
        cuda = device.type == "cuda"
        self._hosts = [torch.empty(size, dtype=torch.int32, pin_memory=cuda) for _ in range(_SLOTS)]
        self._device = torch.empty(size, dtype=torch.int32, device=device)
        self._left = [_event() for _ in range(_SLOTS)] if cuda else []
        self._next = 0
        self._words: list[NDArray[np.int32]] = [host.numpy() for host in self._hosts]
        # what depends on sizes only, for the sizes of late: most passes come in few
        self._plan = lru_cache(_SIZES_KEPT)(self._plan_for)
        self._kept = KeptWords()
        self._held: list[Kept | None] = [None] * _SLOTS  # what a slot holds beside token ids
        self.before_copy: Callable[[], None] | None = None  # the first device work of a pass

    @property
    def num_bytes(self) -> int:
        """On the device."""
        return self._device.numel() * 4

    def load(self, tables: PassTables, capacity: Capacity, readouts: int) -> WorkTables:
        """Send a pass, padded to the capacity's tokens and to `readouts`. The copy is ordered
        before what is launched next on the current stream.

        Raises EngineFaultError: it doesn't fit."""
        plan = self._plan(capacity, readouts)
        slot, self._next = self._next, (self._next + 1) % _SLOTS
        if self._left:
            self._left[slot].synchronize()  # the pass before the last has been copied out
        words = self._words[slot]
        kept = self._kept.find(tables, plan)
        if kept is None:
            self._kept.keep(tables, plan, words, self._fill(words, tables, plan))
        else:
            if self._held[slot] is not kept:  # else they are there still
                kept.write(words)
            _fill(words, "token_ids", tables.token_ids, plan.places["token_ids"], 0)
        self._held[slot] = kept
        if self.before_copy is not None:
            self.before_copy()
        plan.sent.copy_(plan.from_slot[slot], non_blocking=True)
        if self._left:
            self._left[slot].record(self.stream)
        return plan.staged

    def _fill(
        self, words: NDArray[np.int32], tables: PassTables, plan: _Plan
    ) -> list[tuple[int, int]]:
        """Write every array to its place; the words from each first one to the one after the
        last."""
        arrays = work_arrays(tables, plan.staged.tile_tokens)
        arrays["scan_ptr"] = _deepened(arrays["scan_ptr"], plan.depth)
        readouts = plan.staged.num_readouts
        return [
            (
                place[0],
                _fill(words, name, arrays[name], place, readouts if name in _READOUT_ARRAYS else 0),
            )
            for name, place in plan.places.items()
        ]

    def _require_room(self, capacity: Capacity, readouts: int) -> None:
        for name, asked, most in (
            ("token_ids", capacity.tokens, row_bucket(self.room.tokens)),
            ("seg_len", capacity.segments, self.room.segments),
            ("readout_token", readouts, self.room.readouts),
        ):
            if asked > most:
                raise EngineFaultError(
                    f"a pass has {asked} rows of {name}; the device was set up for {most}"
                )

    def _plan_for(self, capacity: Capacity, readouts: int) -> _Plan:
        self._require_room(capacity, readouts)
        tile = self.room.tile_of(capacity.tokens)
        places = {**self._tail, **_placed(_trunk_shapes(capacity, tile), _end(self._tail))}
        views = {name: self._view(*place) for name, place in places.items()}
        views |= {name: views[name][:readouts] for name in _READOUT_ARRAYS}
        nothing = self._device[:0]
        unread = {f.name: nothing for f in fields(WorkTables) if f.name not in _NOT_ARRAYS}
        staged = WorkTables(**unread | views, tile_tokens=tile, scans=capacity.scans)
        end = _end(places)
        sources = tuple(host[:end] for host in self._hosts)
        return _Plan(places, capacity.depth, staged, self._device[:end], sources)

    def _view(self, begin: int, shape: tuple[int, ...]) -> torch.Tensor:
        return self._device[begin : begin + prod(shape)].view(shape)


def stage_bytes(room: StageRoom) -> int:
    """What a `PassStage` takes on the device, and per slot on the host."""
    tokens = row_bucket(room.tokens)
    largest = Capacity(tokens, room.segments, tokens // CHUNK + room.segments, room.segments)
    tail = _end(_placed(_tail_shapes(room), 0))
    return 4 * _end(_placed(_trunk_shapes(largest, room.tile_of(tokens)), tail))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


def _tail_shapes(room: StageRoom) -> dict[str, tuple[int, ...]]:
    return {
        "counts": (COUNTS,),
        **dict.fromkeys(_READOUT_ARRAYS, (room.readouts,)),
        "seg_start": (room.segments,), "seg_len": (room.segments,),
        "anc_ptr": (room.segments + 1,), "anc_seg": (room.ancestors,),
    }  # fmt: skip


def _trunk_shapes(capacity: Capacity, tile_tokens: int) -> dict[str, tuple[int, ...]]:
    """A segment adds at most one tile beyond the whole ones."""
    tokens, chunks = capacity.tokens, capacity.chunks
    tiles = tokens // tile_tokens + capacity.segments
    return {
        "token_ids": (tokens,), "positions": (tokens,), "conv_prev": (tokens, 3),
        "chunk_start": (chunks,), "chunk_len": (chunks,), "chunk_tile": (chunks,),
        "tile_seg": (tiles,), "tile_first": (tiles,),
        "scan_ptr": (capacity.depth + 3,), "scan_entries": (capacity.segments, 4),
    }  # fmt: skip


def _placed(shapes: Mapping[str, tuple[int, ...]], begin: int) -> dict[str, Place]:
    places = {}
    for name, shape in shapes.items():
        places[name] = (begin, shape)
        begin += -(-prod(shape) // _ALIGN) * _ALIGN
    return places


def _end(places: Mapping[str, Place]) -> int:
    begin, shape = list(places.values())[-1]
    return begin + -(-prod(shape) // _ALIGN) * _ALIGN


def _deepened(pointer: I32, depth: int) -> I32:
    """`scan_ptr` [G + 3] as one of `depth` >= G inner depths: the further ones are empty."""
    missing = depth + 3 - pointer.shape[0]
    if missing < 0:
        raise EngineFaultError(f"a pass has {-missing} more depths than its graph")
    inner = pointer[:-2]
    return np.concatenate([inner, inner[-1:].repeat(missing), pointer[-2:]])


def _fill(words: NDArray[np.int32], name: str, array: I32, place: Place, rows: int) -> int:
    """Write an array to its place, padded where it is padded; the word after it."""
    begin, shape = place
    count, room = array.shape[0], shape[0]
    padded = room if name in _TOKEN_ARRAYS else max(rows, count)
    if padded > room or count > padded:
        raise EngineFaultError(f"a pass has {count} rows of {name}; there is room for {room}")
    width = 1 if len(shape) == 1 else shape[1]
    filled, end = begin + count * width, begin + padded * width
    words[begin:filled] = array if width == 1 else array.reshape(-1)
    if end > filled:
        words[filled:end] = _TOKEN_ARRAYS.get(name, 0)
    return end
