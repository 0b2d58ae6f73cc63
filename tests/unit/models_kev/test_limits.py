"""Limits in tokens: the reference's own messages, and the switch that truncates."""

import numpy as np
import pytest

from systone.errors import ConfigError, RequestError
from systone.models.base import Readout
from systone.protocol.types import Choice, Noul, Request, Score

STATS = {"inference_seconds": 0.5, "prefix_cache": {}}
WORD = " tree"  # one token


def refusal(adapter, request) -> RequestError:
    with pytest.raises(RequestError) as refused:
        adapter.prepare(request)
    assert refused.value.status == 422
    assert refused.value.code == "max_tokens_exceeded"
    return refused.value


def test_a_state_over_the_limit_is_refused_in_the_references_words(adapter):
    error = refusal(adapter, Request(WORD * 65_536, {"q": Noul("?")}))
    assert error.faults[0].loc == ("state",)
    assert error.faults[0].msg == (
        "state is 65,537 tokens, over the 65,536-token limit (the <state> token included): shorten "
        "the document or split it across requests; or start the server with KEV_TRUNCATE_STATES=1 "
        "to read only its first 65,536 tokens (responses then say truncated: true)"
    )
    assert adapter.prepare(Request(WORD * 65_535, {"q": Noul("?")})).cost.tokens == 65_536 + 8 + 1


def test_a_row_over_the_limit_names_its_branch(adapter_with):
    adapter = adapter_with(max_length=40)
    fits = Request(WORD * 20, {"a": Noul("?"), "b": Noul(WORD * 11)})
    assert adapter.prepare(fits).work.row_len.tolist() == [30, 40]
    error = refusal(adapter, Request(WORD * 20, {"a": Noul("?"), "b": Noul(WORD * 12)}))
    assert error.faults[0].loc == ("questions", "b")
    assert error.faults[0].msg == "branch too long: 20 tokens with a 21-token state (row limit 40)"


def test_the_limit_of_older_servers_is_one_setting(adapter_with):
    adapter = adapter_with(max_length=8192)
    assert (adapter.limits.state, adapter.limits.row) == (8192, 8192)
    assert adapter.card.limits.max_tokens == 8192
    for wrong in (1, 73_729):
        with pytest.raises(ConfigError, match="max_length"):
            adapter_with(max_length=wrong)


def test_truncation_is_off_unless_named_and_then_reported(adapter_with):
    long = Request(WORD * 60, {"q": Noul("?")})
    refusal(adapter_with(max_length=50), long)
    adapter = adapter_with(max_length=50, truncate=True)
    adapter.limits = adapter.limits.__class__(state=30, row=50, truncate=True)
    prepared = adapter.prepare(long)
    assert prepared.work.node_len[0] == 30
    assert prepared.work.token_ids[:2].tolist() == [248060, prepared.work.token_ids[2]]
    assert prepared.input_tokens == 30 + 9
    cut = {"truncated": True, "state_tokens": 61, "state_tokens_used": 30}
    decision = adapter.finish(prepared, Readout(np.zeros((3, 1), np.float32), STATS))
    assert decision.metadata == {"latency_ms": 500.0, **cut}
    assert cut.items() <= decision.extras.items()


def test_with_the_switch_every_reply_says_that_nothing_was_cut(adapter_with):
    adapter = adapter_with(truncate=True)
    prepared = adapter.prepare(Request("a tree", {"q": Noul("?")}))
    decision = adapter.finish(prepared, Readout(np.zeros((3, 1), np.float32), STATS))
    assert decision.metadata == {
        "latency_ms": 500.0,
        "truncated": False,
        "state_tokens": 3,
        "state_tokens_used": 3,
    }


def test_without_the_switch_no_reply_speaks_of_it(adapter):
    prepared = adapter.prepare(Request("a tree", {"q": Noul("?")}))
    decision = adapter.finish(prepared, Readout(np.zeros((3, 1), np.float32), STATS))
    assert decision.metadata == {"latency_ms": 500.0}
    assert "truncated" not in decision.extras


def test_255_options_and_255_levels_are_taken_and_count_their_read_outs(adapter):
    wide = Request("s", {"q": Choice("?", {str(i): None for i in range(255)})})
    assert adapter.prepare(wide).cost.rows == 256
    deep = Request("s", {"q": Score("?", [str(i) for i in range(255)])})
    assert adapter.prepare(deep).cost.rows == 256


def test_usage_counts_the_state_once_whatever_is_shared(adapter_with):
    from systone.plan import Sharing

    request = Request(WORD * 10, {"a": Noul("?"), "b": Noul("?"), "c": Choice("!", {"x": None})})
    counts = set()
    for policy in ("off", "default", "auto"):
        prepared = adapter_with(sharing=Sharing(policy)).prepare(request)
        counts.add(prepared.input_tokens)
        assert list(prepared.work.row_question) == [0, 1, 2]
    (count,) = counts
    assert count == 11 + 9 + 9 + 6  # a delimiter and a mark, options of three tokens, the end
