"""systone-mini-plus's semantics: systone-mini's, with a language model's window as one more limit.

Owns that check and the card; texts, read-outs and usage are systone-mini's own.
"""

from __future__ import annotations

from dataclasses import replace

from systone.errors import RequestError
from systone.models.base import Adapter, Limits, ModelCard, Prepared, Readout
from systone.models.mini import MiniAdapter
from systone.models.mini.card import CARD as MINI_CARD
from systone.models.mini.work import MiniWork
from systone.models.mini_plus.prompt import state_ids, statement_ids
from systone.models.mini_plus.source import PACKAGE, SHA256, VERSION
from systone.models.mini_plus.tokens import TextTokens
from systone.protocol.types import Decision, Request

__all__ = ["CARD", "MiniPlusAdapter"]

CARD: ModelCard = replace(
    MINI_CARD,
    name="systone-mini-plus",
    description=(
        "Demo-grade, uncalibrated: Choices, Scores and Nouls with both sides described exactly as "
        "systone-mini; other Nouls by how much more likely the state makes the question's "
        "statement to SmolLM2-135M-Instruct (4-bit weights, float32 arithmetic, CPU). Ranks states "
        "by one Noul far better than systone-mini; probabilities stay near 0.5 on purpose: rank by "
        "them, don't threshold at 0.5. English only. For real work serve Kev-4B or Open-Jev-9B on "
        "a GPU, or a Laya-class encoder on a CPU."
    ),
    revision=f"{MINI_CARD.revision}+{PACKAGE}-{VERSION}.sha256.{SHA256[:12]}",
    aliases=(),
)


class MiniPlusAdapter(Adapter):
    """`base` must be a scored MiniAdapter; `window`: tokens SmolLM2 reads, statement included."""

    def __init__(self, base: MiniAdapter, tokens: TextTokens, *, window: int) -> None:
        self._base = base
        self._tokens = tokens
        self._window = window
        base_limit = base.card.limits.max_tokens or window
        limits: Limits = replace(base.card.limits, max_tokens=min(window, base_limit))
        self.card = replace(base.card, limits=limits)

    def prepare(self, request: Request) -> Prepared:
        """As systone-mini; also raises RequestError (code `max_tokens_exceeded`) when the state and
        a Noul's statement don't fit the window together. Nothing is truncated."""
        prepared = self._base.prepare(request)
        work: MiniWork = prepared.work
        statements = [label.text for label in work.labels if label.is_statement]
        if statements and work.views:
            self._check_window(work.state, statements)
        return prepared

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """As systone-mini, under this model's name."""
        return self._base.finish(prepared, readout)

    def _check_window(self, state: str, statements: list[str]) -> None:
        longest = max(len(statement_ids(self._tokens, s)) for s in statements)
        count = len(state_ids(self._tokens, state)) + longest
        if count > self._window:
            raise RequestError.at(
                ("state",),
                f"the state and the longest Noul have {count} tokens for SmolLM2, the limit of "
                f"{self.card.name} is {self._window}; nothing is truncated",
                type="max_tokens_exceeded",
                code="max_tokens_exceeded",
                exact="max_tokens_exceeded",
                tokens=count,
                limit=self._window,
            )
