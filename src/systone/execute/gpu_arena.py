"""Every device buffer a pass writes, allocated once.

Sized for the largest pass; a pass takes contiguous views of its own row count. Knows shapes only.
T rows, R read-outs, W read-out width, h hidden; bf16 unless said.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from systone.kernels.config import table_of
from systone.kernels.gdn.triton import GdnScratch
from systone.nn.config import TextConfig


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity of a pass: padded tokens and read-outs, recurrent states kept for children, scores
    of a read-out."""

    tokens: int
    readouts: int
    states: int
    width: int = 1


class Arena:
    """Flat buffers by name; `take` gives a contiguous view of the first elements of one."""

    def __init__(self, config: TextConfig, room: Room, device: torch.device) -> None:
        self.room = room
        self._flat: dict[str, Tensor] = {}
        sizes = buffer_sizes(config, room)
        for name, size in sizes.items():
            self._flat[name] = torch.empty(size, dtype=torch.bfloat16, device=device)
        heads = config.linear_value_heads
        self.states = torch.empty(
            room.states, heads, config.linear_key_dim, config.linear_value_dim, device=device
        )
        self._scratch = GdnScratch.empty(room.tokens, config.linear_key_heads, heads, device)
        self.scores = torch.empty(room.readouts, room.width, device=device)

    def take(self, name: str, *shape: int) -> Tensor:
        """A view [shape] of buffer `name`, from its start."""
        return self._flat[name][: prod(shape)].view(shape)

    def elements(self, name: str) -> int:
        """bf16 elements of buffer `name`."""
        return self._flat[name].numel()

    def scratch(self, tokens: int) -> GdnScratch:
        return self._scratch.rows(tokens)

    @property
    def num_bytes(self) -> int:
        tensors = [*self._flat.values(), self.states, self.scores]
        return sum(t.numel() * t.element_size() for t in tensors) + self._scratch.num_bytes


def buffer_sizes(config: TextConfig, room: Room) -> dict[str, int]:
    """bf16 elements of every flat buffer. `wide`: fused projections, gate|up; `middle`: what the
    convolution or SwiGLU leaves, keys; `core`: queries or GDN outputs; `mixed`: what a token mixer
    hands its output projection; `delta`: what a half layer adds. `last_*`: read-out rows."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    delta = config.conv_width + config.value_width + 2 * config.linear_value_heads
    wide = max(2 * queries + 2 * keys, delta, 2 * config.intermediate_size)
    middle = max(config.conv_width, config.intermediate_size, keys)
    core = max(queries, config.value_width)
    row = {
        "residual": config.hidden_size, "normed": config.hidden_size, "delta": config.hidden_size,
        "wide": wide, "middle": middle, "core": core, "mixed": core, "angles": config.rotary_dim,
    }  # fmt: skip
    last = {f"last_{name}": width * room.readouts for name, width in row.items()}
    last["last_gate"] = core * room.readouts
    return {**{name: width * room.tokens for name, width in row.items()}, **last}


def arena_bytes(config: TextConfig, room: Room, device: torch.device) -> int:
    """What an `Arena` of this room takes, before it is allocated."""
    heads = config.linear_value_heads
    flat = 2 * sum(buffer_sizes(config, room).values())
    states = room.states * heads * config.linear_key_dim * config.linear_value_dim * 4
    units = room.tokens * 2 * config.linear_key_heads * config.linear_key_dim * 2
    scratch = room.tokens * heads * (2 * 64 * 2 + 4 * 4) + units
    blocks = 4 * table_of(device)[1] * 64 * 16 * 4
    return flat + states + scratch + blocks + room.readouts * room.width * 4
