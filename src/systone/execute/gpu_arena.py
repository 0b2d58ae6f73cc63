"""Every device buffer a pass writes, allocated once.

Sized for the largest pass; a pass takes contiguous views of its own row count. Knows shapes only.
T rows, R read-outs, W read-out width, h hidden; bf16 unless said.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from systone.execute.buckets import PRODUCT_ROWS
from systone.kernels.gdn.scratch import GdnScratch
from systone.nn.config import TextConfig

# What a pass is between two layers. Every other buffer is written and read within one layer, so
# passes whose layers run in turn share it.
SURVIVING = ("residual", "normed", "angles")
MLP_ROWS = PRODUCT_ROWS  # an MLP runs over so many rows at a time, so that gate|up takes no more


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity of a pass: padded tokens and read-outs, recurrent states kept for children, scores
    of a read-out."""

    tokens: int
    readouts: int
    states: int
    width: int = 1


class Arena:
    """Flat buffers by name; `take` gives a contiguous view of the first elements of one.
    `num_bytes`: on the device, without what is another arena's."""

    def __init__(self, config: TextConfig, room: Room, device: torch.device) -> None:
        self.room = room
        self._flat: dict[str, Tensor] = {}
        for name, size in buffer_sizes(config, room).items():
            self._flat[name] = torch.zeros(size, dtype=torch.bfloat16, device=device)
        heads = config.linear_value_heads
        self.states = torch.empty(
            room.states, heads, config.linear_key_dim, config.linear_value_dim, device=device
        )
        self._scratch = GdnScratch.empty(
            room.tokens, room.states, config.linear_key_heads, heads, device
        )
        self.scores = torch.empty(room.readouts, room.width, device=device)
        self.num_bytes = self._own_bytes()

    def beside(self, tokens: int) -> Arena:
        """An arena for passes of up to `tokens` that run between the layers of a pass in this one:
        what survives a layer is its own, the rest is shared."""
        made = copy(self)
        made.room = replace(self.room, tokens=tokens)
        made._flat = dict(self._flat)
        for name in SURVIVING:
            width = self._flat[name].numel() // self.room.tokens
            made._flat[name] = torch.zeros_like(self._flat[name][: width * tokens])
        made.num_bytes = sum(2 * made._flat[name].numel() for name in SURVIVING)
        return made

    def take(self, name: str, *shape: int) -> Tensor:
        """A view [shape] of buffer `name`, from its start."""
        return self._flat[name][: prod(shape)].view(shape)

    def elements(self, name: str) -> int:
        """bf16 elements of buffer `name`."""
        return self._flat[name].numel()

    def scratch(self, tokens: int) -> GdnScratch:
        return self._scratch.rows(tokens)

    def _own_bytes(self) -> int:
        tensors = [*self._flat.values(), self.states, self.scores]
        return sum(t.numel() * t.element_size() for t in tensors) + self._scratch.num_bytes


def buffer_sizes(config: TextConfig, room: Room) -> dict[str, int]:
    """bf16 elements of every flat buffer. `wide`: fused projections, gate|up; `middle`: what the
    convolution or SwiGLU leaves, keys; `core`: queries or GDN outputs; `mixed`: what a token mixer
    hands its output projection; `delta`: what a half layer adds. `last_*`: read-out rows."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    delta = config.conv_width + config.value_width + 2 * config.linear_value_heads
    wide = max(2 * queries + 2 * keys, delta)
    middle = max(config.conv_width, keys)
    inner, core = config.intermediate_size, max(queries, config.value_width)
    row = {
        "residual": config.hidden_size, "normed": config.hidden_size, "delta": config.hidden_size,
        "wide": wide, "middle": middle, "core": core, "mixed": core, "angles": config.rotary_dim,
    }  # fmt: skip
    sizes = {name: width * room.tokens for name, width in row.items()}
    sizes |= {f"last_{name}": width * room.readouts for name, width in row.items()}
    sizes["last_gate"] = core * room.readouts
    for part, rows in (("", min(room.tokens, MLP_ROWS)), ("last_", room.readouts)):
        sizes[f"{part}wide"] = max(sizes[f"{part}wide"], 2 * inner * rows)
        sizes[f"{part}middle"] = max(sizes[f"{part}middle"], inner * rows)
    return sizes


def beside_bytes(config: TextConfig, tokens: int) -> int:
    """What `Arena.beside` takes."""
    return 2 * tokens * (2 * config.hidden_size + config.rotary_dim)


def state_bytes(config: TextConfig, states: int) -> int:
    """FP32 recurrent states that forks keep for their children."""
    one = config.linear_value_heads * config.linear_key_dim * config.linear_value_dim
    return 4 * one * states


def arena_bytes(config: TextConfig, room: Room, device: torch.device) -> int:
    """What an `Arena` of this room takes, before it is allocated."""
    heads = config.linear_value_heads
    flat = 2 * sum(buffer_sizes(config, room).values())
    states = state_bytes(config, room.states)
    scratch = GdnScratch.bytes_of(room.tokens, room.states, config.linear_key_heads, heads, device)
    return flat + states + scratch + room.readouts * room.width * 4
