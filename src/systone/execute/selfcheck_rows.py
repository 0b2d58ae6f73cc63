"""The passes a self-check runs: rows over a model's own vocabulary at awkward lengths and forks.

Deterministic; knows no device and no arithmetic. Units are tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from systone.plan import CHUNK, Part, PassTables, Row, Segment, Sharing, build_tables, build_trie

__all__ = ["check_rows", "pass_of", "sample_pass"]

_SEED = 7
_STATES = (97, 3, CHUNK)  # a state ends inside a chunk, is shorter than a convolution, fills one
_OPTIONS = (1, 2, 16, 40, CHUNK, CHUNK + 1)
_PLAIN = (1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 2)
_SEVERAL = ((4,), (2, 3, 9), (0, 15, 16, CHUNK))  # rows of several read-outs, the last one an end


def check_rows(vocabulary: int) -> list[list[Row]]:
    """Requests: a state, a question and options of every awkward length; rows of several read-outs
    under one state; then single segments."""
    draw = _Draw(vocabulary)
    requests = []
    for state in _STATES:
        head, asked = draw.segment(state), draw.segment(11)
        requests.append([Row((head, asked, draw.segment(n)), 0) for n in _OPTIONS])
    head = draw.segment(5)
    requests.append([Row((head, draw.segment(at[-1] + 1)), i, at) for i, at in enumerate(_SEVERAL)])
    requests.append([Row((draw.segment(n),), i) for i, n in enumerate(_PLAIN)])
    return requests


def pass_of(requests: Sequence[Sequence[Row]], *, shared: bool) -> PassTables:
    """One pass over whole requests, in order."""
    sharing = Sharing("shared" if shared else "off")
    tries = [build_trie(list(rows), sharing) for rows in requests]
    return build_tables(
        [Part(i, np.arange(t.num_rows, dtype=np.int32), t) for i, t in enumerate(tries)]
    )


def sample_pass(vocabulary: int, depth: int) -> PassTables:
    """Two leaves under `depth` inner segments: at most 64 tokens, the smallest pass of its kind."""
    draw = _Draw(vocabulary)
    stem = tuple(draw.segment(3) for _ in range(depth))
    return pass_of([[Row((*stem, draw.segment(n)), 0) for n in (5, 9)]], shared=True)


class _Draw:
    def __init__(self, vocabulary: int) -> None:
        self._rng = np.random.default_rng(_SEED)
        self._vocabulary = vocabulary

    def segment(self, length: int) -> Segment:
        return Segment.of(self._rng.integers(0, self._vocabulary, length).astype(np.int32))
