"""A plain Qwen3.5-family checkpoint without a decision head: its text stack and output rows.

Owns reading `lm_head` rows for chosen tokens. Knows no labels and no prompts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.weights.checkpoint import Checkpoint, open_checkpoint
from systone.weights.progress import Report, silent
from systone.weights.shapes import text_tensors

__all__ = ["PlainWeights", "load_plain", "output_rows"]

OUTPUT_NAME = "lm_head.weight"


@dataclass(frozen=True, slots=True, eq=False)
class PlainWeights:
    """`tensors` by canonical name; `rows`: float32 [W, hidden] of the output matrix."""

    config: TextConfig
    tensors: dict[str, torch.Tensor]
    rows: torch.Tensor


def load_plain(
    directory: Path | str,
    token_ids: Sequence[int],
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    progress: Report | None = None,
) -> PlainWeights:
    """The text stack in `dtype` (bfloat16 or float32, which keeps every stored value) and the
    output rows of `token_ids`; every tensor's memory is its own. Raises ConfigError naming file and
    fault."""
    checkpoint = open_checkpoint(directory)
    report = progress or silent
    table = text_tensors(checkpoint.config)
    total = dtype.itemsize * sum(math.prod(expected.shape) for expected in table.values())
    rows = output_rows(checkpoint, token_ids).to(device)
    tensors: dict[str, torch.Tensor] = {}
    done = 0
    for name in table:
        # a view must be copied: the file may change under it
        tensors[name] = checkpoint.tensor(name).to(device=device, dtype=dtype, copy=True)
        done += tensors[name].nbytes
        report("loading", done, total)
    return PlainWeights(checkpoint.config, tensors, rows)


def output_rows(checkpoint: Checkpoint, token_ids: Sequence[int]) -> torch.Tensor:
    """float32 [W, hidden]: the output matrix's rows of these tokens; the embedding's where the
    configuration ties the two. Raises ConfigError: no output matrix, its shape, or a token beyond
    it."""
    config = checkpoint.config
    if config.tie_word_embeddings:
        matrix = checkpoint.tensor("embed_tokens.weight")
    else:
        home = next((file for file in checkpoint.files if OUTPUT_NAME in file.entries), None)
        if home is None:
            raise ConfigError(f"{checkpoint.directory}: tensor {OUTPUT_NAME!r} is missing")
        matrix = home.tensor(OUTPUT_NAME)
    wanted = (config.vocab_size, config.hidden_size)
    if tuple(matrix.shape) != wanted:
        raise ConfigError(
            f"{checkpoint.directory}: the output matrix has shape {list(matrix.shape)}, "
            f"not {list(wanted)}"
        )
    beyond = [token for token in token_ids if token >= config.vocab_size]
    if beyond:
        raise ConfigError(
            f"{checkpoint.directory}: token {beyond[0]} is beyond the vocabulary of "
            f"{config.vocab_size}"
        )
    return matrix[torch.tensor(list(token_ids), dtype=torch.long)].float()
