"""Rows of token ids and their errors, for tests on any device. Imports no transformers: on a GPU
machine that decides which of its kernels are in use."""

from __future__ import annotations

import random

import torch
from torch import Tensor

VOCAB = 512
POSITION_PULL = 1.2  # added to q and k norm weights of rotated dimensions: position leads attention


def random_ids(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(VOCAB) for _ in range(count)]


def flat(path: list[list[int]]) -> list[int]:
    """The token ids of a row given as segments."""
    return [token for segment in path for token in segment]


def relative_l2(got: Tensor, expected: Tensor) -> Tensor:
    """Per row: |got - expected| / |expected|."""
    return (got - expected).norm(dim=-1) / expected.norm(dim=-1)


def rms(errors: torch.Tensor) -> float:
    return errors.square().mean().sqrt().item()


def forked_requests() -> list[list[list[list[int]]]]:
    """Two requests of a state, two questions each and four short options each."""
    rng = random.Random(21)
    requests = []
    for _ in range(2):
        state, *questions = (random_ids(rng, n) for n in (40, 24, 24))
        options = [3, 4, 5, 3]
        requests.append([[state, q, random_ids(rng, n)] for q in questions for n in options])
    return requests
