"""Log-probabilities of statements after a state and after reference texts, on a transformers model.

One state prefill a request, then one short forward a statement; the terms after the reference texts
are kept per statement. Knows no questions. Nats. N statements.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from systone.errors import ConfigError, EngineDownError, EngineFaultError
from systone.execute.causal_lm import CausalLm, Read
from systone.models.base import Executor, Prepared, Readout
from systone.models.label.statements import StatementWork
from systone.plan.tables import I32

__all__ = ["StatementExecutor"]

log = logging.getLogger(__name__)

MAX_BASES, MAX_BASE_TOKENS = 4096, 512


class StatementExecutor(Executor[Prepared]):
    """Runs the `StatementWork` that the statement adapter leaves in `Prepared.work`."""

    def __init__(self, model: CausalLm) -> None:
        self._model = model
        self._bases: OrderedDict[bytes, float] = OrderedDict()
        self._references: list[tuple[torch.Tensor, Read]] = []

    def start(self) -> None:
        """Raises ConfigError also for a model whose cache can't be continued."""
        self._model.start()
        if not self._model.continues:
            raise ConfigError("statements need a model whose cache can be continued")

    def execute(self, batch: Sequence[Prepared]) -> Sequence[Readout | Exception]:
        return [self._outcome(prepared.work) for prepared in batch]

    def close(self) -> None:
        self._bases.clear()
        self._references.clear()
        self._model.close()

    def describe(self) -> Mapping[str, Any]:
        return {**self._model.describe(), "cached_statements": len(self._bases)}

    def _outcome(self, work: StatementWork) -> Readout | Exception:
        """One request; its failure fails no other."""
        try:
            return self._readout(work)
        except EngineDownError:
            raise
        except Exception as error:
            log.exception("statements of a request failed")
            fault = EngineFaultError(f"inference failed: {type(error).__name__}")
            fault.__cause__ = error
            return fault

    def _readout(self, work: StatementWork) -> Readout:
        if not self._references:
            self._references = [self._model.read(ids) for ids in work.references]
        state = self._model.read(work.state)
        values = np.empty((len(work.statements), 2), np.float32)
        for row, ids in enumerate(work.statements):
            values[row] = self._log_prob(state, ids), self._base(ids)
        return Readout(values, {"passes": 1})

    def _base(self, ids: I32) -> float:
        """Mean log-probability after the reference texts: a property of the statement alone."""
        key = ids.tobytes()
        base = self._bases.get(key)
        if base is None:
            base = statistics.fmean(self._log_prob(read, ids) for read in self._references)
        if ids.size <= MAX_BASE_TOKENS:
            self._bases[key] = base
            self._bases.move_to_end(key)
            if len(self._bases) > MAX_BASES:
                self._bases.popitem(last=False)
        return base

    def _log_prob(self, read: tuple[torch.Tensor, Read], ids: I32) -> float:
        """log P(statement | what was read), summed over its tokens."""
        logits, past = read
        rows = logits[None]
        if ids.size > 1:
            rows = torch.cat([rows, self._model.read_all(ids[:-1], past)[0]])
        chosen = torch.as_tensor(ids.astype(np.int64), device=rows.device)
        logs = rows.double().log_softmax(dim=-1).gather(1, chosen[:, None])
        return math.fsum(logs[:, 0].tolist())
