"""The exactness list sees a runner whose rows depend on their neighbours, and counts a check as not
run where the self-check fell back."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from scripts.gpu_suite import exact
from systone.execute.selfcheck_alone import alone
from systone.plan import PassTables, Row, Segment


@dataclass
class PathRunner:
    """Scores that are a function of a row's path; `feels`: and of the pass's size."""

    feels: bool = False
    refused: int = 0
    whole_tokens: int = 40
    last: np.ndarray = field(init=False)
    split: Any = None

    def run(self, tables: PassTables) -> np.ndarray:
        made = []
        for single in alone(tables):
            ids = single.token_ids.astype(np.int64)
            made.append((ids * (np.arange(ids.size) + 1)).sum() % 30_000)
        self.last = np.array(made)[:, None] + (self.feels and tables.num_tokens > 60)
        return self.last.astype(np.float32)

    def last_hidden(self, rows: int) -> torch.Tensor:
        return torch.from_numpy(self.last.astype(np.int16)).view(torch.bfloat16)

    def begin(self, tables: PassTables) -> Any:
        steps = iter((True, True, False))
        return SimpleNamespace(enqueue=lambda: next(steps), take=lambda: self.run(tables))

    def describe(self) -> dict[str, Any]:
        check = dict.fromkeys(exact.MODES, "proven") | {"products": {"4x8": "cublaslt"}}
        return {
            "selfcheck": check | {"refused": self.refused},
            "launches": {"passes": {"eager": 1}},
        }

    @property
    def _passes(self) -> Any:
        return SimpleNamespace(trunks=SimpleNamespace(_held=()), split=SimpleNamespace(arena=None),
                               long=None)  # fmt: skip


def requests() -> list[list[Row]]:
    draw = lambda seed, n: Segment.of([seed * 100 + i for i in range(n)])  # noqa: E731
    state = draw(1, 9)
    return [
        [Row((state, draw(2 + i, 3 + i)), 0) for i in range(5)],
        [Row((draw(20, 70),), 0)],
        [Row((draw(30, 2),), 0), Row((draw(31, 1), draw(32, 1)), 0)],
    ]


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "poison", lambda arena: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(exact, "MIXED", 50)


def test_rows_of_their_own_path_are_equal_in_every_way() -> None:
    rows = list(exact.exact_rows(PathRunner(), PathRunner(), requests()))
    assert len(rows) >= 17
    assert [row["name"] for row in rows if row["equal"] is not True] == []
    assert {row["rows"] for row in rows} == {8}


def test_rows_that_feel_a_packed_pass_are_not() -> None:
    rows = {r["name"]: r for r in exact.exact_rows(PathRunner(True), PathRunner(), requests())}
    assert rows["packed, graphs"]["equal"] is False
    assert rows["packed, eager"]["equal"] is True


def test_a_check_is_not_run_where_an_operator_fell_back() -> None:
    rows = list(exact.exact_rows(PathRunner(refused=1), PathRunner(), requests()))
    assert next(row for row in rows if row["name"] == "permuted")["equal"] is None
