"""The read-out of small models: how much more likely a state makes each option's statement.

Letters are chance at 135 M parameters; the likelihood of a statement is not. Owns the wording, the
reference texts and the formulas; one row a statement. Nats throughout. N statements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from systone.errors import EngineFaultError
from systone.models.base import Adapter, Cost, ModelCard, Prepared, Readout
from systone.models.calibration import sigmoid
from systone.models.label.answers import answer_from
from systone.models.label.options import LabelOptions
from systone.models.label.requests import check_lengths, check_request
from systone.models.label.tokens import PromptTokens
from systone.models.pytext import text_of
from systone.models.statement import declare
from systone.plan import I32
from systone.protocol.types import (
    Answer,
    Choice,
    Decision,
    Noul,
    NoulAnswer,
    Question,
    Request,
    Usage,
)

__all__ = ["REFERENCES", "StatementAdapter", "StatementWork"]

# Texts that have nothing to say on a question: what a statement scores after them is its base.
REFERENCES = (
    "The ferry to the island leaves at ten in the morning.",
    "Thank you for your letter. It has been received.",
    "The museum is open from nine to five on weekdays.",
    "I would like to hear more about this.",
)
# Log-odds of a Noul per nat and token of lift, and their bound: the ranking is real, the level not.
SLOPE, MAX_LOG_ODDS = 0.5, 0.75


@dataclass(frozen=True, slots=True, eq=False)
class StatementWork:
    """Ids of the state's part, of the reference texts' parts, and of each statement after them."""

    state: I32
    references: tuple[I32, ...]
    statements: tuple[I32, ...]


class StatementAdapter(Adapter):
    """Prompts, limits, usage and formulas of the statement read-out. English statements."""

    def __init__(self, card: ModelCard, tokens: PromptTokens, options: LabelOptions) -> None:
        self.card = card
        self._tokens = tokens
        self._options = options
        self._references = tuple(self._context(text) for text in REFERENCES)

    def prepare(self, request: Request) -> Prepared:
        """Raises RequestError (422) for the first fault in request order, then for length."""
        check_request(request)
        state = self._context(text_of(request.state, ("state",)))
        counts, texts = [], []
        for name, question in request.questions.items():
            own = _statements(name, question)
            counts.append(len(own))
            texts += own
        statements = self._tokens.encode_plain([f" {text}" for text in texts])
        lengths = [state.size + ids.size for ids in statements]
        owners = [i for i, count in enumerate(counts) for _ in range(count)]
        limit = self.card.limits.max_tokens
        assert limit is not None
        check_lengths(request, lengths, owners, limit)
        return Prepared(
            request=request,
            cost=Cost(state.size + sum(ids.size for ids in statements), len(statements)),
            input_tokens=sum(lengths),
            work=StatementWork(state, self._references, tuple(statements)),
            context=tuple(counts),
        )

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """From values [N, 2]: log P(statement | state), and its mean given the reference texts.

        Raises EngineFaultError for values that are missing or not finite."""
        work: StatementWork = prepared.work
        if readout.values.shape != (len(work.statements), 2):
            raise EngineFaultError(f"log-probabilities of shape {readout.values.shape}")
        if not np.isfinite(readout.values).all():
            raise EngineFaultError("a log-probability is not finite", code="non_finite_output")
        lifts = [
            (float(given) - float(base)) / ids.size
            for (given, base), ids in zip(readout.values, work.statements, strict=True)
        ]
        answers: dict[str, Answer] = {}
        raw: dict[str, list[float]] = {}
        at = 0
        for (name, question), count in zip(
            prepared.request.questions.items(), prepared.context, strict=True
        ):
            raw[name] = lifts[at : at + count]
            answers[name] = self._answer(question, raw[name])
            at += count
        return Decision(
            model=self.card.name,
            answers=answers,
            usage=Usage(prepared.input_tokens),
            extras={"scores": raw, "calibrated": self.card.calibrated},
        )

    def _answer(self, question: Question, lifts: Sequence[float]) -> Answer:
        """A Noul's log-odds are M tanh(SLOPE lift / M) of its one statement, or of the difference
        between its sides'; options are the softmax of their lifts."""
        two = isinstance(question, Noul)
        temperature = self._options.temperatures.of(question.kind, 2 if two else len(lifts))
        if two:
            lift = lifts[0] if len(lifts) == 1 else lifts[1] - lifts[0]
            odds = MAX_LOG_ODDS * math.tanh(SLOPE * lift / MAX_LOG_ODDS)
            return NoulAnswer(sigmoid(odds, temperature))
        return answer_from(question, [lift / temperature for lift in lifts])

    def _context(self, text: str) -> I32:
        (ids,) = self._tokens.encode_plain([f"Text: {text}\n\nSummary:"])
        return np.concatenate([self._tokens.begin(), ids])


def _statements(name: str, question: Question) -> list[str]:
    """One statement for a Noul with a question, one a side for one with described sides only, one
    an option or level else; a described option's name is not part of its statement."""
    loc = ("questions", name, question.kind)
    if isinstance(question, Noul):
        asked = question.instructions
        text = "" if asked is None else text_of(asked, (*loc, "instructions"))
        if text.strip():
            return [declare(text).text]
        given = question.criteria or {}
        sides = [(side, given.get(side)) for side in ("false", "true")]
        shown = [
            side if value is None else text_of(value, (*loc, "criteria", side))
            for side, value in sides
        ]
        return [_about(text) for text in shown]
    if isinstance(question, Choice):
        return [
            _about(text_of(key if value is None else value, (*loc, "criteria", key)))
            for key, value in question.criteria.items()
        ]
    return [_about(text_of(v, (*loc, "criteria", i))) for i, v in enumerate(question.criteria)]


def _about(option: str) -> str:
    return f"This is about {option.strip().rstrip('.')}."
