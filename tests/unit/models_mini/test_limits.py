"""Limits, usage and the seam for a second model: nothing is cut, everything is counted."""

import json

import pytest

from systone.errors import ConfigError, EngineDownError, RequestError
from systone.models.mini import MiniAdapter, MiniExecutor
from systone.models.mini.card import CARD
from systone.models.mini.constants import MAX_REQUEST_PIECES, MAX_TEXT_PIECES
from systone.models.mini.files import find_files
from systone.models.mini.pieces import WordPieces
from systone.protocol.types import Asset, Choice, Noul, Request, Score

VALVE = "The valve is open."
NOUL = {"v": Noul("Is the valve open?")}


def state_of(count):
    """Exactly `count` pieces, of which only the last sentence says anything of a valve."""
    filler = "The grey lamp stands on a shelf. "  # eight pieces
    words, rest = divmod(count - 5, 8)
    return "lamp " * rest + filler * words + VALVE


def refusal(loaded, request):
    with pytest.raises(RequestError) as caught:
        loaded.adapter.prepare(request)
    return caught.value


@pytest.mark.parametrize("count", [MAX_TEXT_PIECES - 1, MAX_TEXT_PIECES])
def test_a_state_up_to_the_limit_is_taken_whole(loaded, pieces, count):
    text = state_of(count)
    assert len(pieces.read(text)) == count
    prepared = loaded.adapter.prepare(Request(text, NOUL))
    assert sum(map(len, prepared.work.windows)) == count
    assert prepared.work.sentences[-1] == pieces.read(VALVE).ids


@pytest.mark.parametrize("count", [MAX_TEXT_PIECES + 1, 10 * MAX_TEXT_PIECES])
def test_a_longer_state_is_refused_with_count_and_limit(loaded, count):
    error = refusal(loaded, Request(state_of(count), NOUL))
    assert error.code == "max_tokens_exceeded"
    fault = error.faults[0]
    assert fault.loc == ("state",)
    assert fault.ctx == {"tokens": count, "limit": MAX_TEXT_PIECES}
    assert str(count) in fault.msg
    assert str(MAX_TEXT_PIECES) in fault.msg


def test_the_part_that_overflows_is_named(loaded):
    long = "lamp " * (MAX_TEXT_PIECES + 1)
    cases = {
        ("questions", "q", "choice", "criteria", "b"): Choice(None, {"a": None, "b": long}),
        ("questions", "q", "choice", "instructions"): Choice(long, {"a": None}),
        ("questions", "q", "score", "criteria", 1): Score(None, ["low", long]),
        ("questions", "q", "noul", "criteria", "true"): Noul(None, {"true": long}),
        ("questions", "q", "noul", "instructions"): Noul(long),
    }
    for loc, question in cases.items():
        error = refusal(loaded, Request("x", {"ok": Noul("Is it?"), "q": question}))
        assert error.code == "max_tokens_exceeded"
        assert error.faults[0].loc == loc


def test_a_request_has_a_limit_of_its_own(loaded):
    part = "lamp " * MAX_TEXT_PIECES
    request = Request(part, {str(i): Noul(part) for i in range(4)})
    error = refusal(loaded, request)
    assert error.faults[0].ctx == {"tokens": 5 * MAX_TEXT_PIECES, "limit": MAX_REQUEST_PIECES}


def test_many_characters_of_few_pieces_are_no_problem(loaded):
    prepared = loaded.adapter.prepare(Request(" " * 200_000 + "open", NOUL))
    assert prepared.input_tokens < 20


def test_the_last_sentence_of_a_long_state_decides(ask):
    filler = "The grey lamp stands on a shelf. " * 70
    valve = Choice("Valve?", {"open": "The valve is open", "shut": "The valve is shut"})
    assert ask(f"{filler} The valve is open.", valve).choice == "open"
    assert ask(f"{filler} The valve is shut.", valve).choice == "shut"
    assert ask(f"{filler} The valve is open.", NOUL["v"]).noul > ask(filler, NOUL["v"]).noul


def test_a_long_option_is_read_to_its_end(ask):
    filler = "Nothing of note. " * 120
    question = Choice(None, {"a": f"{filler} It is about owls.", "b": f"{filler} About taxes."})
    answer = ask("An owl sits in the tree.", question)
    assert answer.choice == "a"
    assert answer.probabilities["a"] != answer.probabilities["b"]


def test_images_are_refused_by_name(loaded):
    image = Asset(b"\x89PNG", "png")
    error = refusal(loaded, Request("x", NOUL, assets={"<image:1>": image}))
    assert error.faults[0].loc == ("assets",)
    assert 400 <= error.status < 500
    assert "image" in str(error)


