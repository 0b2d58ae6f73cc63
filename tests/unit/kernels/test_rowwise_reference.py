"""Norms, rotary, SwiGLU, gather and heads against their formulas, and row by row."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from systone.kernels.gather.reference import gather_rows
from systone.kernels.gemm.reference import linear
from systone.kernels.head.reference import fixed_dot, pointer_head, scalar_head
from systone.kernels.norm.reference import add_rms_norm, gated_rms_norm, rms_norm
from systone.kernels.rope.reference import norm_rope, qk_norm_rope, rotary_table
from systone.kernels.swiglu.reference import swiglu

EPS = 1e-6
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def close(got: Tensor, expected: Tensor, dtype: torch.dtype) -> bool:
    step = 3e-6 if dtype == torch.float32 else 2**-6
    return torch.allclose(got.double(), expected, rtol=step, atol=step)


def normed(x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()


@DTYPES
def test_rms_norm_weight_is_zero_centred(made, dtype) -> None:
    x, w = (torch.randn(s, generator=made).to(dtype) for s in ((5, 70), (70,)))
    assert close(rms_norm(x, w, EPS), normed(x.double()) * (1 + w.double()), dtype)


@DTYPES
def test_add_rms_norm_norms_the_rounded_sum(made, dtype) -> None:
    x, r, w = (torch.randn(s, generator=made).to(dtype) for s in ((5, 70), (5, 70), (70,)))
    out, total = torch.empty_like(x), r.clone()
    got = add_rms_norm(x, total, w, EPS, out=out, residual_out=total)
    assert got[0] is out
    assert got[1] is total
    assert torch.equal(total, r + x)
    assert torch.equal(out, rms_norm(r + x, w, EPS))


@DTYPES
def test_gated_norm_weight_is_plain(made, dtype) -> None:
    x, w = (torch.randn(s, generator=made).to(dtype) for s in ((4, 3, 16), (16,)))
    gate = torch.randn(4, 60, generator=made).to(dtype)[:, 7:55]
    z = gate.double().view(4, 3, 16)
    expected = normed(x.double()) * w.double() * z * z.sigmoid()
    assert close(gated_rms_norm(x, gate, w, EPS), expected.flatten(1), dtype)


@DTYPES
def test_rotary_turns_pairs_and_keeps_the_rest(made, dtype) -> None:
    x, w = (torch.randn(s, generator=made).to(dtype) for s in ((6, 3, 32), (32,)))
    positions = torch.tensor([0, 1, 2, 700, 16383, 5], dtype=torch.int32)
    cos, sin = rotary_table(positions, theta=1e4, rotary_dim=8, sections=(2, 1, 1), dtype=dtype)
    assert cos.shape == (6, 4)
    plain = normed(x.double()) * (1 + w.double())
    pair = torch.complex(plain[..., :4], plain[..., 4:8])
    turned = pair * torch.complex(cos.double(), sin.double())[:, None]
    expected = torch.cat([turned.real, turned.imag, plain[..., 8:]], dim=-1)
    assert close(norm_rope(x, w, cos, sin, EPS), expected, dtype)
    angle = 700 * 1e4 ** (-2 * 3 / 8)
    assert math.isclose(cos[3, 3].item(), math.cos(angle), abs_tol=2**-8)


def test_queries_and_keys_at_once(made) -> None:
    q, k = (torch.randn(5, h, 16, generator=made) for h in (4, 2))
    weights = [torch.randn(16, generator=made) for _ in range(2)]
    positions = torch.arange(5, dtype=torch.int32)
    table = rotary_table(positions, theta=1e4, rotary_dim=8, sections=(2, 1, 1), dtype=q.dtype)
    both = qk_norm_rope(q, k, *weights, *table, EPS)
    assert torch.equal(both[0], norm_rope(q, weights[0], *table, EPS))
    assert torch.equal(both[1], norm_rope(k, weights[1], *table, EPS))


def test_image_positions_interleave_the_axes() -> None:
    """Sections 3, 3, 2 over eight pairs: t h w t h w t h."""
    axes = torch.tensor([[3], [50], [700]], dtype=torch.int32)
    shape = {"theta": 1e4, "rotary_dim": 16, "sections": (3, 3, 2), "dtype": torch.float32}
    cos, sin = rotary_table(axes, **shape)
    flat = [rotary_table(axes[i], **shape) for i in range(3)]
    order = [0, 1, 2, 0, 1, 2, 0, 1]
    for got, tables in ((cos, [f[0] for f in flat]), (sin, [f[1] for f in flat])):
        assert got[0].tolist() == [tables[axis][0, i].item() for i, axis in enumerate(order)]


@DTYPES
def test_swiglu(made, dtype) -> None:
    x = torch.randn(5, 24, generator=made).to(dtype)
    gate, up = x.double().chunk(2, dim=-1)
    assert close(swiglu(x), gate * gate.sigmoid() * up, dtype)


def test_gather_and_linear(made) -> None:
    x, w = torch.randn(6, 8, generator=made), torch.randn(3, 8, generator=made)
    x[0, 0] = torch.nan  # of the row that a missing one is not
    index = torch.tensor([5, 1, 1, -1, 2], dtype=torch.int32)
    out = torch.empty(5, 8)
    assert gather_rows(x, index, out=out) is out
    assert torch.equal(out, torch.stack([x[5], x[1], x[1], torch.zeros(8), x[2]]))
    x[0, 0] = 0.0
    assert close(linear(x, w), x.double() @ w.double().T, torch.float32)


@pytest.mark.parametrize("width", [1, 1023, 1024, 1025, 4096, 5120])
def test_fixed_dot_is_a_dot_product(made, width: int) -> None:
    x, y = (torch.randn(3, width, generator=made) for _ in range(2))
    expected = (x.double() * y.double()).sum(-1)
    assert torch.allclose(fixed_dot(x, y).double(), expected, atol=1e-5 * width**0.5)


def test_a_rows_score_has_the_same_bits_in_any_batch(made) -> None:
    x = torch.randn(300, 1500, generator=made).bfloat16()
    weight, bias = torch.randn(1, 1500, generator=made), torch.tensor([0.5])
    together = scalar_head(x, weight, bias)
    alone = torch.cat([scalar_head(x[i : i + 1], weight, bias) for i in range(300)])
    assert torch.equal(together, alone)
    assert close(together[:, 0], (x.double() @ weight[0].double()) + 0.5, torch.bfloat16)


def test_pointer_head(made) -> None:
    q, k = torch.randn(2, 40, generator=made), torch.randn(5, 40, generator=made)
    wq, wk = (torch.randn(256, 40, generator=made) for _ in range(2))
    bq, bk = (torch.randn(256, generator=made) for _ in range(2))
    of = torch.tensor([0, 0, 1, 1, 1], dtype=torch.int32)
    got = pointer_head(q, k, of, wq, bq, wk, bk)
    queries, keys = (
        x.double() @ w.double().T + b.double() for x, w, b in ((q, wq, bq), (k, wk, bk))
    )
    expected = (queries[of.long()] * keys).sum(-1) / 16
    assert torch.allclose(got[:, 0].double(), expected, rtol=1e-5, atol=1e-3)


def test_a_buffer_of_another_shape_or_dtype_is_refused(made) -> None:
    x, w = torch.randn(6, 8, generator=made), torch.randn(8, generator=made)
    for wrong in (torch.empty(1, 8), torch.empty(6, 8, dtype=torch.bfloat16)):
        with pytest.raises(AssertionError, match="out is"):
            rms_norm(x, w, EPS, out=wrong)
