"""Faults a trie engine could have, each made by editing one table of a correct pass.

A parity test that can't see them proves nothing. Every mutation keeps shapes and index ranges, so
that any backend runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from systone.plan.tables import PassTables


def drop_parent_state(tables: PassTables) -> PassTables:
    """Every segment starts its recurrence from zero."""
    return replace(tables, parent_slot=np.full_like(tables.parent_slot, -1))


def drop_conv_history(tables: PassTables) -> PassTables:
    """The convolution sees nothing before its own segment."""
    start = np.repeat(tables.seg_start, tables.seg_len)[:, None]
    inside = np.where(tables.conv_prev < start, -1, tables.conv_prev)
    return replace(tables, conv_prev=inside.astype(np.int32))


def take_sibling_state(tables: PassTables) -> PassTables:
    """Children read the state of their parent's next sibling."""
    slot_of = dict(enumerate(tables.state_slot.tolist()))
    families: dict[int, list[int]] = {}
    for segment in tables.inner_seg.tolist():
        if tables.seg_parent[segment] >= 0:
            families.setdefault(int(tables.seg_parent[segment]), []).append(slot_of[segment])
    taken = {s: f[(i + 1) % len(f)] for f in families.values() for i, s in enumerate(f)}
    changed = [taken.get(slot, slot) for slot in tables.parent_slot.tolist()]
    return replace(tables, parent_slot=np.asarray(changed, np.int32))


def restart_positions(tables: PassTables) -> PassTables:
    """Rotary positions count from zero in every segment."""
    start = np.repeat(tables.seg_start, tables.seg_len)
    inside = np.arange(tables.num_tokens, dtype=np.int32) - start
    return replace(tables, positions=inside.astype(np.int32))


def skip_first_ancestor(tables: PassTables) -> PassTables:
    """Attention of every segment leaves out the keys of its path's root."""
    return _without_ancestor(tables, first=True)


def skip_last_ancestor(tables: PassTables) -> PassTables:
    """Attention of every segment leaves out the keys of its parent."""
    return _without_ancestor(tables, first=False)


def read_one_row_late(tables: PassTables) -> PassTables:
    """Read-outs are taken one flat row after the right one (the pass's last one stays)."""
    late = np.minimum(tables.readout_token + 1, tables.num_tokens - 1)
    return replace(tables, readout_token=late.astype(np.int32))


def _without_ancestor(tables: PassTables, *, first: bool) -> PassTables:
    kept: list[int] = []
    pointer = [0]
    for s in range(tables.num_segments):
        path = tables.anc_seg[tables.anc_ptr[s] : tables.anc_ptr[s + 1]].tolist()
        kept += path[1:] if first else path[:-1]
        pointer.append(len(kept))
    # Padded to the old length: some backends size their reads by it.
    padding = [0] * (len(tables.anc_seg) - len(kept))
    return replace(
        tables,
        anc_ptr=np.asarray(pointer, np.int32),
        anc_seg=np.asarray(kept + padding, np.int32),
    )


MUTATIONS: dict[str, Callable[[PassTables], PassTables]] = {
    "drop the parent's GDN state": drop_parent_state,
    "drop the conv history": drop_conv_history,
    "take a sibling's state": take_sibling_state,
    "restart positions": restart_positions,
    "skip the root's keys": skip_first_ancestor,
    "skip the parent's keys": skip_last_ancestor,
    "read one row late": read_one_row_late,
}
