"""The path of a segment as flat token indices, read from the tables token by token."""

from __future__ import annotations

from systone.plan.tables import PassTables


def segment_tokens(tables: PassTables, segment: int) -> list[int]:
    start = int(tables.seg_start[segment])
    return list(range(start, start + int(tables.seg_len[segment])))


def path_tokens(tables: PassTables, segment: int) -> list[int]:
    """Flat indices from the root's first token to the segment's last, by the parent links."""
    parent = int(tables.seg_parent[segment])
    before = path_tokens(tables, parent) if parent >= 0 else []
    return before + segment_tokens(tables, segment)
