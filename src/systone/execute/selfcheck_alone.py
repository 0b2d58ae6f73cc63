"""A pass taken apart again: every read-out as a pass of its own, with nothing shared.

What the conservative path runs, and what a packed pass is compared with. Knows no device.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from systone.execute.selfcheck_rows import pass_of
from systone.plan import PassTables, Row, Segment

__all__ = ["alone"]


def alone(tables: PassTables) -> Iterator[PassTables]:
    """One pass per read-out, in read-out order; its segments are those of the row's path."""
    for at in range(tables.readout_token.shape[0]):
        last = int(tables.readout_seg[at])
        ancestors = tables.anc_seg[tables.anc_ptr[last] : tables.anc_ptr[last + 1]]
        path = tuple(_segment(tables, int(seg)) for seg in (*ancestors, last))
        offset = int(tables.readout_token[at] - tables.seg_start[last])
        yield pass_of([[Row(path, 0, (offset,))]], shared=False)


def _segment(tables: PassTables, seg: int) -> Segment:
    start = int(tables.seg_start[seg])
    return Segment.of(np.array(tables.token_ids[start : start + int(tables.seg_len[seg])]))
