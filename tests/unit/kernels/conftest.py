"""Small pass tables and random operands for operator tests."""

from __future__ import annotations

import random

import pytest
import torch

from systone.plan.tables import PassTables
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.tiny import random_ids

# Segment lengths along the rows of one request: odd sizes, tile and chunk borders, short parents.
SHAPES = (
    ((1, 2, 3), (1, 2, 70), (1, 1, 1, 5)),
    ((63, 1), (63, 64), (63, 65, 17)),
    ((129,), (31, 33), (15, 16, 17, 2)),
)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def made() -> torch.Generator:
    return torch.Generator().manual_seed(4)


@pytest.fixture(scope="session")
def requests() -> list[list[list[list[int]]]]:
    """Rows of one request with equal leading lengths share those segments."""
    rng = random.Random(9)
    found = []
    for shapes in SHAPES:
        known: dict[tuple[int, ...], list[int]] = {}
        rows = []
        for shape in shapes:
            prefixes = [shape[: i + 1] for i in range(len(shape))]
            for prefix in prefixes:
                known.setdefault(prefix, random_ids(rng, prefix[-1]))
            rows.append([known[prefix] for prefix in prefixes])
        found.append(rows)
    return found


@pytest.fixture(scope="session")
def tables(requests: list) -> PassTables:
    return naive_tables(requests)
