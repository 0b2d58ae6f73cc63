import pytest

from systone.bench.floor import Curve, Floor, floor_of
from systone.bench.items import Item

# 1, 3 and 20 ms: at 64, 128 and 4096 tokens; 2, 9 and 80 GFLOP; 4, 6 and 10 GB
CURVE = Curve(
    [
        {"tokens": 64, "ms": 1.0, "tflops": 2.0, "gbytes_s": 4000.0},
        {"tokens": 128, "ms": 3.0, "tflops": 3.0, "gbytes_s": 2000.0},
        {"tokens": 4096, "ms": 20.0, "tflops": 4.0, "gbytes_s": 500.0},
    ]
)


@pytest.mark.parametrize(
    ("tokens", "floor"),
    [
        (1, Floor(1.0, 2.0, 4.0)),  # padded to 64
        (64, Floor(1.0, 2.0, 4.0)),
        (65, Floor(3.0, 9.0, 6.0)),  # padded to 128
        (4096, Floor(20.0, 80.0, 10.0)),
        (4096 + 60, Floor(21.0, 82.0, 14.0)),  # two passes
        (2 * 4096, Floor(40.0, 160.0, 20.0)),
    ],
)
def test_a_request_takes_what_its_padded_passes_take(tokens: int, floor: Floor) -> None:
    assert CURVE.at(tokens) == floor


def test_between_measured_counts_it_is_linear() -> None:
    between = CURVE.at(1152)
    share = (1152 - 128) / (4096 - 128)
    assert between.ms == pytest.approx(3.0 + share * 17.0)
    assert between.gflop == pytest.approx(9.0 + share * 71.0)
    assert between.gbytes == pytest.approx(6.0 + share * 4.0)


def test_what_candidates_share_counts_once_unless_sharing_is_off() -> None:
    item = Item("r", "choice", 1, 2, longest=64, tokens=128, unique=64)
    assert floor_of(item, "default", CURVE) == Floor(1.0, 2.0, 4.0)
    assert floor_of(item, "off", CURVE) == Floor(3.0, 9.0, 6.0)
    assert floor_of(Item("r", "choice", 1, 2), "off", CURVE) is None


def test_a_curve_needs_a_row() -> None:
    with pytest.raises(ValueError, match="a measured row"):
        Curve([])
