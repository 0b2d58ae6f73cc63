"""Rows with several read-outs: where they land, in whole passes and in split ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.plan import Load, PassBudget, Row, Sharing, build_tables, build_trie, cut_passes
from tests.unit.plan.walker import check_tables, flat_path, path_of, requests, segment

ROOMY = PassBudget(tokens=10**6, rows=10**6, states=10**6)


@st.composite
def reading(draw) -> list[Row]:
    """Rows some of which say which tokens of their last segment are read."""
    rows = []
    for row in draw(requests()):
        length = row.path[-1].tokens.size
        places = st.sets(st.integers(0, length - 1), min_size=1, max_size=5)
        chosen = draw(st.none() | places.map(lambda found: tuple(sorted(found))))
        rows.append(Row(row.path, row.question, chosen))
    return rows


def offsets_of(row: Row) -> tuple[int, ...]:
    return (row.path[-1].tokens.size - 1,) if row.readouts is None else row.readouts


budgets = st.builds(
    PassBudget,
    tokens=st.sampled_from([1, 200, 10**6]),
    rows=st.sampled_from([1, 4, 10**6]),
    states=st.sampled_from([1, 10**6]),
)


@given(st.lists(reading(), min_size=1, max_size=3), st.sampled_from(["off", "default"]), budgets)
@settings(max_examples=100, deadline=None)
def test_every_read_out_is_the_token_its_row_names(batch, policy, budget):
    tries = [build_trie(rows, Sharing(policy)) for rows in batch]
    found: dict[tuple[int, int], list[int]] = {}
    for parts in cut_passes(tries, budget):
        tables = build_tables(parts)
        check_tables(tables)
        for readout, row in enumerate(tables.readout_row.tolist()):
            request = parts[int(tables.readout_request[readout])].request
            flat = flat_path(tables, path_of(tables, readout))
            at = flat.index(int(tables.readout_token[readout]))
            before = len(flat) - batch[request][row].path[-1].tokens.size
            found.setdefault((request, row), []).append(at - before)
            query = int(tables.readout_query[readout])
            assert query >= readout
            assert tables.readout_row[query] == row
            assert tables.readout_request[query] == tables.readout_request[readout]
            following = tables.readout_query[query + 1 : query + 2]
            assert all(int(other) > query for other in following)
    wanted = {
        (q, r): list(offsets_of(row)) for q, rows in enumerate(batch) for r, row in enumerate(rows)
    }
    assert found == wanted


@given(reading(), st.sampled_from(["off", "default"]))
@settings(max_examples=60, deadline=None)
def test_a_budgets_rows_are_read_outs(rows, policy):
    trie = build_trie(rows, Sharing(policy))
    assert trie.load.rows == sum(len(offsets_of(row)) for row in rows)
    budget = PassBudget(tokens=10**6, rows=3, states=10**6)
    for (part,) in cut_passes([trie], budget):
        assert part.trie.load.rows <= 3 or part.trie.num_rows == 1


def test_the_last_token_is_read_unless_the_row_says_otherwise():
    path = (segment(1, 4), segment(2, 6))
    plain = build_tables(*cut_passes([build_trie([Row(path, 0)], Sharing())], ROOMY))
    named = build_tables(*cut_passes([build_trie([Row(path, 0, (5,))], Sharing())], ROOMY))
    for name in type(plain).__slots__:
        assert np.array_equal(getattr(plain, name), getattr(named, name)), name
    assert build_trie([Row(path, 0, (0, 5))], Sharing()).load == Load(10, 2, 1)


@pytest.mark.parametrize("offsets", [(), (-1,), (6,), (3, 3), (4, 2)])
def test_read_outs_that_name_no_tokens_in_order_are_refused(offsets):
    with pytest.raises(ValueError, match="read-outs"):
        build_trie([Row((segment(1, 6),), 0, offsets)], Sharing())
