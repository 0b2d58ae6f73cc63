"""Passes and inputs for kernel tests: a token's input is a function of its path, so that the same
row has the same numbers alone, packed and shared. Used on a GPU and under Triton's interpreter."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from torch import Tensor

from systone.kernels.attention.triton import tile_tokens
from systone.kernels.config import table_of
from systone.kernels.work import WorkTables
from systone.plan.tables import PassTables
from tests.unit.nn.naive_tables import naive_tables

Row = list[list[int]]
_BLOCK = 512


def ids(length: int, seed: int) -> list[int]:
    """Token ids that differ between seeds."""
    return [seed * 100_000 + i for i in range(length)]


def rows_of(lengths: list[list[int]], seed: int = 0) -> list[Row]:
    """Rows of one request by segment lengths; equal leading lengths are equal segments."""
    return [
        [ids(n, hash((seed, tuple(path[: depth + 1]))) % 9973 + 1) for depth, n in enumerate(path)]
        for path in lengths
    ]


def leaves(state: int, question: int, counts: list[int], seed: int = 0) -> list[Row]:
    """One request: a state, a question, an option of each length in `counts`, all different."""
    base = [ids(state, seed * 1000 + 1), ids(question, seed * 1000 + 2)]
    return [[*base, ids(n, seed * 1000 + 3 + i)] for i, n in enumerate(counts)]


@dataclass
class Inputs:
    """Random numbers by token path: `rows(tables, name, width)` gives each token its own row."""

    seed: int = 0
    _known: dict[tuple, int] = field(default_factory=dict)
    _made: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)

    def rows(self, tables: PassTables, name: str, width: int, device: torch.device) -> Tensor:
        keys = [self._known.setdefault(key, len(self._known)) for key in _token_keys(tables)]
        blocks = [self._block(name, width, n) for n in range(max(keys) // _BLOCK + 1)]
        return torch.cat(blocks)[torch.tensor(keys)].to(device)

    def _block(self, name: str, width: int, number: int) -> Tensor:
        """Rows number * _BLOCK on of the endless table `name`: known rows never change."""
        if (name, width, number) not in self._made:
            seed = self.seed * 7919 + sum(map(ord, name)) + width + 104729 * number
            generator = torch.Generator().manual_seed(seed)
            made = torch.randn(_BLOCK, width, generator=generator)
            self._made[name, width, number] = made.bfloat16()
        return self._made[name, width, number]


def _token_keys(tables: PassTables) -> list[tuple]:
    """What a token's input depends on: the ids of its path and its place in the last segment."""
    spans = [
        tuple(tables.token_ids[s : s + n].tolist())
        for s, n in zip(tables.seg_start, tables.seg_len, strict=True)
    ]
    keys = []
    for seg, span in enumerate(spans):
        path = tables.anc_seg[tables.anc_ptr[seg] : tables.anc_ptr[seg + 1]]
        before = hash(tuple(spans[a] for a in path))
        keys += [(before, hash(span), i) for i in range(len(span))]
    return keys


def work(
    requests: list[list[Row]],
    device: torch.device,
    *,
    heads: int = 16,
    kv_heads: int = 4,
    shared: bool = True,
) -> tuple[PassTables, WorkTables]:
    """Tables of one pass over whole requests, for the planner's side and for the device."""
    tables = naive_tables(requests, shared=shared)
    config, _ = table_of(device)
    return tables, WorkTables.build(tables, tile_tokens(config, heads, kv_heads), device)


def relative(found: Tensor, wanted: Tensor) -> float:
    """|found - wanted| / |wanted|; NaN never passes a bound."""
    return ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()


def beyond(x: Tensor, extra: int = 70) -> Tensor:
    """`x` as a view of a buffer whose rows after it are NaN: pad rows of a bucket."""
    buffer = torch.full((x.shape[0] + extra, *x.shape[1:]), float("nan"), dtype=x.dtype)
    buffer = buffer.to(x.device)
    buffer[: x.shape[0]] = x
    return buffer[: x.shape[0]]


def nan(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full(shape, float("nan"), dtype=dtype, device=device)


ODD = [1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 257]


def odd_passes() -> dict[str, list[list[Row]]]:
    """Passes that cover lengths, depths 1..4, short parents and 255 leaves."""
    rng = random.Random(5)
    deep = [[65, 1, 2, 33, 17], [65, 1, 2, 33, 5], [65, 1, 2, 64], [65, 1, 130], [65, 63, 1, 1, 1]]
    return {
        "lengths": [rows_of([[n]], seed=n) for n in ODD],
        "depths": [rows_of(deep), rows_of([[3, 2, 1, 1], [3, 2, 67]], seed=9)],
        "leaves": [leaves(97, 11, [rng.randint(1, 47) for _ in range(255)])],
        "mixed": [
            leaves(61, 5, [23, 37, 64, 65, 1]),
            rows_of([[300]], seed=4),
            leaves(1, 1, [1, 16, 100], seed=7),
        ],
    }
