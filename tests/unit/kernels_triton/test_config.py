"""Tile tables: every generation has one, a faked capability picks it, others are refused."""

from __future__ import annotations

import pytest
import torch

from systone.errors import ConfigError
from systone.kernels import config


@pytest.mark.parametrize(
    ("capability", "name", "shared"),
    [
        ((8, 0), "sm80", 163), ((8, 6), "sm89", 99), ((8, 9), "sm89", 99), ((9, 0), "sm90", 227),
        ((10, 0), "sm100", 227), ((10, 3), "sm100", 227), ((12, 0), "sm120", 99),
    ],
)  # fmt: skip
def test_a_capability_picks_its_table(capability: tuple[int, int], name: str, shared: int) -> None:
    with config.pretend(capability, processors=7) as table:
        assert (table.name, table.shared_kib) == (name, shared)
        assert config.table_of(torch.device("cuda", 3)) == (table, 7)


@pytest.mark.parametrize("capability", [(7, 5), (11, 0), (13, 0)])
def test_an_unknown_capability_is_refused(capability: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match=rf"{capability[0]}\.{capability[1]}"):
        config.select(capability)


def test_only_hopper_runs_the_hopper_recurrence_and_the_interpreter_never() -> None:
    made = {c: config.select(c).hopper_gdn for c in ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))}
    assert [c for c, hopper in made.items() if hopper] == [(9, 0)]
    assert not config.table_of(torch.device("cpu"))[0].hopper_gdn
