"""Cutting batches into passes, and what reuse a request is told about afterwards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.errors import ConfigError
from systone.plan import PassBudget, Reuse, Row, Sharing, build_tables, build_trie, cut_passes
from tests.unit.plan.walker import requests, segment

budgets = st.builds(
    PassBudget,
    tokens=st.sampled_from([1, 40, 130, 300, 5000]),
    rows=st.sampled_from([1, 2, 3, 100]),
    states=st.sampled_from([1, 2, 5, 100]),
)


def plan(batch: list[list[Row]], budget: PassBudget, policy: str = "default"):
    return cut_passes([build_trie(rows, Sharing(policy)) for rows in batch], budget)


def reuse(rows: list[Row], budget: PassBudget, policy: str = "default") -> Reuse:
    account = Reuse(policy)
    for parts in plan([rows], budget, policy):
        for part in parts:
            account = account.plus(
                part.trie.saved_tokens, crosses_questions=part.trie.crosses_questions
            )
    return account


def slow_reuse(rows: list[Row], groups: list[list[int]]) -> tuple[int, str]:
    """The mission's definition, counted prefix by prefix for given groups of rows."""
    saved, across = 0, False
    for group in groups:
        through: dict[tuple[bytes, ...], list[int]] = {}
        for row in group:
            keys = tuple(s.key for s in rows[row].path)
            for depth in range(1, len(keys) + 1):
                through.setdefault(keys[:depth], []).append(rows[row].question)
        for path, questions in through.items():
            saved += (len(questions) - 1) * (len(path[-1]) // 4)
            across = across or len(set(questions)) > 1
    if saved == 0:
        return 0, "none"
    return saved, "across_questions" if across else "within_question"


@given(st.lists(requests(), max_size=4), budgets, st.sampled_from(["off", "default"]))
@settings(max_examples=150, deadline=None)
def test_every_row_runs_once_in_order_and_within_budget(batch, budget, policy):
    passes = plan(batch, budget, policy)
    ran = []
    for parts in passes:
        assert parts
        tables = build_tables(parts)
        rows = tables.readout_row.shape[0]
        within = (
            tables.num_tokens <= budget.tokens
            and rows <= budget.rows
            and tables.num_states <= budget.states
        )
        assert within or rows == 1
        assert [part.request for part in parts] == sorted({part.request for part in parts})
        for part in parts:
            assert part.trie.num_rows == part.rows.size
            ran += [(part.request, int(row)) for row in part.rows]
    assert ran == [(q, r) for q, rows in enumerate(batch) for r in range(len(rows))]


@given(requests(), budgets, st.sampled_from(["off", "default"]))
@settings(max_examples=100, deadline=None)
def test_a_split_takes_every_row_that_fits(rows, budget, policy):
    trie = build_trie(rows, Sharing(policy))
    ends = [int(part.rows[-1]) for (part,) in cut_passes([trie], budget)]
    first = 0
    for end in ends[:-1]:
        one_more = trie.restrict(np.arange(first, end + 2, dtype=np.int32))
        assert not budget.holds(one_more.load)
        first = end + 1


@given(requests(), budgets)
@settings(max_examples=100, deadline=None)
def test_saved_tokens_and_scope_count_what_each_pass_really_shared(rows, budget):
    groups = [[int(r) for r in part.rows] for (part,) in plan([rows], budget)]
    account = reuse(rows, budget)
    assert (account.saved_tokens, account.scope) == slow_reuse(rows, groups)
    assert account.enabled is (account.saved_tokens > 0)


@given(st.lists(requests(), min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_request_that_fits_a_pass_is_never_split(batch):
    tries = [build_trie(rows, Sharing()) for rows in batch]
    budget = PassBudget(
        tokens=max(t.load.tokens for t in tries),
        rows=max(t.num_rows for t in tries),
        states=max(1, *(t.load.states for t in tries)),
    )
    for parts in cut_passes(tries, budget):
        for part in parts:
            assert part.rows.size == len(batch[part.request])


STATE = segment(1, 3072)
THREE = [Row((STATE, segment(i, 40)), 0) for i in (2, 3, 4)]


def test_three_candidates_sharing_3072_tokens_save_6144():
    assert reuse(THREE, PassBudget(tokens=4096)).report() == {
        "policy": "default",
        "enabled": True,
        "scope": "within_question",
        "saved_tokens": 6144,
    }


def test_a_split_request_saves_less():
    account = reuse(THREE, PassBudget(tokens=4096, rows=2))
    assert account.report() == {
        "policy": "default",
        "enabled": True,
        "scope": "within_question",
        "saved_tokens": 3072,
    }


@pytest.mark.parametrize("policy", ["off", "fixed"])
def test_without_sharing_nothing_is_saved(policy):
    assert reuse(THREE, PassBudget(tokens=20000), policy).report() == {
        "policy": policy,
        "enabled": False,
        "scope": "none",
        "saved_tokens": 0,
    }


def test_a_single_row_saves_nothing():
    assert reuse(THREE[:1], PassBudget()) == Reuse("default")


def test_a_state_shared_by_two_questions_is_across_questions():
    rows = [Row((STATE, segment(i, 40)), i) for i in (2, 3)]
    assert reuse(rows, PassBudget()).report()["scope"] == "across_questions"


def test_rows_of_two_questions_that_never_share_a_pass_stay_within():
    first, second = segment(5, 30), segment(6, 30)
    rows = [Row((STATE, first, segment(i, 4)), 0) for i in (7, 8)]
    rows += [Row((STATE, second, segment(i, 4)), 1) for i in (7, 8)]
    account = reuse(rows, PassBudget(rows=2))
    assert account.scope == "within_question"
    assert account.saved_tokens == 2 * 3102


def test_a_state_that_many_rows_start_from_counts_once():
    rows = [Row((STATE, segment(i, 4)), 0) for i in range(2, 9)]
    assert len(plan([rows], PassBudget(tokens=3072 + 4 * 6, states=1))) == 2
    assert len(plan([rows], PassBudget(tokens=3072 + 4 * 6, states=1), "off")) == 7


def test_a_scope_once_across_questions_stays_so_in_later_passes():
    rows = [Row((STATE, segment(i, 4)), i) for i in (2, 3)]
    rows += [Row((STATE, segment(i, 4)), 4) for i in (4, 5)]
    account = reuse(rows, PassBudget(rows=2))
    assert account.scope == "across_questions"
    assert account.saved_tokens == 2 * 3072


@pytest.mark.parametrize("field", ["tokens", "rows", "states"])
def test_a_budget_below_one_stops_start_up(field):
    with pytest.raises(ConfigError, match=field):
        PassBudget(**{field: 0})
