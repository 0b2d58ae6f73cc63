"""systone-mini, the embedded default: MiniLM sentence similarity on the CPU, demo-grade.

`load()` is the entry point; nothing is read from disk before it.
"""

from __future__ import annotations

from systone.models.base import Loaded
from systone.models.mini.adapter import MiniAdapter
from systone.models.mini.executor import MiniExecutor, NoulScorer
from systone.models.mini.files import find_files
from systone.models.mini.pieces import WordPieces
from systone.models.mini.warmup import WARMUP

__all__ = ["MiniAdapter", "MiniExecutor", "NoulScorer", "load"]


def load(*, scorer: NoulScorer | None = None, threads: int | None = None) -> Loaded:
    """The adapter and executor over hash-checked files. Raises ConfigError.

    `scorer`: a second model that answers undescribed Nouls. `threads`: of one forward; by default
    the processors this process may use, at most four.
    """
    files = find_files()
    pieces = WordPieces(files.tokenizer)
    return Loaded(
        adapter=MiniAdapter(pieces, scored=scorer is not None),
        executor=MiniExecutor(files, pieces, scorer=scorer, threads=threads),
        warmup=WARMUP,
    )
