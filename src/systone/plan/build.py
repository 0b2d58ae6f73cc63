"""The tables of one pass from the tries it runs, by array arithmetic only.

Each table is a function of a segment's own path, so a row's entries are the same whatever else is
in the pass, up to the offset of its segments. Axes as in `tables`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systone.plan.build_few import FEW_SEGMENTS, build_few
from systone.plan.layout import lay_out, starts_of
from systone.plan.passes import Part
from systone.plan.tables import CHUNK, CONV_HISTORY, I32, TILES, PassTables
from systone.plan.trie import Trie

_BACK = np.arange(1, CONV_HISTORY + 1, dtype=np.int32)
# of a [3, 3] block of a segment's first tokens by entries, those that cross its border (flat), and
# how many tokens before the segment each of them lies, less one
_CROSSING = np.array([0, 1, 2, 4, 5, 8], np.int32)
_CROSSED = np.array([0, 1, 2, 0, 1, 0], np.int32)
_TILE_OF = np.array([0] + [min(t for t in TILES if t >= n) for n in range(1, CHUNK + 1)], np.int32)


def build_tables(parts: Sequence[Part]) -> PassTables:
    """Tables of one pass: the parts' segments back to back, read-outs in part and row order."""
    tries = [lay_out(part.trie) for part in parts]
    if len(tries) == 1 and 0 < tries[0].num_nodes <= FEW_SEGMENTS:
        return build_few(tries[0], parts[0].rows)
    return _build_many(parts, tries)


def _build_many(parts: Sequence[Part], tries: Sequence[Trie]) -> PassTables:
    per_row = _joined([trie.row_readouts for trie in tries])
    num_readouts = np.array([trie.num_readouts for trie in tries], np.int32)
    token_ids = _joined([trie.token_ids for trie in tries])
    length = _joined([trie.node_len for trie in tries])
    depth = _joined([trie.node_depth for trie in tries])
    position = _joined([trie.node_position for trie in tries])
    parent = _joined([trie.node_parent for trie in tries])
    anc_seg = _joined([trie.node_ancestors for trie in tries])
    readout_seg = _joined([trie.row_node.repeat(trie.row_readouts) for trie in tries])
    if len(tries) > 1:
        num_nodes = np.array([trie.num_nodes for trie in tries], np.int32)
        base = starts_of(num_nodes)[:-1]
        parent = np.where(parent < 0, parent, parent + base.repeat(num_nodes))
        anc_seg = anc_seg + base.repeat([trie.node_ancestors.shape[0] for trie in tries])
        readout_seg = readout_seg + base.repeat(num_readouts)
    starts = starts_of(length)
    start, end = starts[:-1], starts[1:]
    tokens = np.arange(starts[-1], dtype=np.int32)
    chunk_ptr, chunk_seg, chunk_start, chunk_len = _chunks(start, length)
    inner_ptr, inner_seg, leaf_seg, state_slot = _states(parent, depth)
    return PassTables(
        token_ids=token_ids,
        positions=tokens + (position - start).repeat(length),
        conv_prev=_conv_prev(tokens, start, end, length, parent),
        seg_start=start,
        seg_len=length,
        seg_parent=parent,
        seg_depth=depth,
        start_position=position.repeat(3).reshape(-1, 3),
        next_position=position + length,
        anc_ptr=starts_of(depth),
        anc_seg=anc_seg,
        seg_chunk_ptr=chunk_ptr,
        chunk_seg=chunk_seg,
        chunk_start=chunk_start,
        chunk_len=chunk_len,
        chunk_tile=_TILE_OF[chunk_len],
        inner_ptr=inner_ptr,
        inner_seg=inner_seg,
        leaf_seg=leaf_seg,
        state_slot=state_slot,
        parent_slot=np.where(parent < 0, np.int32(-1), state_slot[parent]),
        readout_token=start[readout_seg] + _joined([trie.readout_offset for trie in tries]),
        readout_seg=readout_seg,
        readout_request=np.arange(len(parts), dtype=np.int32).repeat(num_readouts),
        readout_row=_joined([part.rows for part in parts]).repeat(per_row),
        readout_query=(starts_of(per_row)[1:] - np.int32(1)).repeat(per_row),
    )


def _joined(arrays: list[I32]) -> I32:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _chunks(start: I32, length: I32) -> tuple[I32, I32, I32, I32]:
    """(pointer [S + 1], segment, flat start and length [C]) of every 64-token chunk."""
    count = (length + np.int32(CHUNK - 1)) // np.int32(CHUNK)
    pointer = starts_of(count)
    total = int(pointer[-1])
    segment = np.arange(start.shape[0], dtype=np.int32).repeat(count)
    inside = (np.arange(total, dtype=np.int32) - pointer[segment]) * np.int32(CHUNK)
    return (
        pointer,
        segment,
        start[segment] + inside,
        np.minimum(length[segment] - inside, np.int32(CHUNK)),
    )


def _states(parent: I32, depth: I32) -> tuple[I32, I32, I32, I32]:
    """(pointer by depth [G + 1], inner segments by depth, leaves, slot [S] or -1)."""
    inner = np.zeros(parent.shape[0], bool)
    inner[parent[parent >= 0]] = True
    segments = inner.nonzero()[0].astype(np.int32)
    levels = depth[segments]
    segments = segments[levels.argsort(kind="stable")]
    slot = np.full(parent.shape[0], -1, np.int32)
    slot[segments] = np.arange(segments.shape[0], dtype=np.int32)
    pointer = starts_of(np.bincount(levels).astype(np.int32))
    return pointer, segments, (~inner).nonzero()[0].astype(np.int32), slot


def _conv_prev(tokens: I32, start: I32, end: I32, length: I32, parent: I32) -> I32:
    """[T, 3] flat index of the tokens 1, 2, 3 before each token on its path, -1 for none."""
    previous = tokens[:, None] - _BACK
    before = _tokens_before(end, length, parent)
    # a segment's first three tokens look back across its border: 3, 2 and 1 entries
    entry = start[:, None] * np.int32(CONV_HISTORY) + _CROSSING
    value = before[:, _CROSSED]
    if length.min() < CONV_HISTORY:
        inside = length[:, None] > _CROSSING // CONV_HISTORY
        entry, value = entry[inside], value[inside]
    previous.reshape(-1)[entry] = value
    return previous


def _tokens_before(end: I32, length: I32, parent: I32) -> I32:
    """[S, 3] flat index of the tokens 1, 2, 3 before each segment's first token."""
    before = end[parent][:, None] - _BACK
    (short,) = ((parent >= 0) & (length[parent] < CONV_HISTORY)).nonzero()
    if short.size:
        before[short] = _past_short_parents(parent[short], end, length, parent)
    before[parent < 0] = -1
    return before


def _past_short_parents(at: I32, end: I32, length: I32, parent: I32) -> I32:
    """As `_tokens_before` for children of the segments `at`, any of which may be too short."""
    back = np.tile(_BACK, (at.shape[0], 1))
    at = np.repeat(at[:, None], CONV_HISTORY, axis=1)
    # what a segment of one or two tokens lacks, its own parent has; every hop takes at least one
    # token, so two hops are enough
    for _ in range(CONV_HISTORY - 1):
        short = (at >= 0) & (back > length[at])
        back = np.where(short, back - length[at], back)
        at = np.where(short, parent[at], at)
    return np.where(at < 0, np.int32(-1), end[at] - back)
