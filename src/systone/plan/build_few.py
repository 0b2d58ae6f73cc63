"""The tables of a pass of few segments: one request alone, whose caller waits for them.

The same as `build` makes, entry by entry in Python: there an array costs as much for seven segments
as for seven hundred. Every small table is a view of one array. Axes as in `tables`.
"""

from __future__ import annotations

from itertools import accumulate, chain

import numpy as np

from systone.plan.tables import CHUNK, CONV_HISTORY, I32, TILES, PassTables
from systone.plan.trie import Trie

__all__ = ["FEW_SEGMENTS", "build_few"]

FEW_SEGMENTS = 24

_KEPT = 4096  # tokens of a usual pass
_TOKENS = np.arange(_KEPT, dtype=np.int32)
_BACK = np.arange(1, CONV_HISTORY + 1, dtype=np.int32)
_PREVIOUS = _TOKENS[:, None] - _BACK
_TILE_OF = [0] + [min(t for t in TILES if t >= n) for n in range(1, CHUNK + 1)]

Lists = dict[str, list[int]]


def build_few(trie: Trie, rows: I32) -> PassTables:
    """Tables of one pass over the trie's nodes, once each; `rows`: what its rows are called."""
    length, parent = trie.node_len.tolist(), trie.node_parent.tolist()
    end = [*accumulate(length)]
    start = [0, *end[:-1]]
    made = _chunks(start, length) | _states(parent, trie.node_depth.tolist())
    made |= _readouts(trie, start, rows.tolist())
    entries, before = _crossing(start, end, length, parent)
    position = trie.node_position.tolist()
    made |= {
        "seg_start": start,
        "shift": [p - s for p, s in zip(position, start, strict=True)],
        "start_position": [p for p in position for _ in range(3)],
        "next_position": [p + n for p, n in zip(position, length, strict=True)],
        "anc_ptr": [0, *accumulate(trie.node_depth.tolist())],
        "entries": entries,
        "before": before,
    }
    arrays = _views(made)
    tokens = end[-1]
    previous = _previous(tokens)
    previous.reshape(-1)[arrays.pop("entries")] = arrays.pop("before")
    positions = arrays.pop("shift").repeat(trie.node_len)
    positions += _TOKENS[:tokens] if tokens <= _KEPT else np.arange(tokens, dtype=np.int32)
    return PassTables(
        token_ids=trie.token_ids,
        positions=positions,
        conv_prev=previous,
        seg_len=trie.node_len,
        seg_parent=trie.node_parent,
        seg_depth=trie.node_depth,
        anc_seg=trie.node_ancestors,
        start_position=arrays.pop("start_position").reshape(-1, 3),
        **arrays,
    )


def _views(lists: Lists) -> dict[str, I32]:
    """Each list as part of one array."""
    block = np.array([*chain.from_iterable(lists.values())], np.int32)
    ends = accumulate(map(len, lists.values()))
    return {
        name: block[end - len(each) : end]
        for (name, each), end in zip(lists.items(), ends, strict=True)
    }


def _chunks(start: list[int], length: list[int]) -> Lists:
    """Every 64-token chunk, in segment order."""
    pointer = [0]
    segment: list[int] = []
    begin: list[int] = []
    tokens: list[int] = []
    tile: list[int] = []
    for at, (first, count) in enumerate(zip(start, length, strict=True)):
        whole, last = divmod(count - 1, CHUNK)  # what comes before the last one is whole
        segment += [at] * (whole + 1)
        begin += range(first, first + count, CHUNK)
        tokens += [CHUNK] * whole
        tokens.append(last + 1)
        tile += [CHUNK] * whole
        tile.append(_TILE_OF[last + 1])
        pointer.append(len(segment))
    return {
        "seg_chunk_ptr": pointer,
        "chunk_seg": segment,
        "chunk_start": begin,
        "chunk_len": tokens,
        "chunk_tile": tile,
    }


def _states(parent: list[int], depth: list[int]) -> Lists:
    """Inner segments by depth, leaves, and the slots of states."""
    inner = sorted(set(parent) - {-1}, key=lambda at: (depth[at], at))
    slot = [-1] * len(parent)
    for at, segment in enumerate(inner):
        slot[segment] = at
    levels = [depth[at] for at in inner]
    deepest = levels[-1] if levels else -1
    return {
        "inner_ptr": [0, *accumulate(levels.count(level) for level in range(deepest + 1))],
        "inner_seg": inner,
        "leaf_seg": [at for at, own in enumerate(slot) if own < 0],
        "state_slot": slot,
        "parent_slot": [-1 if p < 0 else slot[p] for p in parent],
    }


def _readouts(trie: Trie, start: list[int], rows: list[int]) -> Lists:
    """Read-outs in row order."""
    made: Lists = {f"readout_{name}": [] for name in ("token", "seg", "request", "row", "query")}
    token, segment, _, of_row, query = made.values()
    offsets = iter(trie.readout_offset.tolist())
    for row, node, count in zip(
        rows, trie.row_node.tolist(), trie.row_readouts.tolist(), strict=True
    ):
        token += [start[node] + next(offsets) for _ in range(count)]
        segment += [node] * count
        of_row += [row] * count
        query += [len(query) + count - 1] * count
    made["readout_request"] = [0] * len(token)
    return made


def _crossing(
    start: list[int], end: list[int], length: list[int], parent: list[int]
) -> tuple[list[int], list[int]]:
    """(flat place in [T, 3], value) of what a segment's first three tokens see across its border:
    3, 2 and 1 entries."""
    places: list[int] = []
    values: list[int] = []
    for at, count in enumerate(length):
        a, b, c = _before(parent[at], end, length, parent)
        place = start[at] * CONV_HISTORY
        if count >= CONV_HISTORY:
            places += (place, place + 1, place + 2, place + 4, place + 5, place + 8)
            values += (a, b, c, a, b, a)
        else:
            places += (place, place + 1, place + 2, place + 4, place + 5)[: 2 * count + 1]
            values += (a, b, c, a, b)[: 2 * count + 1]
    return places, values


def _before(
    above: int, end: list[int], length: list[int], parent: list[int]
) -> tuple[int, int, int]:
    """The tokens 1, 2, 3 before a child of segment `above`."""
    if above < 0:
        return -1, -1, -1
    last = end[above]
    if length[above] >= CONV_HISTORY:
        return last - 1, last - 2, last - 3
    found: list[int] = []
    while above >= 0 and len(found) < CONV_HISTORY:
        found += range(end[above] - 1, end[above] - length[above] - 1, -1)
        above = parent[above]
    a, b, c, *_ = *found, -1, -1, -1
    return a, b, c


def _previous(tokens: int) -> I32:
    """[T, 3] the tokens 1, 2, 3 before each as if there were one segment."""
    if tokens <= _KEPT:
        return _PREVIOUS[:tokens].copy()
    made: I32 = np.arange(tokens, dtype=np.int32)[:, None] - _BACK
    return made
