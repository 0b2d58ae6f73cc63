"""systone-mini's semantics: which texts a request compares, its limits, and its answers.

Pure CPU: tokenises in `prepare`, applies the read-outs in `finish`. Knows no onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systone.errors import RequestError
from systone.models import calibration
from systone.models.answering import answer_of
from systone.models.base import Adapter, Cost, ModelCard, Prepared, Readout
from systone.models.mini.card import CARD
from systone.models.mini.constants import MAX_REQUEST_PIECES, MAX_TEXT_PIECES
from systone.models.mini.labels import LabelBook, Loc, choice_rows, noul_rows, score_rows
from systone.models.mini.pieces import Ids, Pieces, WordPieces, sentences_of, windows_of
from systone.models.mini.readout import choice_scores, level_scores, noul_log_odds
from systone.models.mini.table import Table
from systone.models.mini.work import MiniContext, MiniWork, NoulRows, OptionRows, QuestionRows
from systone.models.pytext import text_of
from systone.protocol.types import (
    Answer,
    Choice,
    Decision,
    Noul,
    NoulAnswer,
    Question,
    Request,
    Score,
    Usage,
)

__all__ = ["MiniAdapter"]


class MiniAdapter(Adapter):
    """`scored`: the executor has a second model for Nouls, whose opinion replaces the contrast."""

    def __init__(self, pieces: WordPieces, *, card: ModelCard = CARD, scored: bool = False) -> None:
        self.card = card
        self._pieces = pieces
        self._scored = scored

    def prepare(self, request: Request) -> Prepared:
        """Every text of the request as pieces.

        Raises RequestError (code `max_tokens_exceeded`, `unsupported_input`, `invalid_request`).
        """
        _refuse_assets(request)
        state = text_of(request.state, ("state",))
        pieces = self._pieces.read(state)
        check_length(len(pieces), ("state",))
        book = LabelBook(self._pieces, check_length)
        rows = {id: _rows(book, id, q) for id, q in request.questions.items()}
        tokens = len(pieces) + book.tokens
        if tokens > MAX_REQUEST_PIECES:
            raise _too_long("the request", tokens, MAX_REQUEST_PIECES, ("questions",))
        nouls = any(isinstance(q, Noul) for q in request.questions.values())
        keys = any(label.is_key for label in book.labels)
        windows, sentences = _views(pieces, sentences=nouls or keys)
        work = MiniWork(state, windows, sentences, tuple(book.labels))
        return Prepared(
            request=request,
            cost=Cost(tokens=tokens, rows=len(work.labels)),
            input_tokens=tokens,
            work=work,
            context=MiniContext(len(windows), len(work.views), rows),
            notes=_notes(pieces, windows),
        )

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """Answers in float64. Raises EngineFaultError(code="non_finite_output")."""
        context: MiniContext = prepared.context
        table = Table(readout.values.astype(np.float64), context.windows, context.views)
        return Decision(
            model=self.card.name,
            answers={
                id: self._answer(question, table, context.rows[id])
                for id, question in prepared.request.questions.items()
            },
            usage=Usage(prepared.input_tokens),
            extras={"calibrated": self.card.calibrated, "notes": list(prepared.notes)},
        )

    def _answer(self, question: Question, table: Table, rows: QuestionRows) -> Answer:
        if isinstance(question, Noul):
            assert isinstance(rows, NoulRows)
            return NoulAnswer(calibration.sigmoid(noul_log_odds(table, rows, scored=self._scored)))
        assert isinstance(rows, OptionRows)
        if isinstance(question, Choice):
            return answer_of(question, calibration.softmax(choice_scores(table, rows)))
        return answer_of(question, calibration.softmax(level_scores(table, rows)))


def check_length(pieces: int, loc: Loc) -> None:
    """Raises RequestError(code="max_tokens_exceeded") for a text above the model's limit."""
    if pieces > MAX_TEXT_PIECES:
        raise _too_long("this text", pieces, MAX_TEXT_PIECES, loc)


def _rows(book: LabelBook, id: str, question: Question) -> QuestionRows:
    loc: Loc = ("questions", id, question.kind)
    if isinstance(question, Choice):
        return choice_rows(book, question, loc)
    if isinstance(question, Score):
        return score_rows(book, question, loc)
    return noul_rows(book, question, loc)


def _views(pieces: Pieces, *, sentences: bool) -> tuple[tuple[Ids, ...], tuple[Ids, ...]]:
    """(windows, sentences) of a state; none where there is nothing to read.

    Sentences cost forwards of their own: only where a read-out looks at them.
    """
    if pieces.blank:
        return (), ()
    windows = windows_of(pieces)
    return windows, sentences_of(pieces) if sentences or len(windows) > 1 else ()


def _refuse_assets(request: Request) -> None:
    if request.assets:
        raise RequestError.at(
            ("assets",),
            f"This model reads text only and takes no images; it got {len(request.assets)}.",
            type="unsupported_input",
            code="unsupported_input",
        )


def _too_long(what: str, pieces: int, limit: int, loc: Loc) -> RequestError:
    return RequestError.at(
        loc,
        f"{what} has {pieces} tokens, the model's limit is {limit}; nothing is truncated",
        type="max_tokens_exceeded",
        code="max_tokens_exceeded",
        exact="max_tokens_exceeded",
        tokens=pieces,
        limit=limit,
    )


def _notes(pieces: Pieces, windows: Sequence[object]) -> tuple[str, ...]:
    if pieces.blank:
        return ("the state holds nothing to read: every answer is uniform",)
    if len(windows) > 1:
        return (f"the state was read in {len(windows)} windows",)
    return ()
