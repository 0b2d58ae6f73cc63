"""The planner's vectorised tables equal the ones built token by token from their definitions."""

from __future__ import annotations

import random
from dataclasses import fields

import numpy as np
import pytest

from systone.plan import Part, Row, Segment, Sharing, build_tables, build_trie
from systone.plan.tables import PassTables
from tests.unit.nn.naive_tables import Path, naive_tables


def planned(requests: list[list[Path]], *, shared: bool) -> PassTables:
    parts = []
    for index, paths in enumerate(requests):
        rows = [
            Row(tuple(Segment.of(ids) for ids in path if ids), question)
            for question, path in enumerate(paths)
        ]
        trie = build_trie(rows, Sharing("default" if shared else "off"))
        parts.append(Part(index, np.arange(len(paths), dtype=np.int32), trie))
    return build_tables(parts)


def random_requests(seed: int) -> list[list[Path]]:
    """A small alphabet and few lengths, so that rows share often and end inside each other."""
    rng = random.Random(seed)
    lengths = (1, 2, 3, 4, 15, 16, 17, 63, 64, 65, 130)

    def segment() -> list[int]:
        return [rng.randrange(2)] * rng.choice(lengths)

    return [
        [[segment() for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 6))]
        for _ in range(rng.randint(1, 4))
    ]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_tables_equal_their_definitions(seed: int, shared: bool) -> None:
    requests = random_requests(seed)
    expected, got = naive_tables(requests, shared=shared), planned(requests, shared=shared)
    for field in fields(PassTables):
        made, wanted = getattr(got, field.name), getattr(expected, field.name)
        assert made.dtype == np.int32, field.name
        assert made.shape == wanted.shape or made.size == wanted.size == 0, field.name
        assert (made == wanted).all(), field.name
