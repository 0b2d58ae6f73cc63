"""Pass tables against the slow walker, for random batches and for the shapes that hurt."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.plan import Part, PassBudget, Row, Sharing, build_tables, build_trie, cut_passes
from tests.unit.plan.walker import (
    check_tables,
    flat_path,
    path_of,
    requests,
    segment,
    tokens_of,
)

ROOMY = PassBudget(tokens=10**6, rows=10**6, states=10**6)


def one_pass(batch: list[list[Row]], policy: str = "default") -> tuple[Part, ...]:
    (parts,) = cut_passes([build_trie(rows, Sharing(policy)) for rows in batch], ROOMY)
    return parts


@given(st.lists(requests(), min_size=1, max_size=3), st.sampled_from(["off", "default"]))
@settings(max_examples=80, deadline=None)
def test_a_pass_holds_every_rows_own_tokens_on_its_path(batch, policy):
    tables = build_tables(one_pass(batch, policy))
    check_tables(tables)
    covered = set()
    for readout in range(tables.readout_row.shape[0]):
        request, at = int(tables.readout_request[readout]), int(tables.readout_row[readout])
        row = batch[request][at]
        path = path_of(tables, readout)
        flat = flat_path(tables, path)
        assert [int(tables.token_ids[i]) for i in flat] == tokens_of(row)
        assert [int(tables.seg_len[s]) for s in path] == [s.tokens.size for s in row.path]
        assert tables.readout_token[readout] == flat[-1]
        covered.add((request, at))
    assert covered == {(q, r) for q, rows in enumerate(batch) for r in range(len(rows))}
    assert tables.readout_row.shape[0] == len(covered)


@given(st.lists(requests(), min_size=2, max_size=3), st.sampled_from(["off", "default"]))
@settings(max_examples=60, deadline=None)
def test_no_segment_is_reachable_from_two_requests(batch, policy):
    tables = build_tables(one_pass(batch, policy))
    owner: dict[int, int] = {}
    for readout in range(tables.readout_row.shape[0]):
        for s in path_of(tables, readout):
            assert owner.setdefault(s, int(tables.readout_request[readout])) == int(
                tables.readout_request[readout]
            )
    assert sorted(owner) == list(range(tables.num_segments))


@given(requests(), st.lists(requests(), max_size=2))
@settings(max_examples=60, deadline=None)
def test_a_request_is_planned_the_same_alone_and_in_company(rows, others):
    alone = build_tables(one_pass([rows]))
    together = build_tables(one_pass([*others, rows]))
    mine = together.readout_request == len(others)
    shift = together.num_segments - alone.num_segments
    for name in ("seg_len", "seg_depth", "start_position", "next_position"):
        assert (getattr(together, name)[shift:] == getattr(alone, name)).all()
    assert (together.readout_seg[mine] - shift == alone.readout_seg).all()
    assert (together.token_ids[-alone.num_tokens :] == alone.token_ids).all()


@pytest.mark.parametrize("policy", ["off", "default"])
def test_convolution_history_crosses_parents_of_every_short_length(policy):
    batch = []
    for lengths in itertools.product(range(6), repeat=3):
        path = tuple(segment(i, n) for i, n in enumerate(lengths) if n)
        if path:
            batch.append([Row(path, 0)])
    batch.append([Row((segment(1, 1), segment(2, 1), segment(3, 1), segment(4, 500)), 0)])
    check_tables(build_tables(one_pass(batch, policy)))


def test_a_row_that_is_another_rows_prefix_reads_out_inside_an_inner_node():
    state, question, option = segment(1, 70), segment(2, 5), segment(3, 9)
    tables = build_tables(
        one_pass([[Row((state, question), 0), Row((state, question, option), 0)]])
    )
    check_tables(tables)
    assert tables.num_tokens == 84
    assert list(tables.readout_token) == [74, 83]
    assert list(tables.inner_seg) == [0, 1]


def test_equal_rows_share_one_read_out_token():
    row = Row((segment(1, 3), segment(2, 4)), 0)
    tables = build_tables(one_pass([[row, row]]))
    assert list(tables.readout_token) == [6, 6]
    assert list(tables.readout_row) == [0, 1]


def test_inner_segments_are_listed_depth_by_depth_across_requests():
    deep = [Row((segment(1, 2), segment(2, 2), segment(3, 2)), 0)]
    flat = [Row((segment(4, 2),), 0)]
    tables = build_tables(one_pass([deep, flat, deep]))
    assert list(tables.inner_ptr) == [0, 2, 4]
    assert list(tables.inner_seg) == [0, 4, 1, 5]
    assert list(tables.leaf_seg) == [2, 3, 6]


def test_tables_of_a_pass_without_inner_segments_have_no_depths():
    tables = build_tables(one_pass([[Row((segment(1, 5),), 0)]]))
    check_tables(tables)
    assert list(tables.inner_ptr) == [0]
    assert tables.inner_seg.size == 0
    assert list(tables.parent_slot) == [-1]
