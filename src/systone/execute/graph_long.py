"""Long passes in groups of layers, so that short ones run between two groups.

Between two groups a long pass is its hidden states and its tables: it has those to itself, and
shares every other buffer with the passes that run in between. Times in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from systone.execute.gpu_pass import GpuPass
from systone.execute.graph_stage import PassStage
from systone.execute.graph_store import Capture, Graph
from systone.kernels.work import WorkTables


@dataclass(frozen=True, slots=True, eq=False)
class Long:
    """Passes of more than `beyond` padded tokens: their own arena and stage, and groups of layers
    that take `group_s` each. `token_s`: seconds a token takes on this device."""

    split: GpuPass
    stage: PassStage
    beyond: int
    token_s: float
    group_s: float

    def groups(self, tokens: int) -> list[tuple[int, int]]:
        """Layers [first, end) of each group of a pass of `tokens`."""
        layers = self.split.config.num_layers
        each = max(1, int(self.group_s * layers / (self.token_s * tokens)))
        return [(first, min(first + each, layers)) for first in range(0, layers, each)]


class Grouped:
    """Graphs of a trunk's groups of layers, one after the other a trunk."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graphs = tuple(graphs)

    @classmethod
    def capture(cls, long: Long, staged: WorkTables, make: Capture) -> Self:
        """Raises what `make` does; the graphs of earlier groups are released by then."""
        made: list[Graph] = []
        try:
            for first, end in long.groups(staged.num_tokens):
                made.append(make(partial(long.split.layers, staged, first, end)))
        except BaseException:
            for graph in made:
                graph.release()
            raise
        return cls(made)

    @property
    def num_bytes(self) -> int:
        return sum(graph.num_bytes for graph in self.graphs)

    def replay(self) -> None:
        for graph in self.graphs:
            graph.replay()

    def release(self) -> None:
        for graph in self.graphs:
            graph.release()