def test_usage_counts_the_state_once_and_every_text_of_the_questions(loaded, pieces):
    def tokens(*texts):
        return sum(len(pieces.read(text)) for text in texts)

    state = "The 07:40 ferry is cancelled because of fog."
    a, b = Noul("Is there fog?"), Noul("Is it a train?", {"true": "a train", "false": None})
    c = Choice("Which?", {"x": "the first", "y": None})

    def usage(questions):
        return loaded.adapter.prepare(Request(state, questions)).input_tokens

    assert usage({"a": a}) == tokens(state, "Is there fog?")
    assert usage({"a": a, "b": b}) == tokens(state, "Is there fog?", "Is it a train?", "a train")
    assert usage({"c": c}) == tokens(state, "Which?", "x: the first", "y")
    assert usage({"a": a, "again": a}) == tokens(state, "Is there fog?", "Is there fog?")


def test_usage_is_the_same_cold_warm_and_batched(run):
    request = Request("Fog.", {"a": Noul("Is a completely new thing mentioned?")})
    usages = [run(request)[0].usage, run(request)[0].usage, run(request, request)[1].usage]
    assert usages.count(usages[0]) == 3
    assert usages[0].output_tokens == 0


def test_a_long_or_blank_state_is_noted(run):
    (long,) = run(Request("The grey lamp stands. " * 80, NOUL))
    assert "windows" in long.extras["notes"][0]
    (empty,) = run(Request("", NOUL))
    assert "nothing to read" in empty.extras["notes"][0]
    assert run(Request("Short.", NOUL))[0].extras == {"calibrated": False, "notes": []}


def test_the_card_says_what_the_model_is(loaded):
    assert loaded.adapter.card is CARD
    assert CARD.name == "systone-mini"
    assert CARD.calibrated is False
    assert CARD.limits.max_tokens == MAX_TEXT_PIECES
    assert CARD.limits.max_images == 0
    for part in ("Demo-grade", "uncalibrated", "Kev-4B"):
        assert part in CARD.description


def test_the_warmup_asks_every_kind_in_one_request(loaded, run):
    kinds = {q.kind for q in loaded.warmup[0].questions.values()}
    assert kinds == {"choice", "noul", "score"}
    assert len(run(*loaded.warmup)) == len(loaded.warmup) == 2


class Scorer:
    """Records what it is asked; says yes to statements about valves."""

    def __init__(self):
        self.asked, self.running = [], False

    def start(self):
        self.running = True

    def score(self, state, statements):
        assert self.running
        self.asked.append((state, tuple(statements)))
        return [3.0 if "valve" in s else -3.0 for s in statements]

    def close(self):
        self.running = False

    def describe(self):
        return {"name": "recorder"}


def test_a_second_model_answers_undescribed_nouls_alone(pieces):
    scorer = Scorer()
    executor = MiniExecutor(find_files(), pieces, scorer=scorer, threads=2)
    executor.start()
    adapter = MiniAdapter(pieces, scored=True)
    sides = {"true": "the valve is open", "false": "the valve is shut"}
    questions = {
        "a": Noul("Is the valve open?"),
        "b": Noul("Is the tap red?"),
        "c": Noul("Is the valve open?", sides),
        "d": Choice(None, {"x": None, "y": None}),
    }
    prepared = adapter.prepare(Request(VALVE, questions))
    (readout,) = executor.execute([prepared])
    answers = adapter.finish(prepared, readout).answers
    assert scorer.asked == [(VALVE, ("The valve is open.", "The tap is red."))]
    assert answers["a"].noul == pytest.approx(0.9526, abs=1e-4)
    assert answers["b"].noul == pytest.approx(0.0474, abs=1e-4)
    assert 0.5 < answers["c"].noul < 0.95
    assert executor.describe()["noul_scorer"] == {"name": "recorder"}
    executor.close()
    assert not scorer.running


def test_an_executor_that_is_not_started_refuses(loaded, pieces):
    executor = MiniExecutor(find_files(), pieces, threads=1)
    with pytest.raises(EngineDownError):
        executor.execute([loaded.adapter.prepare(Request("x", NOUL))])
    assert executor.describe()["forwards"] == 0


def test_health_shows_the_caches_size_and_counters(loaded, run):
    run(Request("x", NOUL))
    seen = loaded.executor.describe()
    assert seen["device"] == "cpu"
    assert seen["threads"] == 2
    assert seen["label_cache"]["texts"] <= seen["label_cache"]["max_texts"]
    assert seen["forwards"] > 0


def test_a_tokenizer_without_control_tokens_is_a_config_error():
    model = {
        "type": "WordPiece",
        "unk_token": "a",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 9,
        "vocab": {"a": 0},
    }
    data = json.dumps({"version": "1.0", "added_tokens": [], "model": model}).encode()
    with pytest.raises(ConfigError, match=r"no \[CLS\]"):
        WordPieces(data)


def test_a_question_without_words_is_answered_undecided(run) -> None:
    """It has no label to compare with: no rows, and no opinion."""
    (decision,) = run(Request("x" * 4000, {"q": Noul("?")}))
    assert abs(decision.answers["q"].noul - 0.5) < 1e-9
