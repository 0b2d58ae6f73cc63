"""How long passes take on this device: measured when it starts, so that limits can be set by time.

Tokens of a pass, seconds of the device. Everything runs on the current stream.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from systone.execute.gpu_clock import Span
from systone.execute.graph_passes import GraphedPasses
from systone.execute.selfcheck_rows import pass_of
from systone.plan import PassTables, Row, Segment

__all__ = ["measured_curve", "one_row", "seconds_of"]

CURVE = (64, 128, 256, 512, 1024, 1536, 2048, 2560, 3072, 4096)


def one_row(tokens: int, vocabulary: int) -> PassTables:
    """One row of `tokens` random tokens."""
    ids = np.random.default_rng(tokens).integers(0, vocabulary, tokens).astype(np.int32)
    return pass_of([[Row((Segment.of(ids),), 0)]], shared=False)


def seconds_of(passes: GraphedPasses, tables: PassTables, runs: int = 2) -> float:
    """The fastest of `runs` launches of a pass, after one that isn't counted."""
    passes.launch(tables)
    found = []
    for _ in range(runs):
        span = Span()
        passes.on_copy(span.begin)
        passes.launch(tables)
        span.end()
        span.wait()
        found.append(span.seconds())
    return min(found)


def measured_curve(passes: GraphedPasses, vocabulary: int, most: int) -> Mapping[int, float]:
    """Seconds of a pass by its tokens, up to `most`, as it would be served."""
    sizes = [size for size in CURVE if size <= most]
    return {size: seconds_of(passes, one_row(size, vocabulary)) for size in sizes}
