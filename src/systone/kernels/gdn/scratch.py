"""What the chunk work of a pass leaves for its scans: the buffers, their sizes and their views.

Knows no kernel. T tokens, forked states, Hk/Hv key/value heads of width 128.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from systone.kernels.config import table_of

CHUNK_PROGRAMS_PER_SM = 4


@dataclass(frozen=True, slots=True, eq=False)
class GdnScratch:
    """What the chunk kernel leaves for the scans: unit queries and keys fp16 [T, 2, Hk, Dk],
    matrices fp16 [T, Hv, 2, 64], growth FP32 [Hv, T] (T rounded up to 4); `blocks` FP32
    [programs, room * 64, 16] is its own, room the value heads of a key head rounded up to a power
    of two; `flags` [states, 2 Hv], which it clears, say to one scan's programs which states are
    there. Needs no clearing."""

    units: Tensor
    matrices: Tensor
    growth: Tensor
    blocks: Tensor
    flags: Tensor

    @classmethod
    def empty(
        cls, tokens: int, states: int, key_heads: int, value_heads: int, device: torch.device
    ) -> GdnScratch:
        half = {"dtype": torch.float16, "device": device}
        wide = {"dtype": torch.float32, "device": device}
        return cls(
            torch.empty(tokens, 2, key_heads, 128, **half),
            torch.empty(tokens, value_heads, 2, 64, **half),
            torch.empty(value_heads, _round_up(tokens), **wide),
            torch.empty(chunk_programs(device), head_room(key_heads, value_heads) * 64, 16, **wide),
            torch.empty(max(states, 1), 2 * value_heads, dtype=torch.int32, device=device),
        )

    def rows(self, tokens: int) -> GdnScratch:
        """The first `tokens` rows, the program scratch whole."""
        heads, width = self.growth.shape[0], _round_up(tokens)
        growth = self.growth.view(-1)[: heads * width].view(heads, width)
        units, matrices = self.units[:tokens], self.matrices[:tokens]
        return GdnScratch(units, matrices, growth, self.blocks, self.flags)

    @staticmethod
    def bytes_of(
        tokens: int, states: int, key_heads: int, value_heads: int, device: torch.device
    ) -> int:
        """What `empty` takes."""
        row = 2 * key_heads * 128 * 2 + value_heads * 2 * 64 * 2
        blocks = chunk_programs(device) * head_room(key_heads, value_heads) * 64 * 16
        flags = max(states, 1) * 2 * value_heads
        return tokens * row + 4 * (value_heads * _round_up(tokens) + blocks + flags)

    @property
    def num_bytes(self) -> int:
        tensors = (self.units, self.matrices, self.growth, self.blocks, self.flags)
        return sum(t.numel() * t.element_size() for t in tensors)


def chunk_programs(device: torch.device) -> int:
    return CHUNK_PROGRAMS_PER_SM * table_of(device)[1]


def head_room(key_heads: int, value_heads: int) -> int:
    """Value heads of a key head, rounded up to a power of two."""
    return triton.next_power_of_2(value_heads // key_heads)


def _round_up(tokens: int) -> int:
    """Tokens whose FP32 numbers fill 16 bytes, as a descriptor's stride must."""
    return -(-tokens // 4) * 4
