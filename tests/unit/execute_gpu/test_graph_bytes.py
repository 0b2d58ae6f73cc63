"""What a captured graph counts for, whatever else the device loses in the same moment."""

from __future__ import annotations

import pytest

from systone.execute.graph_cuda import bytes_of
from systone.execute.graph_passes import GraphSettings
from systone.execute.graph_store import GraphStore

MIB = 2**20


@pytest.mark.parametrize(
    ("lost", "reserved", "counted"),
    [
        (2 * MIB, 0, 2 * MIB),
        (102 * MIB, 100 * MIB, 102 * MIB),  # a library's workspace, and the graph
        (-8 * MIB, 0, 0),  # somebody gave memory back
        (16384 * MIB, 0, 64 * MIB),  # somebody placed a model
        (16384 * MIB, 100 * MIB, 164 * MIB),
        (0, -4 * MIB, 0),
    ],
)
def test_a_graph_counts_for_what_it_can_have_taken(lost: int, reserved: int, counted: int) -> None:
    assert bytes_of(lost, reserved) == counted


class Held:
    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes

    def replay(self) -> None: ...
    def release(self) -> None: ...


def test_a_model_placed_by_another_process_costs_no_graph() -> None:
    """Even if every capture of a start coincides with it."""
    settings = GraphSettings()
    store = GraphStore[int](
        lambda _: Held(bytes_of(10**10, 0)), settings.max_count, settings.max_bytes
    )
    store.fill(range(61))
    assert len(store) == 61
