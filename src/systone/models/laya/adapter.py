"""The Laya family as an adapter: request -> one row per question, logits -> decision.

The budgets are the model's own contract: what they cut is reported under `extras`, or refused
where the operator chose so. Pure CPU, thread-safe. N options of all questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from systone.errors import EngineFaultError, RequestError
from systone.models.base import Adapter, Cost, Prepared, Readout
from systone.models.laya.answers import answer
from systone.models.laya.budget import Budgets, Built, Specials, build_row
from systone.models.laya.card import LayaCheckpoint, card_of
from systone.models.laya.config import KINDS, Temperatures, band_of
from systone.models.laya.prompt import RequestText, read_request
from systone.models.laya.rows import MarkerRow
from systone.models.laya.tokens import LayaTokens
from systone.protocol.types import Answer, Decision, Question, Request, Usage

__all__ = ["LayaAdapter"]

Truncation = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Context:
    """Beside the logits: options per question, and what goes under `extras`."""

    options: tuple[int, ...]
    truncation: Truncation


class LayaAdapter(Adapter):
    """Prompts, budgets, usage and formulas of one checkpoint.

    `refuse`: a request over the budgets is refused instead of cut."""

    def __init__(
        self,
        checkpoint: LayaCheckpoint,
        tokens: LayaTokens,
        budgets: Budgets,
        temperatures: Temperatures,
        *,
        refuse: bool = False,
    ) -> None:
        self.card = card_of(checkpoint, budgets, refuse=refuse)
        self.budgets = budgets
        self._tokens = tokens
        self._specials = Specials(tokens.cls, tokens.sep, tokens.mask)
        self._temperatures = temperatures
        self._refuse = refuse

    def prepare(self, request: Request) -> Prepared:
        """Raises RequestError (422) for the first fault in request order: shapes of every slot
        first, then options that don't fit a row, then, if so chosen, anything over a budget."""
        text = read_request(request)
        state, built = self._rows(text)
        for (id, question), row in zip(request.questions.items(), built, strict=True):
            self._check(id, question, row)
        rows = tuple(
            MarkerRow(
                np.array(row.ids, np.int64), np.array(row.markers, np.int64), KINDS.index(q.kind)
            )
            for q, row in zip(request.questions.values(), built, strict=True)
        )
        tokens = sum(len(row.ids) for row in built)
        options = tuple(len(row.markers) for row in built)
        return Prepared(
            request=request,
            cost=Cost(tokens=tokens, rows=sum(options)),
            input_tokens=tokens,
            work=rows,
            context=_Context(options, _truncation(request, state, built)),
            notes=(*text.notes, *self._held_notes(request, options)),
        )

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """`extras`: `truncated` with its counts, `own_confidence` by question, `logits` (raw) and
        `notes` if there are any. Raises EngineFaultError for logits missing or not finite."""
        context: _Context = prepared.context
        logits = _checked(readout, sum(context.options))
        answers: dict[str, Answer] = {}
        own: dict[str, Mapping[str, float]] = {}
        raw: dict[str, list[float]] = {}
        at = 0
        for (id, question), count in zip(
            prepared.request.questions.items(), context.options, strict=True
        ):
            raw[id] = logits[at : at + count]
            temperature = self._temperatures.of(question.kind, count)
            answers[id], own[id] = answer(question, raw[id], temperature)
            at += count
        extras: dict[str, Any] = {**context.truncation, "own_confidence": own, "logits": raw}
        if prepared.notes:
            extras["notes"] = list(prepared.notes)
        return Decision(
            model=self.card.name,
            answers=answers,
            usage=Usage(prepared.input_tokens),
            extras=extras,
        )

    def _rows(self, text: RequestText) -> tuple[int, list[Built]]:
        """Tokens of the whole state, and a row per question. Each text is tokenised once."""
        texts = [text.state]
        for question in text.questions.values():
            # An option's text begins with a space, as in running text.
            texts += [question.asked, *(f" {option}" for option in question.options)]
        ids = iter(self._tokens.encode([self._tokens.blank(t) for t in texts]))
        state = next(ids)
        rows = [
            build_row(
                next(ids),
                [next(ids) for _ in question.options],
                state,
                self.budgets,
                self._specials,
            )
            for question in text.questions.values()
        ]
        return len(state), rows

    def _check(self, id: str, question: Question, row: Built) -> None:
        loc = ("questions", id, question.kind)
        count = 2 if question.kind == "noul" else len(question.criteria or ())
        if len(row.markers) < count:
            raise _too_long(
                (*loc, "criteria"),
                f"question {id}: only {len(row.markers)} of {count} options fit a row of "
                f"{self.budgets.max_len} tokens",
            )
        if not self._refuse or not row.cut.truncated:
            return
        at: tuple[str | int, ...]
        if row.cut.options:
            part, dropped, at = "options", row.cut.options, (*loc, "criteria")
        elif row.cut.question:
            part, dropped, at = "instructions", row.cut.question, (*loc, "instructions")
        else:
            part, dropped, at = "state", row.cut.state, ("state",)
        raise _too_long(
            at,
            f"question {id}: its {part} would lose {dropped} tokens "
            f"(max_len={self.budgets.max_len}, head_max_len={self.budgets.head_max_len}); "
            "truncation is refused here",
        )

    def _held_notes(self, request: Request, options: tuple[int, ...]) -> list[str]:
        """A note per question whose fitted temperature is outside the bounds."""
        notes = []
        for (id, question), count in zip(request.questions.items(), options, strict=True):
            band = f"{question.kind}:{band_of(count)}"
            name = band if band in self._temperatures.by_band else question.kind
            if name in self._temperatures.held:
                fitted, served = self._temperatures.held[name]
                notes.append(
                    f"question {id}: the checkpoint's temperature of {name} is {fitted:g}; "
                    f"served as {served:g}, not calibrated"
                )
        return notes


def _truncation(request: Request, state_tokens: int, built: list[Built]) -> Truncation:
    """`truncated`, the state's tokens, and by question what its row left out."""
    cut = {
        id: {
            "state_tokens_dropped": row.cut.state,
            "instructions_tokens_dropped": row.cut.question,
            "options_tokens_dropped": row.cut.options,
            "tokens_per_option": row.cut.option_cap,
            "options_distinct": row.cut.distinct_options,
        }
        for id, row in zip(request.questions, built, strict=True)
        if row.cut.truncated
    }
    return {
        "truncated": bool(cut),
        "state_tokens": state_tokens,
        "state_tokens_dropped": max((row.cut.state for row in built), default=0),
        "truncated_questions": cut,
    }


def _checked(readout: Readout, options: int) -> list[float]:
    values = readout.values
    if values.shape != (options, 1):
        raise EngineFaultError(f"{options} options gave logits of shape {values.shape}")
    if not np.isfinite(values).all():
        raise EngineFaultError("a logit is not finite", code="non_finite_output")
    logits: list[float] = values[:, 0].astype(np.float64).tolist()
    return logits


def _too_long(loc: tuple[str | int, ...], message: str) -> RequestError:
    return RequestError.at(
        loc,
        message,
        type="max_tokens_exceeded",
        code="max_tokens_exceeded",
        exact="max_tokens_exceeded",
    )
