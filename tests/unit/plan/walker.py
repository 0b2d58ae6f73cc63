"""A slow second opinion on pass tables, token by token from the rows themselves, and the
hypothesis strategies that make requests. Shares no code with `systone.plan` but its messages."""

import numpy as np
from hypothesis import strategies as st

from systone.plan import PassTables, Row, Segment

LENGTHS = (1, 2, 3, 4, 16, 17, 32, 63, 64, 65, 127, 128, 130)


def segment(name: int, length: int) -> Segment:
    return Segment.of([name * 1000 + i % 7 for i in range(length)])


@st.composite
def requests(draw, *, max_rows: int = 7) -> list[Row]:
    """Rows over a small pool of segments, so that equal prefixes, whole equal rows, rows that
    are another row's prefix and equal segments under different parents all turn up."""
    lengths = draw(st.lists(st.sampled_from(LENGTHS), min_size=1, max_size=4))
    pool = [segment(name, length) for name, length in enumerate(lengths)]
    paths = st.lists(st.sampled_from(range(len(pool))), min_size=1, max_size=5)
    rows = draw(st.lists(paths, min_size=1, max_size=max_rows))
    question = 0
    made = []
    for path in rows:
        question += draw(st.integers(0, 1))
        made.append(Row(tuple(pool[i] for i in path), question))
    return made


def tokens_of(row: Row) -> list[int]:
    return [int(t) for s in row.path for t in s.tokens]


def path_of(tables: PassTables, readout: int) -> list[int]:
    """Segments of a read-out's path, root first, by parent pointers alone."""
    at = int(tables.readout_seg[readout])
    path = []
    while at >= 0:
        path.append(at)
        at = int(tables.seg_parent[at])
    return path[::-1]


def flat_path(tables: PassTables, path: list[int]) -> list[int]:
    """Flat token indices of a path of segments."""
    return [int(tables.seg_start[s]) + i for s in path for i in range(int(tables.seg_len[s]))]


def check_tables(tables: PassTables) -> None:
    """Everything about the tables that doesn't depend on which rows they are for."""
    for name in PassTables.__slots__:
        array = getattr(tables, name)
        assert array.dtype == np.int32, name
        assert array.flags.c_contiguous, name
    _check_segments(tables)
    _check_chunks(tables)
    _check_states(tables)


def _check_segments(tables: PassTables) -> None:
    flat = 0
    for s in range(tables.num_segments):
        parent = int(tables.seg_parent[s])
        assert tables.seg_start[s] == flat
        assert tables.seg_len[s] >= 1
        flat += int(tables.seg_len[s])
        assert -1 <= parent < s
        ancestors = [int(x) for x in tables.anc_seg[tables.anc_ptr[s] : tables.anc_ptr[s + 1]]]
        if parent < 0:
            assert tables.seg_depth[s] == 0
            assert list(tables.start_position[s]) == [0, 0, 0]
            assert ancestors == []
        else:
            assert tables.seg_depth[s] == tables.seg_depth[parent] + 1
            assert list(tables.start_position[s]) == [int(tables.next_position[parent])] * 3
            above = tables.anc_seg[tables.anc_ptr[parent] : tables.anc_ptr[parent + 1]]
            assert ancestors == [*map(int, above), parent]
        assert tables.next_position[s] == tables.start_position[s, 0] + tables.seg_len[s]
        path = [*ancestors, s]
        here = flat_path(tables, path)
        for place in range(len(here) - int(tables.seg_len[s]), len(here)):
            assert tables.positions[here[place]] == place
            wanted = [here[place - k] if place >= k else -1 for k in (1, 2, 3)]
            assert [int(x) for x in tables.conv_prev[here[place]]] == wanted
    assert flat == tables.num_tokens
    assert tables.anc_ptr[0] == 0
    assert tables.anc_ptr[-1] == tables.anc_seg.shape[0]


def _check_chunks(tables: PassTables) -> None:
    chunk = 0
    for s in range(tables.num_segments):
        assert tables.seg_chunk_ptr[s] == chunk
        done = 0
        while done < tables.seg_len[s]:
            size = min(64, int(tables.seg_len[s]) - done)
            assert tables.chunk_seg[chunk] == s
            assert tables.chunk_start[chunk] == tables.seg_start[s] + done
            assert tables.chunk_len[chunk] == size
            assert tables.chunk_tile[chunk] == (16 if size <= 16 else 32 if size <= 32 else 64)
            done += size
            chunk += 1
    assert tables.seg_chunk_ptr[-1] == chunk == tables.chunk_seg.shape[0]


def _check_states(tables: PassTables) -> None:
    parents = {int(p) for p in tables.seg_parent if p >= 0}
    assert sorted(map(int, tables.inner_seg)) == sorted(parents)
    leaves = sorted(set(range(tables.num_segments)) - parents)
    assert sorted(map(int, tables.leaf_seg)) == leaves
    assert tables.inner_ptr[0] == 0
    assert tables.inner_ptr[-1] == len(parents) == tables.num_states
    for depth in range(tables.inner_ptr.shape[0] - 1):
        of_depth = tables.inner_seg[tables.inner_ptr[depth] : tables.inner_ptr[depth + 1]]
        assert of_depth.size > 0
        assert all(tables.seg_depth[s] == depth for s in of_depth)
    slots = [int(tables.state_slot[s]) for s in tables.inner_seg]
    assert sorted(slots) == list(range(len(parents)))
    for s in range(tables.num_segments):
        parent = int(tables.seg_parent[s])
        assert (tables.state_slot[s] >= 0) == (s in parents)
        wanted = -1 if parent < 0 else int(tables.state_slot[parent])
        assert tables.parent_slot[s] == wanted
