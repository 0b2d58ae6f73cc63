"""The Kev family as an adapter: request -> one row per question, pointer logits -> decision.

Pure CPU, thread-safe. A question's read-outs are its options in order and its last token, whose
own score is not used.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from systone.errors import EngineFaultError
from systone.models.base import Adapter, Cost, Prepared, Readout
from systone.models.kev.answers import answer
from systone.models.kev.card import KevCheckpoint, KevSettings, card_of
from systone.models.kev.prompt import RequestText, read_request
from systone.models.kev.rows import RowMaker, Rows, Tokenizer
from systone.plan import build_trie
from systone.plan.tables import ID_BYTES
from systone.protocol.kev import answer_object
from systone.protocol.types import (
    Answer,
    Decision,
    Question,
    Request,
    Score,
    ScoreAnswer,
    Usage,
)

__all__ = ["KevAdapter"]


@dataclass(frozen=True, slots=True)
class _Context:
    text: RequestText
    rows: Rows


_ONE_DIGIT = str.maketrans("123456789", "000000000")


class KevAdapter(Adapter):
    """Prompts, limits, usage and formulas of one Kev checkpoint."""

    def __init__(
        self,
        checkpoint: KevCheckpoint,
        tokenizer: Tokenizer,
        settings: KevSettings | None = None,
    ) -> None:
        self.settings = settings or KevSettings()
        self.checkpoint = checkpoint
        self.limits = self.settings.limits
        self.card = card_of(checkpoint, self.limits)
        self._tokenizer = tokenizer
        self._rows = RowMaker(tokenizer)

    def prepare(self, request: Request) -> Prepared:
        """Raises RequestError (422): the first field that can't be read, else the state's length,
        else the first branch that is too long."""
        text = read_request(request, date_facts=self.settings.date_facts)
        made = self._rows.rows(text, list(request.questions), self.limits)
        trie = build_trie(made.rows, self.settings.sharing)
        load = trie.load
        return Prepared(
            request=request,
            cost=Cost(load.tokens, load.rows, load.states),
            input_tokens=made.input_tokens,
            work=trie,
            context=_Context(text, made),
        )

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """Raises EngineFaultError for logits that are missing, surplus or not finite.

        `extras`: `prefix_cache`, `logits` (raw, by question), `temperature`, and under the
        truncation switch `truncated`, `state_tokens`, `state_tokens_used`."""
        context: _Context = prepared.context
        request, rows = prepared.request, context.rows
        scores = _scores(readout, sum(len(row.readouts or ()) for row in rows.rows))
        answers: dict[str, Answer] = {}
        billed: dict[str, Any] = {}
        logits: dict[str, list[float]] = {}
        at = 0
        for (name, question), asked in zip(
            request.questions.items(), context.text.questions, strict=True
        ):
            found = logits[name] = scores[at : at + len(asked.options)]
            at += len(asked.options) + 1
            own = answer(question, found, self.checkpoint.temperature, asked.options)
            billed[name] = answer_object(own)
            answers[name] = own if request.dialect == "kev" else _as_sent(own, question)
        cut = self._cut(rows)
        return Decision(
            model=self.card.name,
            answers=answers,
            usage=Usage(prepared.input_tokens, self._output_tokens(billed)),
            metadata={"latency_ms": round(1e3 * readout.stats["inference_seconds"], 1), **cut},
            extras={
                "prefix_cache": readout.stats["prefix_cache"],
                "logits": logits,
                "temperature": self.checkpoint.temperature,
                **cut,
            },
        )

    def _cut(self, rows: Rows) -> dict[str, Any]:
        if not self.limits.truncate:
            return {}
        return {
            "truncated": rows.truncated,
            "state_tokens": rows.state_tokens,
            "state_tokens_used": rows.state_tokens_used,
        }

    def _output_tokens(self, answers: dict[str, Any]) -> int:
        """A figure for bills: the tokens of the answers as Python's `json.dumps` prints them.

        Every digit is a token of its own in both split patterns, so the count doesn't depend on
        which digits they are; with one digit for all of them most words were met before."""
        (ids,) = self._tokenizer.ids([json.dumps(answers).translate(_ONE_DIGIT)])
        return len(ids) // ID_BYTES


def _as_sent(own: Answer, question: Question) -> Answer:
    """Outside the model's own dialect a legend repeats the levels as they were sent."""
    if isinstance(own, ScoreAnswer) and isinstance(question, Score):
        legend = tuple(question.criteria)
        return ScoreAnswer(own.score, legend, own.probabilities, own.confidence)
    return own


def _scores(readout: Readout, count: int) -> list[float]:
    values = readout.values
    if values.shape != (count, 1):
        raise EngineFaultError(f"{count} read-outs gave scores of shape {values.shape}")
    scores: list[float] = values[:, 0].tolist()
    if not all(map(math.isfinite, scores)):  # of so few, quicker than numpy
        raise EngineFaultError("a logit is not finite", code="non_finite_output")
    return scores
