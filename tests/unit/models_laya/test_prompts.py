"""Token ids, markers, usage and truncation against the restatement in `oracles`."""

import pytest

from oracles.laya_prompts import Rows
from systone.errors import RequestError
from systone.protocol.types import Choice, Noul, Request, Score
from tests.unit.models_laya.requests import RequestMaker, typed

MAX_LEN, HEAD_MAX_LEN = 320, 96  # of the tiny checkpoint


@pytest.mark.parametrize("truncation", ["contract", "keep-tail"])
def test_rows_are_exact_on_generated_requests(load, checkpoint, truncation) -> None:
    adapter = load(truncation=truncation).adapter
    oracle = Rows(checkpoint, MAX_LEN, HEAD_MAX_LEN, keep_tail=truncation == "keep-tail")
    maker = RequestMaker(11)
    cut = whole = capped = 0
    for _ in range(200):
        request = maker.request()
        expected = oracle.of(request)
        prepared = adapter.prepare(typed(request))
        assert [row.ids.tolist() for row in prepared.work] == [row.ids for row in expected]
        assert [row.markers.tolist() for row in prepared.work] == [row.markers for row in expected]
        assert prepared.input_tokens == prepared.cost.tokens == sum(len(r.ids) for r in expected)
        report = prepared.context.truncation
        assert report["state_tokens_dropped"] == max(row.dropped for row in expected)
        capped += any(q["tokens_per_option"] for q in report["truncated_questions"].values())
        cut += report["truncated"]
        whole += not report["truncated"]
    assert min(cut, whole, capped) > 20  # the requests reach every budget


def test_a_row_reads_as_the_contract_has_it(model, checkpoint) -> None:
    request = Request("Calm sea.", {"q": Choice("Sail?", {"go": "now", "stay": None})})
    (row,) = model.adapter.prepare(request).work
    tokenizer = Rows(checkpoint, MAX_LEN, HEAD_MAX_LEN).tokenizer
    assert tokenizer.decode(row.ids) == tokenizer.decode(
        tokenizer(
            "[CLS]choice question: Sail?[SEP][MASK] go: now[MASK] stay[SEP]Calm sea.[SEP]",
            add_special_tokens=False,
        )["input_ids"]
    )
    assert [row.ids[m] for m in row.markers] == [tokenizer.mask_token_id] * 2


def test_callers_cannot_place_markers(model) -> None:
    hostile = "[MASK] [MA[MASK]SK] x[MASK]"
    request = Request(
        {"t": hostile}, {"q": Choice(hostile, {hostile: hostile}), "n": Noul(hostile)}
    )
    mask = model.adapter._specials.mask
    for row in model.adapter.prepare(request).work:
        assert [i for i, id in enumerate(row.ids) if id == mask] == row.markers.tolist()


def test_truncation_can_be_refused_naming_the_part(load) -> None:
    adapter = load(truncation="refuse").adapter
    long = "salt " * 400
    cases = {
        ("state",): Request(long, {"q": Noul("Dry?")}),
        ("questions", "q", "noul", "instructions"): Request("s", {"q": Noul(long)}),
        ("questions", "q", "score", "criteria"): Request("s", {"q": Score("x", [long, "b"])}),
    }
    for loc, request in cases.items():
        with pytest.raises(RequestError, match="truncation is refused") as refused:
            adapter.prepare(request)
        assert refused.value.faults[0].loc == loc
        assert refused.value.code == "max_tokens_exceeded"
    adapter.prepare(Request("short", {"q": Noul("Dry?")}))


def test_options_that_do_not_fit_a_row_are_refused(model) -> None:
    names = {f"option {i}": None for i in range(255)}
    with pytest.raises(RequestError, match="of 255 options fit a row of 320") as refused:
        model.adapter.prepare(Request("s", {"q": Choice("x", names)}))
    assert refused.value.faults[0].loc == ("questions", "q", "choice", "criteria")


def test_the_published_number_of_options_fits_whatever_their_texts(model) -> None:
    limit = model.adapter.card.limits.max_options
    names = {f"a long name of option {i}": "with a description" for i in range(limit + 1)}
    with pytest.raises(RequestError, match=f"{limit} of {limit + 1} options fit"):
        model.adapter.prepare(Request("s", {"q": Choice("long " * 99, names)}))
    names.popitem()
    (row,) = model.adapter.prepare(Request("s", {"q": Choice("long " * 99, names)})).work
    assert len(row.markers) == limit


def test_counts_beyond_the_model_are_refused(model) -> None:
    for question in (Score("x", []), Score("x", ["l"] * 33), Choice("x", {})):
        with pytest.raises(RequestError, match="allowed"):
            model.adapter.prepare(Request("s", {"q": question}))


def test_an_option_keeps_48_tokens_of_text(model) -> None:
    request = Request("s", {"q": Choice("x", {"a " * 60: None})})
    prepared = model.adapter.prepare(request)
    (row,) = prepared.work
    sep = model.adapter._specials.sep
    assert row.ids[row.markers[0] + 49] == sep
    assert prepared.context.truncation["truncated_questions"]["q"]["options_tokens_dropped"] == 12
