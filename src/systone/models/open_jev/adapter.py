"""The Open-Jev family as an adapter: request -> rows as a trie, scores -> decision.

One candidate is one row; nothing is generated. Pure CPU, thread-safe. N rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from systone.errors import EngineFaultError, RequestError
from systone.models.base import Adapter, Cost, Prepared, Readout
from systone.models.open_jev.answers import answer, num_rows
from systone.models.open_jev.card import OpenJevCheckpoint, OpenJevSettings, card_of
from systone.models.open_jev.checks import RequestText, read_request
from systone.models.open_jev.rows import RowMaker, Tokenizer
from systone.plan import Row, Trie, build_trie
from systone.protocol.types import Answer, Decision, Request, Usage

METHOD = "native_merged_lora_decision_head"


class OpenJevAdapter(Adapter):
    """Prompts, limits, usage and formulas of one Open-Jev checkpoint."""

    def __init__(
        self,
        checkpoint: OpenJevCheckpoint,
        tokenizer: Tokenizer,
        settings: OpenJevSettings | None = None,
    ) -> None:
        self.settings = settings or OpenJevSettings()
        self.checkpoint = checkpoint
        self.max_length = self.settings.max_length or checkpoint.max_length
        self.card = card_of(checkpoint, self.max_length)
        self._rows = RowMaker(tokenizer)
        self._served = itertools.count(1)

    def prepare(self, request: Request) -> Prepared:
        """Raises RequestError (422) for the first fault in request order: shapes of the state and
        every question first, then the length of every candidate."""
        strict = request.dialect == "open-jev"
        if strict:
            self._check_model(request.model)
        text = read_request(request, strict=strict)
        rows = self._rows.rows(text)
        trie = build_trie(rows, self.settings.sharing)
        lengths = trie.row_len.tolist()
        if max(lengths) > self.max_length:
            self._refuse_longer(request, trie, lengths)
        self._verify(text, rows)
        load = trie.load
        return Prepared(
            request=request,
            cost=Cost(load.tokens, load.rows, load.states),
            input_tokens=sum(lengths),
            work=trie,
            notes=text.notes,
        )

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """Raises EngineFaultError for scores that are missing, surplus or not finite.

        `extras`: `prefix_cache`, `scores` (raw, by question) and `notes` if there are any."""
        request = prepared.request
        scores = _scores(readout, prepared.cost.rows)
        answers: dict[str, Answer] = {}
        raw: dict[str, list[float]] = {}
        at = 0
        for name, question in request.questions.items():
            count = num_rows(question)
            raw[name] = scores[at : at + count]
            answers[name] = answer(question, raw[name], self.checkpoint.temperature)
            at += count
        extras: dict[str, Any] = {"prefix_cache": readout.stats["prefix_cache"], "scores": raw}
        if prepared.notes:
            extras["notes"] = list(prepared.notes)
        return Decision(
            model=self.card.name,
            answers=answers,
            usage=Usage(prepared.input_tokens),
            metadata=self._metadata(readout, len(scores)),
            extras=extras,
        )

    def _metadata(self, readout: Readout, sequences: int) -> Mapping[str, Any]:
        """The native worker's object: the contract, section 5."""
        return {
            "method": METHOD,
            "temperature": self.checkpoint.temperature,
            "candidate_sequences": sequences,
            "inference_seconds": readout.stats["inference_seconds"],
            "base_revision": self.checkpoint.base_revision,
            "max_length": self.max_length,
            "prefix_cache": readout.stats["prefix_cache"],
        }

    def _check_model(self, name: str | None) -> None:
        names = (self.card.name, *self.card.aliases, "jev-latest")
        if name is not None and name not in names:
            raise RequestError.at(
                ("model",),
                f"unknown model {name!r}; this server answers to {', '.join(names)}",
                code="unknown_model",
            )

    def _refuse_longer(self, request: Request, trie: Trie, lengths: list[int]) -> NoReturn:
        """Names the first row that is too long."""
        row = next(i for i, length in enumerate(lengths) if length > self.max_length)
        name = list(request.questions)[int(trie.row_question[row])]
        raise RequestError.at(
            ("questions", name),
            f"question {name}: {lengths[row]} tokens exceeds "
            f"max_length={self.max_length}; no silent truncation",
            type="max_tokens_exceeded",
            code="max_tokens_exceeded",
            exact="max_tokens_exceeded",
        )

    def _verify(self, text: RequestText, rows: list[Row]) -> None:
        every = self.settings.verify_every
        if every and next(self._served) % every == 0:
            prompt = self._rows.mismatch(text, rows)
            if prompt is not None:
                raise EngineFaultError(
                    f"joined pieces and the whole prompt tokenise differently: {prompt!r}",
                    code="tokenisation_mismatch",
                )


def _scores(readout: Readout, rows: int) -> list[float]:
    values = readout.values
    if values.shape != (rows, 1):
        raise EngineFaultError(f"{rows} rows gave scores of shape {values.shape}")
    scores: list[float] = values[:, 0].tolist()
    if not all(map(math.isfinite, scores)):
        raise EngineFaultError("a score is not finite", code="non_finite_output")
    return scores
