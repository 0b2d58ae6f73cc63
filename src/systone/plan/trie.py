"""One request's rows as a trie of segments, held as arrays.

A node is a segment under a parent; rows that start with equal segments have common nodes. Whether
a common node runs once, or once for each of its rows, is `shared`: the arrays are the same, so an
unshared request takes no more memory until its pass is built. Nodes are in topological order.
Knows one request only. Axes: V nodes, N rows, R read-outs, T tokens, X ancestor entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

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
        return int(self.row_len.sum()) - self.load.tokens

    @property
    def crosses_questions(self) -> bool:
        """Whether a node that runs serves two questions; if any does, so does its root."""
        if not self.shared:
            return False
        served = set(zip(self.row_root.tolist(), self.row_question.tolist(), strict=True))
        return len(served) > len({root for root, _ in served})

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
    grown = _Grown()
    for row in rows:
        grown.add(row)
    total = sum(grown.row_len)
    computed = sum(grown.node_len)
    return grown.trie(sharing.policy, sharing.applies(total - computed, total))


class _Grown:
    """The arrays of a trie as lists, while its rows are added. Names as in `Trie`."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.node_len: list[int] = []
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.position: list[int] = []
        self.ancestors: list[int] = []
        self.row_node: list[int] = []
        self.row_root: list[int] = []
        self.row_len: list[int] = []
        self.row_question: list[int] = []
        self.row_readouts: list[int] = []
        self.offsets: list[int] = []
        self._children: dict[tuple[int, bytes], int] = {}
        self._inner: set[int] = set()

    def add(self, row: Row) -> None:
        children = self._children
        path: list[int] = []
        node, position = -1, 0
        for segment in row.path:
            key = segment.key
            child = children.get((node, key))
            if child is None:
                child = children[node, key] = len(self.keys)
                self._new(key, node, position, path)
            path.append(child)
            node = child
            position += self.node_len[child]
        if not path:
            raise ValueError("a row needs at least one segment")
        length = self.node_len[node]
        offsets = (length - 1,) if row.readouts is None else row.readouts
        if row.readouts is not None:
            _check_readouts(row.readouts, length)
        self.row_node.append(node)
        self.row_root.append(path[0])
        self.row_len.append(position)
        self.row_question.append(row.question)
        self.row_readouts.append(len(offsets))
        self.offsets += offsets

    def _new(self, key: bytes, parent: int, position: int, path: list[int]) -> None:
        self.keys.append(key)
        self.node_len.append(len(key) // ID_BYTES)
        self.parent.append(parent)
        self.depth.append(len(path))
        self.position.append(position)
        self.ancestors += path
        if parent >= 0:
            self._inner.add(parent)

    def trie(self, policy: Policy, shared: bool) -> Trie:
        """The lists as views of one array: a small array costs as much as its first hundred
        entries."""
        lists = {
            "node_len": self.node_len, "node_parent": self.parent, "node_depth": self.depth,
            "node_position": self.position, "node_ancestors": self.ancestors,
            "row_node": self.row_node, "row_root": self.row_root, "row_len": self.row_len,
            "row_question": self.row_question, "row_readouts": self.row_readouts,
            "readout_offset": self.offsets,
        }  # fmt: skip
        block = np.array([*chain.from_iterable(lists.values())], np.int32)
        ends = accumulate(map(len, lists.values()))
        views = {
            name: block[end - len(each) : end]
            for (name, each), end in zip(lists.items(), ends, strict=True)
        }
        tokens = np.frombuffer(b"".join(self.keys), np.int32)
        inner = len(self._inner)
        return Trie(policy=policy, shared=shared, token_ids=tokens, num_inner=inner, **views)


def _check_readouts(offsets: tuple[int, ...], length: int) -> None:
    rising = all(a < b for a, b in pairwise(offsets))
    if not offsets or offsets[0] < 0 or offsets[-1] >= length or not rising:
        raise ValueError(f"read-outs {offsets} of a segment of {length} tokens")
