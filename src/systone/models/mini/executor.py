"""Runs MiniLM for whole requests: similarities of every label with every view of the state.

Owns the encoder, the label cache and the contrasts, on one device thread. Knows no probabilities.
Read-out rows are labels in `prepare`'s order; columns are those of `table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from systone.errors import EngineDownError
from systone.models.base import Executor, Prepared, Readout
from systone.models.mini.cache import Label, LabelCache
from systone.models.mini.constants import CACHE_BYTES, CACHE_TEXTS
from systone.models.mini.contrasts import Contrasts
from systone.models.mini.encoder import Encoder, dot, thread_count
from systone.models.mini.files import MiniFiles
from systone.models.mini.pieces import WordPieces
from systone.models.mini.table import BACKGROUND, CONTRAST, FACTS, NEARNESS, OPINION, READING
from systone.models.mini.work import LabelText, MiniWork

__all__ = ["MiniExecutor", "NoulScorer"]


class NoulScorer(Protocol):
    """A second model's opinion on undescribed Nouls; all on the executor's device thread."""

    def start(self) -> None:
        """Load and check; raises ConfigError."""

    def score(self, state: str, statements: Sequence[str]) -> Sequence[float]:
        """One finite log-odds per statement: above 0 the state supports it, 0 can't tell."""

    def close(self) -> None:
        """Release what `start` took; also after a failure."""

    def describe(self) -> Mapping[str, Any]:
        """For `/health`; cheap and safe from any thread."""


class MiniExecutor(Executor[Prepared]):
    """`files` are already checked; `scorer`, if given, fills the OPINION column."""

    max_batch_requests = 1  # texts are encoded one by one: a batch would only make callers wait

    def __init__(
        self,
        files: MiniFiles,
        pieces: WordPieces,
        *,
        scorer: NoulScorer | None = None,
        threads: int | None = None,
        cache_texts: int = CACHE_TEXTS,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._files = files
        self._pieces = pieces
        self._scorer = scorer
        self._threads = threads or thread_count()
        self._cache = LabelCache(cache_texts, cache_bytes)
        self._encoder: Encoder | None = None
        self._contrasts: Contrasts | None = None

    def start(self) -> None:
        """Load the model and the fixed vectors. Raises ConfigError."""
        encoder = Encoder(
            self._files.model, cls=self._pieces.cls, sep=self._pieces.sep, threads=self._threads
        )
        self._contrasts = Contrasts(self._files.contrasts, self._files.vectors)
        if self._scorer is not None:
            self._scorer.start()
        self._encoder = encoder

    def execute(self, batch: Sequence[Prepared]) -> Sequence[Readout | Exception]:
        """One read-out per request; each text is encoded on its own, so the batch is invisible."""
        return [self._run(prepared.work) for prepared in batch]

    def close(self) -> None:
        """Drop the model and the scorer."""
        self._encoder = None
        self._contrasts = None
        if self._scorer is not None:
            self._scorer.close()

    def describe(self) -> Mapping[str, Any]:
        """Threads, forwards so far, and the label cache's size and counters."""
        encoder = self._encoder
        return {
            "device": "cpu",
            "threads": self._threads,
            "forwards": 0 if encoder is None else encoder.forwards,
            "label_cache": self._cache.describe(),
            "noul_scorer": None if self._scorer is None else dict(self._scorer.describe()),
        }

    def _run(self, work: MiniWork) -> Readout:
        encoder, contrasts = self._encoder, self._contrasts
        if encoder is None or contrasts is None:
            raise EngineDownError("systone-mini is not started")
        first_view = FACTS + len(contrasts)
        values = np.zeros((len(work.labels), first_view + len(work.views)), dtype=np.float32)
        if not work.views or not work.labels:
            return Readout(values)
        views = [encoder.vector([ids]) for ids in work.views]
        meaning = views[len(work.windows) :] or views
        for row, text in zip(values, work.labels, strict=True):
            label = self._label(text, encoder, contrasts)
            row[BACKGROUND] = label.background
            row[FACTS:first_view] = label.positions
            row[first_view:] = [dot(view, label.vector) for view in views]
            if text.is_key:
                nearest, row[NEARNESS] = contrasts.nearest(label.vector)
                row[CONTRAST] = nearest
                row[READING] = contrasts.reading(nearest, meaning)
        self._ask(work, values)
        return Readout(values)

    def _label(self, text: LabelText, encoder: Encoder, contrasts: Contrasts) -> Label:
        found = self._cache.get(text.text)
        if found is not None:
            return found
        vector = encoder.vector(text.windows)
        label = Label(vector, contrasts.background(vector), contrasts.positions(vector))
        self._cache.put(text.text, label)
        return label

    def _ask(self, work: MiniWork, values: NDArray[np.float32]) -> None:
        rows = [i for i, text in enumerate(work.labels) if text.is_statement]
        if self._scorer is None or not rows:
            return
        scores = self._scorer.score(work.state, [work.labels[i].text for i in rows])
        for row, score in zip(rows, scores, strict=True):
            values[row, OPINION] = score
