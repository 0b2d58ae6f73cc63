"""An answer depends on its own request alone: the same bits batched, concurrent, cold or warm."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.models import mini
from systone.models.mini import MiniExecutor
from systone.models.mini.files import find_files
from systone.protocol.types import Choice, Noul, Request, Score

WORDS = ["ferry", "fog", "late", "refund", "angry", "valve", "open", "seven", "now!", "please."]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=0, max_size=12).map(" ".join)
QUESTIONS = st.one_of(
    st.builds(Choice, TEXTS, st.dictionaries(TEXTS, st.none() | TEXTS, min_size=1, max_size=4)),
    st.builds(
        Noul, TEXTS.map("Is it {}?".format), st.none() | st.fixed_dictionaries({"true": TEXTS})
    ),
    st.builds(Score, TEXTS, st.lists(TEXTS, min_size=1, max_size=4)),
)
REQUESTS = st.builds(
    Request, TEXTS, st.dictionaries(st.sampled_from("abc"), QUESTIONS, min_size=1, max_size=2)
)


@pytest.fixture(scope="module")
def cold(pieces):
    """The same model keeping no label: every run is a cold run."""
    executor = MiniExecutor(find_files(), pieces, threads=2, cache_texts=0)
    executor.start()
    yield executor
    executor.close()


@settings(max_examples=12, deadline=None)
@given(st.lists(REQUESTS, min_size=2, max_size=4))
def test_alone_batched_reversed_cold_and_warm_give_the_same_bits(run, cold, requests):
    alone = [run(request)[0] for request in requests]
    assert run(*requests) == alone
    assert run(*reversed(requests)) == alone[::-1]
    assert run(*requests, executor=cold) == alone
    assert run(*requests) == alone


def test_a_question_does_not_see_its_neighbours(run):
    state = "The 07:40 ferry is cancelled because of fog. The next one may be late."
    choice = Choice("What happens?", {"moved": "They travel later", "none": "Nothing changes"})
    noul = Noul("Is the ferry late?")
    score = Score("How bad is it?", ["fine", "bad", "very bad"])
    alone = [run(Request(state, {"q": q}))[0].answers["q"] for q in (choice, noul, score)]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        questions = {f"id {i}": (choice, noul, score)[i] for i in order}
        (decision,) = run(Request(state, questions))
        assert [decision.answers[f"id {i}"] for i in range(3)] == alone


def test_texts_shared_between_questions_keep_their_places(run):
    state = "The ferry is late."
    first = Choice(None, {"ferry": None, "refund": None, "valve": None})
    second = Choice(None, {"valve": None, "ferry": None})
    third = Score(None, ["refund", "valve", "ferry"])
    alone = [run(Request(state, {"q": q}))[0].answers["q"] for q in (first, second, third)]
    (decision,) = run(Request(state, {"a": first, "b": second, "c": third}))
    assert list(decision.answers.values()) == alone
    assert second.criteria.keys() == alone[1].probabilities.keys()
    assert alone[1].choice == "ferry"


def test_the_number_of_threads_does_not_change_a_bit(run, pieces):
    single = MiniExecutor(find_files(), pieces, threads=1)
    single.start()
    requests = mini.load().warmup
    assert run(*requests, executor=single) == run(*requests)
    single.close()


def test_concurrent_callers_get_their_own_answers(loaded, run):
    """As the engine does it: prepare and finish in many threads, execute in one at a time."""
    colours = ["green", "red", "blue", "white"]
    requests = [
        Request(
            f"Crate {417 + i:04d} is painted {colours[i % 4]}.",
            {
                f"num {i}": Choice(
                    "Which crate number is named?",
                    {f"{417 + i + d:04d}": None for d in (0, 1, 2, 9574)},
                ),
                f"col {i}": Choice("Which colour is named?", dict.fromkeys(colours)),
            },
        )
        for i in range(40)
    ]
    expected = [run(request)[0] for request in requests]
    device = threading.Lock()

    def serve(request):
        prepared = loaded.adapter.prepare(request)
        with device:
            (readout,) = loaded.executor.execute([prepared])
        return loaded.adapter.finish(prepared, readout)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(serve, requests)) == expected
    right = sum(
        d.answers[f"num {i}"].choice == f"{417 + i:04d}"
        and d.answers[f"col {i}"].choice == colours[i % 4]
        for i, d in enumerate(expected)
    )
    assert right >= 32  # most single runs are right; a mix-up would leave about one in 160


def test_swapped_label_vectors_would_be_noticed(run, loaded, pieces, monkeypatch):
    """The check above must be able to fail: exchange two options' vectors and see it red."""
    request = Request("The ferry is late.", {"q": Choice(None, {"ferry": None, "refund": None})})
    faulty = MiniExecutor(find_files(), pieces, threads=2)
    faulty.start()
    original = faulty._label

    def swapped(text, encoder, contrasts):
        other = {"ferry": "refund", "refund": "ferry"}[text.text]
        label = next(t for t in loaded.adapter.prepare(request).work.labels if t.text == other)
        return original(label, encoder, contrasts)

    monkeypatch.setattr(faulty, "_label", swapped)
    assert run(request, executor=faulty) != run(request)
    faulty.close()
