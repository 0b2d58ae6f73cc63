"""A causal language model read by label tokens, as an adapter: request -> rows, logits -> decision.

One row a question (times the orders averaged over); nothing is generated. Pure CPU, thread-safe.
N rows, W columns of the read-out.
"""

from __future__ import annotations

from typing import Any

from systone.errors import EngineFaultError
from systone.models.base import Adapter, Cost, ModelCard, Prepared, Readout
from systone.models.label.answers import answer_from, label_scores, option_scores
from systone.models.label.labels import Labels
from systone.models.label.options import LabelOptions
from systone.models.label.requests import check_lengths, check_request
from systone.models.label.rows import AskedQuestion, RowPlanner
from systone.models.label.tokens import FramedTokens
from systone.plan import Row, Sharing, build_trie
from systone.protocol.types import Answer, Decision, Kind, Request, Usage

__all__ = ["LabelAdapter"]


class LabelAdapter(Adapter):
    """Prompts, limits, usage and formulas of one model under one prompt format."""

    def __init__(
        self,
        card: ModelCard,
        planner: RowPlanner,
        tokens: FramedTokens,
        labels: Labels,
        options: LabelOptions,
        sharing: Sharing,
    ) -> None:
        self.card = card
        self.labels = labels
        self._planner = planner
        self._tokens = tokens
        self._options = options
        self._sharing = sharing

    def prepare(self, request: Request) -> Prepared:
        """Raises RequestError (422) for the first fault in request order, then for length."""
        check_request(request)
        asked = self._planner.plan(request)
        texts = [row.text for question in asked for row in question.rows]
        owners = [i for i, question in enumerate(asked) for _ in question.rows]
        paths = self._tokens.rows(texts)
        trie = build_trie(
            [Row(path, owner) for path, owner in zip(paths, owners, strict=True)], self._sharing
        )
        limit = self.card.limits.max_tokens
        assert limit is not None
        check_lengths(request, trie.row_len.tolist(), owners, limit)
        load = trie.load
        return Prepared(
            request=request,
            cost=Cost(load.tokens, load.rows, load.states),
            input_tokens=int(trie.row_len.sum()),
            work=trie,
            context=asked,
        )

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """Raises EngineFaultError for logits that are missing, surplus or not finite.

        `extras`: `prefix_cache`, `scores` (log-probabilities up to a constant, by question and
        option) and `calibrated`."""
        wanted = (prepared.cost.rows, len(self.labels.token_ids))
        if readout.values.shape != wanted:
            raise EngineFaultError(f"{wanted} logits expected, got {readout.values.shape}")
        answers: dict[str, Answer] = {}
        scores: dict[str, list[float]] = {}
        at = 0
        for (name, question), asked in zip(
            prepared.request.questions.items(), prepared.context, strict=True
        ):
            scores[name] = self._scores(question.kind, asked, readout, at)
            answers[name] = answer_from(question, scores[name])
            at += len(asked.rows)
        extras: dict[str, Any] = {
            "prefix_cache": readout.stats["prefix_cache"],
            "scores": scores,
            "calibrated": self.card.calibrated,
        }
        return Decision(
            model=self.card.name,
            answers=answers,
            usage=Usage(prepared.input_tokens),
            extras=extras,
        )

    def _scores(self, kind: Kind, asked: AskedQuestion, readout: Readout, at: int) -> list[float]:
        rows = [label_scores(row, readout.values[at + i]) for i, row in enumerate(asked.rows)]
        temperature = self._options.temperatures.of(kind, asked.num_options)
        return option_scores(asked, rows, temperature)
