"""Label logits of a pass on a transformers model: segment by segment through the model's own cache.

A row is read in its own segments, one forward each, whether they are shared or not: so a shared
row and one alone are the same arithmetic. A model whose cache can't be continued reads whole rows.
R read-outs, W columns, S segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from systone.errors import ConfigError
from systone.execute.base import Proofs
from systone.execute.causal_lm import CausalLm, Read
from systone.plan.tables import PassTables

__all__ = ["CausalLmRunner"]


class CausalLmRunner:
    """A PassRunner. `columns`: the W token ids whose logits are read."""

    def __init__(self, model: CausalLm, columns: Sequence[int]) -> None:
        self._model = model
        self._columns = torch.tensor(columns, dtype=torch.long)

    def start(self) -> None:
        """Raises ConfigError: the model can't be loaded, or has no logits for a column."""
        self._model.start()
        width = self._model.whole(np.zeros(1, np.int64)).shape[0]
        if int(self._columns.max()) >= width:
            raise ConfigError(
                f"label token {int(self._columns.max())} is beyond the model's {width} logits"
            )

    def proofs(self) -> Proofs:
        return Proofs(sharing=self._model.continues)

    def run(self, tables: PassTables) -> NDArray[np.float32]:
        """Logits [R, W] in read-out order."""
        logits = self._by_segment(tables) if self._model.continues else self._by_row(tables)
        picked = [logits[int(segment)] for segment in tables.readout_seg]
        return np.stack(picked) if picked else np.empty((0, len(self._columns)), np.float32)

    def close(self) -> None:
        self._model.close()

    def describe(self) -> Mapping[str, Any]:
        return {**self._model.describe(), "columns": len(self._columns)}

    def _by_segment(self, tables: PassTables) -> dict[int, NDArray[np.float32]]:
        """Parents come before children; what a segment has read is dropped with its last child."""
        wanted = {int(segment) for segment in tables.readout_seg}
        parents = [int(parent) for parent in tables.seg_parent]
        waiting = [parents.count(segment) for segment in range(len(parents))]
        reads: dict[int, Read] = {}
        logits = {}
        for segment, parent in enumerate(parents):
            scores, read = self._model.read(_tokens(tables, segment), reads.get(parent))
            if segment in wanted:
                logits[segment] = self._pick(scores)
            if waiting[segment]:
                reads[segment] = read
            if parent >= 0:
                waiting[parent] -= 1
                if not waiting[parent]:
                    del reads[parent]
        return logits

    def _by_row(self, tables: PassTables) -> dict[int, NDArray[np.float32]]:
        logits = {}
        for segment in {int(segment) for segment in tables.readout_seg}:
            path, at = [], segment
            while at >= 0:
                path.append(_tokens(tables, at))
                at = int(tables.seg_parent[at])
            logits[segment] = self._pick(self._model.whole(np.concatenate(path[::-1])))
        return logits

    def _pick(self, logits: torch.Tensor) -> NDArray[np.float32]:
        return np.asarray(logits[self._columns.to(logits.device)].cpu().numpy())


def _tokens(tables: PassTables, segment: int) -> NDArray[np.int32]:
    start = int(tables.seg_start[segment])
    return tables.token_ids[start : start + int(tables.seg_len[segment])]
