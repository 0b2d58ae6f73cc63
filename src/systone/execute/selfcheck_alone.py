"""A pass taken apart again: every row as a pass of its own, with nothing shared.

What the conservative path runs, and what a packed pass is compared with. Knows no device.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from systone.execute.selfcheck_rows import pass_of
from systone.plan import PassTables, Row, Segment

__all__ = ["alone"]


def alone(tables: PassTables) -> Iterator[PassTables]:
    """One pass per row, in read-out order, with all read-outs of the row: a head may score them
    against each other. Its segments are those of the row's path."""
    total = tables.readout_query.shape[0]
    begin = 0
    while begin < total:
        end = int(tables.readout_query[begin]) + 1
        last = int(tables.readout_seg[begin])
        ancestors = tables.anc_seg[tables.anc_ptr[last] : tables.anc_ptr[last + 1]]
        path = tuple(_segment(tables, int(seg)) for seg in (*ancestors, last))
        offsets = tables.readout_token[begin:end] - tables.seg_start[last]
        yield pass_of([[Row(path, 0, tuple(offsets.tolist()))]], shared=False)
        begin = end


def _segment(tables: PassTables, seg: int) -> Segment:
    start = int(tables.seg_start[seg])
    return Segment.of(np.array(tables.token_ids[start : start + int(tables.seg_len[seg])]))
