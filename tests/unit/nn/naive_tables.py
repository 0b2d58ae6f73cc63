"""Pass tables built token by token from their definitions, in plain Python: slow and obvious.

A row is a list of segments, a segment a list of token ids. Checks the planner's own builder too.
"""

from __future__ import annotations

import numpy as np

from systone.plan.tables import CHUNK, TILES, PassTables

Path = list[list[int]]


class _Node:
    def __init__(self, parent: _Node | None, ids: list[int], order: int) -> None:
        self.parent, self.ids, self.order = parent, ids, order
        self.children: list[_Node] = []
        self.path: list[_Node] = [*parent.path, self] if parent else [self]
        self.start = 0
        if parent:
            parent.children.append(self)

    @property
    def tokens(self) -> list[int]:
        """Flat indices of the path's tokens, oldest first."""
        return [node.start + i for node in self.path for i in range(len(node.ids))]


def naive_tables(
    requests: list[list[Path]],
    *,
    shared: bool = True,
    readouts: list[list[list[int]]] | None = None,
) -> PassTables:
    """One pass over whole requests, each a list of rows; rows of one request share leading
    segments when `shared`, nothing is shared between requests. Empty segments are left out.
    `readouts`: per request and row, offsets in the row's last segment; None: its last token."""
    nodes: list[_Node] = []
    ends: list[tuple[_Node, int, int]] = []
    for request, rows in enumerate(requests):
        known: dict[tuple[int, tuple[int, ...]], _Node] = {}
        for row, path in enumerate(rows):
            node: _Node | None = None
            for ids in filter(None, path):
                key = (node.order if node else -1, tuple(ids))
                found = known.get(key) if shared else None
                if found is None:
                    found = _Node(node, ids, len(nodes))
                    nodes.append(found)
                    known[key] = found
                node = found
            assert node is not None
            ends.append((node, request, row))
    start = 0
    for node in nodes:
        node.start, start = start, start + len(node.ids)
    offsets = [
        [len(node.ids) - 1] if readouts is None else readouts[request][row]
        for node, request, row in ends
    ]
    return _tables(nodes, ends, offsets)


def _tables(
    nodes: list[_Node], ends: list[tuple[_Node, int, int]], offsets: list[list[int]]
) -> PassTables:
    inner = sorted((n for n in nodes if n.children), key=lambda n: (len(n.path), n.order))
    slot = {node.order: i for i, node in enumerate(inner)}
    depths = max((len(n.path) for n in inner), default=0)
    base = {n.order: sum(len(p.ids) for p in n.path[:-1]) for n in nodes}
    chunks = [
        (n.order, n.start + at, min(CHUNK, len(n.ids) - at))
        for n in nodes
        for at in range(0, len(n.ids), CHUNK)
    ]
    per_node = [-(-len(n.ids) // CHUNK) for n in nodes]
    previous = []
    for node in nodes:
        path = node.tokens
        for i in range(len(node.ids)):
            here = len(path) - len(node.ids) + i
            previous.append([path[here - d] if here >= d else -1 for d in (1, 2, 3)])
    return PassTables(
        token_ids=_i32([t for n in nodes for t in n.ids]),
        positions=_i32([base[n.order] + i for n in nodes for i in range(len(n.ids))]),
        conv_prev=_i32(previous),
        seg_start=_i32([n.start for n in nodes]),
        seg_len=_i32([len(n.ids) for n in nodes]),
        seg_parent=_i32([n.parent.order if n.parent else -1 for n in nodes]),
        seg_depth=_i32([len(n.path) - 1 for n in nodes]),
        start_position=_i32([[base[n.order]] * 3 for n in nodes]),
        next_position=_i32([base[n.order] + len(n.ids) for n in nodes]),
        anc_ptr=_pointer([len(n.path) - 1 for n in nodes]),
        anc_seg=_i32([a.order for n in nodes for a in n.path[:-1]]),
        seg_chunk_ptr=_pointer(per_node),
        chunk_seg=_i32([c[0] for c in chunks]),
        chunk_start=_i32([c[1] for c in chunks]),
        chunk_len=_i32([c[2] for c in chunks]),
        chunk_tile=_i32([next(t for t in TILES if t >= c[2]) for c in chunks]),
        inner_ptr=_pointer([sum(len(n.path) == d + 1 for n in inner) for d in range(depths)]),
        inner_seg=_i32([n.order for n in inner]),
        leaf_seg=_i32([n.order for n in nodes if not n.children]),
        state_slot=_i32([slot.get(n.order, -1) for n in nodes]),
        parent_slot=_i32([slot[n.parent.order] if n.parent else -1 for n in nodes]),
        readout_token=_i32([n.start + at for (n, _, _), o in _pairs(ends, offsets) for at in o]),
        readout_seg=_i32([n.order for (n, _, _), o in _pairs(ends, offsets) for _ in o]),
        readout_request=_i32([request for (_, request, _), o in _pairs(ends, offsets) for _ in o]),
        readout_row=_i32([row for (_, _, row), o in _pairs(ends, offsets) for _ in o]),
        readout_query=_i32(
            [sum(map(len, offsets[: i + 1])) - 1 for i, o in enumerate(offsets) for _ in o]
        ),
    )


def _pairs(ends: list, offsets: list) -> list:
    return list(zip(ends, offsets, strict=True))


def _i32(values: list) -> np.ndarray:
    return np.asarray(values, dtype=np.int32)


def _pointer(counts: list[int]) -> np.ndarray:
    return _i32([0, *np.cumsum(counts)])
