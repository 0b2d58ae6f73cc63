"""A trie's nodes as one pass runs them: once each, or once for each row through them.

Only the second needs work here: common nodes are repeated, so that every row has a path of its
own. Array arithmetic only. Axes as in `trie`; P path entries (a row's nodes, root first).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from systone.plan.tables import I32
from systone.plan.trie import Trie


def lay_out(trie: Trie) -> Trie:
    """The trie whose nodes are exactly the segments that run; rows and order stay."""
    if trie.shared or trie.num_rows == 0:
        return trie
    size = trie.node_depth[trie.row_node] + np.int32(1)  # [N] nodes of a row's path
    first = starts_of(size)[:-1]
    entry = np.arange(size.sum(), dtype=np.int32)
    depth = entry - first.repeat(size)
    node = _path_nodes(trie, size, depth)
    return replace(
        trie,
        shared=True,
        token_ids=trie.token_ids[_runs(starts_of(trie.node_len)[node], trie.node_len[node])],
        node_len=trie.node_len[node],
        node_parent=np.where(depth == 0, np.int32(-1), entry - np.int32(1)),
        node_depth=depth,
        node_position=trie.node_position[node],
        node_ancestors=_runs(entry - depth, depth),
        row_node=first + size - np.int32(1),
        row_root=first,
        num_inner=int(size.sum()) - trie.num_rows,
    )


def starts_of(counts: I32) -> I32:
    """[n + 1] running sum from 0: where each of n runs starts, and the end of the last."""
    starts = np.zeros(counts.shape[0] + 1, np.int32)
    counts.cumsum(out=starts[1:])
    return starts


def _path_nodes(trie: Trie, size: I32, depth: I32) -> I32:
    """[P] the node of every path entry: ancestors as listed, then the row's own."""
    own = trie.row_node.repeat(size)
    listed = starts_of(trie.node_depth)[own] + depth
    is_last = depth == trie.node_depth[own]
    node = own.copy()
    node[~is_last] = trie.node_ancestors[listed[~is_last]]
    return node


def _runs(first: I32, count: I32) -> I32:
    """Back to back: `count` consecutive numbers from each of `first`."""
    starts = starts_of(count)
    numbers: I32 = np.arange(starts[-1], dtype=np.int32)
    return numbers + (first - starts[:-1]).repeat(count)
