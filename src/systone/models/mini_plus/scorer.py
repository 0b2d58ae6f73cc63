"""Answers Nouls by how much more likely a state makes a statement: SmolLM2-135M on the CPU.

Owns the language model and the base terms, on one device thread; statements of one state run side
by side, each alone. Knows no questions and no wire. Log-probabilities are in nats.
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systone.errors import EngineDownError
from systone.models.mini_plus.blas import OneThreadBlas
from systone.models.mini_plus.gguf import read_gguf
from systone.models.mini_plus.llama import Cache, Llama, load_llama
from systone.models.mini_plus.prompt import REFERENCES, state_ids, statement_ids
from systone.models.mini_plus.tokens import TextTokens

__all__ = ["StatementScorer"]

# Log-odds per nat and token of lift, and their bound: the ranking is real, the level is not, and a
# statement can be lifted by its words alone. Keeps answers within 0.32..0.68.
SLOPE, MAX_LOG_ODDS = 0.5, 0.75
MAX_BASES, MAX_BASE_CHARS = 4096, 2000

# A text as read: its last hidden state [1, C] and the key/value cache.
Read = tuple[NDArray[np.float32], Cache]

log = logging.getLogger(__name__)


class StatementScorer:
    """A `models.mini.NoulScorer`. `threads`: statements computed at the same time."""

    def __init__(self, path: Path, tokens: TextTokens, *, threads: int) -> None:
        self._path = path
        self._tokens = tokens
        self._threads = threads
        self._blas = OneThreadBlas()
        self._pool: ThreadPoolExecutor | None = None
        self._llama: Llama | None = None
        self._references: list[Read] = []
        self._bases: OrderedDict[str, float] = OrderedDict()
        self._load_s = 0.0

    def start(self) -> None:
        """Dequantise the weights and read the reference texts. Raises ConfigError."""
        began = time.monotonic()
        self._blas.limit()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="systone-mini-plus")
        file = read_gguf(self._path)
        try:
            self._llama = load_llama(file, _Progress(began))
        finally:
            file.close()
        self._references = [self._read(self._llama, text) for text in REFERENCES]
        self._load_s = time.monotonic() - began

    def score(self, state: str, statements: Sequence[str]) -> Sequence[float]:
        """Log-odds of each statement, from its lift by the state.

        lift = (log P(s | state) - mean over the reference texts r of log P(s | r)) / tokens of s,
        in nats; log-odds = M * tanh(SLOPE * lift / M), M = MAX_LOG_ODDS. 0: the state says no more
        of the statement than the reference texts do."""
        llama, pool = self._llama, self._pool
        if llama is None or pool is None:
            raise EngineDownError("systone-mini-plus is not started")
        ids = {s: statement_ids(self._tokens, s) for s in statements}
        read = self._read(llama, state)
        given = {s: pool.submit(_log_prob, llama, read, ids[s]) for s in ids}
        bases = {s: self._bases[s] for s in ids if s in self._bases}
        fresh = {
            s: [pool.submit(_log_prob, llama, reference, ids[s]) for reference in self._references]
            for s in ids
            if s not in bases
        }
        scores = {}
        for s, future in given.items():
            base = bases[s] if s in bases else statistics.fmean(f.result() for f in fresh[s])
            scores[s] = _log_odds((future.result() - base) / len(ids[s]))
            self._keep(s, base)
        return [scores[s] for s in statements]

    def close(self) -> None:
        """Drop the weights, the threads and the BLAS limit."""
        self._llama = None
        self._references = []
        self._bases.clear()
        if self._pool is not None:
            self._pool.shutdown()
        self._blas.restore()

    def describe(self) -> Mapping[str, Any]:
        """Model, memory, load time and the number of cached base terms."""
        llama = self._llama
        return {
            "model": self._path.stem,
            "threads": self._threads,
            "weight_bytes": 0 if llama is None else llama.num_bytes,
            "load_s": round(self._load_s, 3),
            "cached_statements": len(self._bases),
        }

    def _read(self, llama: Llama, state: str) -> Read:
        hidden, cache = llama.forward(state_ids(self._tokens, state))
        return hidden[-1:], cache

    def _keep(self, statement: str, base: float) -> None:
        """Make a base term the most recently used one, dropping the least recently used."""
        if len(statement) > MAX_BASE_CHARS:
            return
        self._bases[statement] = base
        self._bases.move_to_end(statement)
        if len(self._bases) > MAX_BASES:
            self._bases.popitem(last=False)


def _log_prob(llama: Llama, read: Read, ids: NDArray[np.int64]) -> float:
    """log P(statement | what was read), summed over the statement's tokens `ids`."""
    last, cache = read
    hidden = last
    if len(ids) > 1:
        hidden = np.concatenate([last, llama.forward(ids[:-1], cache)[0]])
    return math.fsum(llama.log_probs(hidden, ids))


def _log_odds(lift: float) -> float:
    return MAX_LOG_ODDS * math.tanh(SLOPE * lift / MAX_LOG_ODDS)


class _Progress:
    """Logs the share loaded, at most once a second, once loading takes longer than two."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._next = began + 2.0

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 1.0
            log.info("loading SmolLM2-135M: %d%% after %.0f s", 100 * share, now - self._began)
