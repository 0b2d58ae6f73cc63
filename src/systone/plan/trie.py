"""One request's rows as a trie of segments, held as arrays.

A node is a segment under a parent; rows that start with equal segments have common nodes. Whether
a common node runs once, or once for each of its rows, is `shared`: the arrays are the same, so an
unshared request takes no more memory until its pass is built. Nodes are in topological order.
Knows one request only. Axes: V nodes, N rows, R read-outs, T tokens, X ancestor entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from systone.plan.budget import Load
from systone.plan.policy import Policy, Sharing
from systone.plan.tables import I32, ID_BYTES, Row


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """Nodes and rows of one request, or of the part of it that runs in one pass."""

    policy: Policy
    shared: bool  # whether a node runs once for all of its rows
    token_ids: I32  # [T] nodes back to back
    node_len: I32  # [V] >= 1
    node_parent: I32  # [V] -1 for a root, else a smaller index
    node_depth: I32  # [V] 0 for a root
    node_position: I32  # [V] position of the first token on its path
    node_ancestors: I32  # [X] proper ancestors of every node, root first: node_depth of them each
    row_node: I32  # [N] node that ends the row and holds its read-outs
    row_root: I32  # [N] first node of the row's path
    row_len: I32  # [N] tokens of the whole path
    row_question: I32  # [N] index of the row's question in the request
    row_readouts: I32  # [N] read-outs of the row, >= 1
    readout_offset: I32  # [R] token of each within the row's node, row by row, rising
    num_inner: int  # nodes with a child

    @property
    def num_nodes(self) -> int:
        return int(self.node_len.shape[0])

    @property
    def num_rows(self) -> int:
        return int(self.row_node.shape[0])

    @property
    def num_readouts(self) -> int:
        return int(self.readout_offset.shape[0])

    @property
    def load(self) -> Load:
        """What running it asks of a pass."""
        if self.shared:
            return Load(self.token_ids.shape[0], self.num_readouts, self.num_inner)
        forks = int(self.node_depth[self.row_node].sum())
        return Load(int(self.row_len.sum()), self.num_readouts, forks)

    @property
    def saved_tokens(self) -> int:
        """Sum over nodes that run of (rows through the node - 1) x length: all rows' tokens, less
        those that are computed."""
        lengths: list[int] = self.row_len.tolist()
        return sum(lengths) - self.load.tokens

    @property
    def crosses_questions(self) -> bool:
        """Whether a node that runs serves two questions; if any does, so does its root."""
        if not self.shared:
            return False
        roots = self.row_root.tolist()
        served = set(zip(roots, self.row_question.tolist(), strict=True))
        return len(served) > len(set(roots))

    def restrict(self, rows: I32) -> Trie:
        """The trie of these rows only (indices, ascending): what a pass runs of a split request."""
        kept = np.zeros(self.num_nodes, bool)
        frontier = self.row_node[rows]
        while frontier.size:
            kept[frontier] = True
            above = self.node_parent[frontier]
            frontier = np.unique(above[above >= 0])
        renumber = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        of_rows = np.zeros(self.num_rows, bool)
        of_rows[rows] = True
        parent = self.node_parent[kept]
        return Trie(
            policy=self.policy,
            shared=self.shared,
            token_ids=self.token_ids[kept.repeat(self.node_len)],
            node_len=self.node_len[kept],
            node_parent=np.where(parent < 0, np.int32(-1), renumber[parent]),
            node_depth=self.node_depth[kept],
            node_position=self.node_position[kept],
            node_ancestors=renumber[self.node_ancestors[kept.repeat(self.node_depth)]],
            row_node=renumber[self.row_node[rows]],
            row_root=renumber[self.row_root[rows]],
            row_len=self.row_len[rows],
            row_question=self.row_question[rows],
            row_readouts=self.row_readouts[rows],
            readout_offset=self.readout_offset[of_rows.repeat(self.row_readouts)],
            num_inner=int(np.unique(parent[parent >= 0]).size),
        )

    def unshared(self) -> Trie:
        """The same rows, every one to run on a path of its own."""
        return replace(self, shared=False)


def build_trie(rows: Sequence[Row], sharing: Sharing) -> Trie:
    """The trie of a request under a policy. Raises ValueError for a row without a segment, or with
    read-outs that are none, not rising or outside its last segment."""
    nodes: dict[tuple[int, bytes], int] = {}  # (parent, key) -> node
    node_len: list[int] = []
    parent: list[int] = []
    position: list[int] = []
    depth: list[int] = []
    ancestors: list[int] = []
    ends: list[tuple[int, int, int, int, int]] = []  # of each row: what `by_row` below names
    offsets: list[int] = []
    for row in rows:
        node, at = -1, 0
        path: list[int] = []
        for segment in row.path:
            key = node, segment.key
            known = nodes.get(key, -1)
            if known < 0:
                known = nodes[key] = len(node_len)
                node_len.append(len(segment.key) // ID_BYTES)
                parent.append(node)
                position.append(at)
                depth.append(len(path))
                ancestors += path
            node = known
            path.append(node)
            at += node_len[node]
        read = _readouts(row, node_len[node] if path else 0)
        ends.append((node, path[0], at, row.question, len(read)))
        offsets += read
    total = sum(end[2] for end in ends)
    size, split = len(node_len), 4 * len(node_len) + len(ancestors)
    # small arrays as views of one: an array costs as much as its first hundred entries
    block = np.array([*node_len, *parent, *depth, *position, *ancestors, *offsets], np.int32)
    by_row = np.array(ends, np.int32).reshape(len(ends), 5).T.copy()
    return Trie(
        policy=sharing.policy,
        shared=sharing.applies(total - sum(node_len), total),
        token_ids=np.frombuffer(b"".join([key for _, key in nodes]), np.int32),
        node_len=block[:size],
        node_parent=block[size : 2 * size],
        node_depth=block[2 * size : 3 * size],
        node_position=block[3 * size : 4 * size],
        node_ancestors=block[4 * size : split],
        row_node=by_row[0],
        row_root=by_row[1],
        row_len=by_row[2],
        row_question=by_row[3],
        row_readouts=by_row[4],
        readout_offset=block[split:],
        num_inner=len(set(parent) - {-1}),
    )


def _readouts(row: Row, length: int) -> tuple[int, ...]:
    """Offsets of a row's read-outs in its last segment, which has so many tokens."""
    if not length:
        raise ValueError("a row needs at least one segment")
    if row.readouts is None:
        return (length - 1,)
    rising = all(a < b for a, b in pairwise(row.readouts))
    if not row.readouts or row.readouts[0] < 0 or row.readouts[-1] >= length or not rising:
        raise ValueError(f"read-outs {row.readouts} of a segment of {length} tokens")
    return row.readouts
