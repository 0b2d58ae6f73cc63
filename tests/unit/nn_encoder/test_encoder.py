"""The body's parts against their definitions, and configurations that can't be served."""

import math
from collections.abc import Iterator

import pytest
import torch

from systone.errors import ConfigError
from systone.nn.encoder import attend, blocks, rope_table, rotate
from systone.nn.encoder_config import EncoderConfig

CPU = torch.device("cpu")
FIELDS = {
    "model_type": "modernbert",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def draws(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def defined(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths, reach) -> torch.Tensor:
    """Attention written from its definition, in FP64, over the whole matrix with one mask."""
    row = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    place = torch.arange(len(q))
    seen = row[:, None] == row[None, :]
    if reach is not None:
        seen &= (place[:, None] - place[None, :]).abs() <= reach
    scores = torch.einsum("qhd,khd->hqk", q.double(), k.double()) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, v.double())


@pytest.mark.parametrize("reach", [None, 0, 3, 64])
@pytest.mark.parametrize("lengths", [[1], [2, 1, 7], [70, 3, 257], [300, 65, 66]])
def test_rows_attend_within_themselves_and_their_reach(lengths: list[int], reach) -> None:
    q, k, v = (draws(sum(lengths), 2, 8 + i)[..., :8] for i in range(3))
    torch.testing.assert_close(
        attend(q, k, v, blocks(lengths, reach, CPU)).double(),
        defined(q, k, v, lengths, reach),
        rtol=0,
        atol=1e-5,
    )


def test_a_row_is_untouched_by_what_its_neighbours_hold() -> None:
    lengths = [40, 30, 20]
    q, k, v = (draws(90, 2, 8 + i)[..., :8] for i in range(3))
    seen = blocks(lengths, 8, CPU)
    before = attend(q, k, v, seen)
    for tensor in (q, k, v):
        tensor[:40] = torch.nan
        tensor[70:] = torch.inf
    assert torch.equal(attend(q, k, v, seen)[40:70], before[40:70])


def test_rotation_turns_pairs_by_position_over_its_rate() -> None:
    x = draws(5, 2, 1, 8)
    turned = rotate(x, rope_table(100.0, 5, 8, CPU))
    for t in range(5):
        for i in range(4):
            angle = t * 100.0 ** (-2 * i / 8)
            a, b = x[t, 1, 0, i].item(), x[t, 1, 0, i + 4].item()
            expected = a * math.cos(angle) - b * math.sin(angle)
            assert turned[t, 1, 0, i].item() == pytest.approx(expected, abs=1e-5)


def test_both_spellings_of_a_body_read_alike() -> None:
    old = FIELDS | {"global_attn_every_n_layers": 2, "local_rope_theta": 160_000.0}
    new = FIELDS | {
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 160_000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 160_000.0},
        },
    }
    assert EncoderConfig.from_json(old, "old") == EncoderConfig.from_json(new, "new")
    plain = EncoderConfig.from_json(FIELDS, "plain")
    assert plain.is_global == (True, False, False, True)
    assert (plain.global_theta, plain.local_theta, plain.reach) == (160_000.0, 10_000.0, 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert'"),
        ({"norm_bias": True}, "norm_bias is True"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"hidden_activation": "silu"}, "hidden_activation is 'silu'"),
        ({"hidden_size": 66}, "don't divide"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention", "causal"] * 2}, "layer_types"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "not served"),
        ({"local_rope_theta": None}, "local_rope_theta is None"),
        ({"norm_eps": float("nan")}, "norm_eps"),
    ],
)
def test_a_body_this_package_does_not_compute_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EncoderConfig.from_json(FIELDS | change, "config.json")
