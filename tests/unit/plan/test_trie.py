"""Which segments of one request become one node, under each policy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.errors import ConfigError
from systone.plan import POLICIES, Row, Segment, Sharing, build_trie
from systone.plan.layout import lay_out
from tests.unit.plan.walker import requests, segment, tokens_of

STATE = segment(1, 3072)


def prefixes(rows: list[Row]) -> set[tuple[bytes, ...]]:
    return {tuple(s.key for s in row.path[: i + 1]) for row in rows for i in range(len(row.path))}


@given(requests())
@settings(max_examples=80, deadline=None)
def test_sharing_computes_each_distinct_leading_path_once(rows):
    trie = build_trie(rows, Sharing("default"))
    assert trie.num_nodes == len(prefixes(rows))
    assert trie.load.tokens == sum(len(path[-1]) // 4 for path in prefixes(rows))
    assert trie.load.states == len({p[:-1] for p in prefixes(rows)} - {()})


@given(requests(), st.sampled_from(["off", "fixed"]))
@settings(max_examples=60, deadline=None)
def test_without_sharing_every_row_has_a_path_of_its_own(rows, policy):
    trie = build_trie(rows, Sharing(policy))
    assert trie.load.tokens == sum(s.tokens.size for row in rows for s in row.path)
    assert trie.load.states == sum(len(row.path) - 1 for row in rows)
    assert lay_out(trie).num_nodes == sum(len(row.path) for row in rows)
    assert trie.saved_tokens == 0
    assert not trie.crosses_questions


@given(requests(), st.sampled_from(POLICIES))
@settings(max_examples=60, deadline=None)
def test_row_lengths_and_questions_do_not_depend_on_the_policy(rows, policy):
    trie = build_trie(rows, Sharing(policy))
    assert list(trie.row_len) == [sum(s.tokens.size for s in row.path) for row in rows]
    assert list(trie.row_question) == [row.question for row in rows]


@given(requests(), st.data())
@settings(max_examples=80, deadline=None)
def test_restricting_a_trie_equals_planning_only_those_rows(rows, data):
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1)))
    part = build_trie(rows, Sharing()).restrict(np.array(kept, np.int32))
    alone = build_trie([rows[i] for i in kept], Sharing())
    assert part.load == alone.load
    assert part.saved_tokens == alone.saved_tokens
    assert part.crosses_questions == alone.crosses_questions
    assert list(part.row_len) == list(alone.row_len)


@given(requests())
@settings(max_examples=60, deadline=None)
def test_laid_out_apart_every_node_serves_one_row_and_the_load_is_as_announced(rows):
    apart = build_trie(rows, Sharing("default")).unshared()
    laid = lay_out(apart)
    assert laid.load == apart.load
    assert apart.saved_tokens == laid.saved_tokens == 0
    assert laid.row_node.tolist() == (np.cumsum([len(row.path) for row in rows]) - 1).tolist()
    assert laid.token_ids.tolist() == [t for row in rows for t in tokens_of(row)]
    assert lay_out(build_trie(rows, Sharing())).num_nodes == len(prefixes(rows))


def test_equal_segments_under_different_parents_are_different_nodes():
    tail = segment(9, 4)
    rows = [Row((segment(1, 2), tail), 0), Row((segment(2, 2), tail), 0)]
    assert build_trie(rows, Sharing()).num_nodes == 4


def test_a_shorter_segment_is_not_a_prefix_of_a_longer_one():
    rows = [Row((Segment.of([1, 2, 3]),), 0), Row((Segment.of([1, 2]), Segment.of([3])), 0)]
    assert build_trie(rows, Sharing()).load.tokens == 6


def test_auto_follows_the_references_rule_only_where_the_default_does_not_share():
    three = [Row((STATE, segment(i, 9)), 0) for i in (2, 3, 4)]  # saves 6144 of 9243
    two = three[:2]  # saves 3072 of 6162
    assert build_trie(two, Sharing("auto")).saved_tokens == 3072
    narrow = Sharing("auto", default_shares=False)
    assert build_trie(two, narrow).saved_tokens == 0
    assert build_trie(three, narrow).saved_tokens == 6144
    assert build_trie(three, Sharing("default", default_shares=False)).saved_tokens == 0
    assert build_trie(two, Sharing("shared", default_shares=False)).saved_tokens == 3072


@pytest.mark.parametrize(
    ("saved", "total", "pays"),
    [(4096, 12288, True), (4095, 4096, False), (4096, 12289, False), (5000, 14999, True)],
)
def test_auto_wants_4096_tokens_and_a_third_of_the_request(saved, total, pays):
    assert Sharing("auto", default_shares=False).applies(saved, total) is pays


def test_an_unknown_policy_stops_start_up():
    with pytest.raises(ConfigError, match="policy must be one of off, fixed, default"):
        Sharing("sometimes")


def test_an_empty_segment_or_row_is_never_a_node():
    with pytest.raises(ValueError, match="empty segment"):
        Segment.of([])
    with pytest.raises(ValueError, match="at least one segment"):
        build_trie([Row((), 0)], Sharing())
