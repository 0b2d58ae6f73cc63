"""Row operators on a GPU over odd shapes: within one bf16 step of the reference on few elements."""

from __future__ import annotations

import pytest
import torch

from systone.kernels.conv import triton as conv
from systone.kernels.head import reference as head_reference
from systone.kernels.head import triton as head
from systone.kernels.norm import triton as norm
from systone.kernels.swiglu import triton as swiglu
from tests.gpu import row_checks as check
from tests.gpu.cases import ODD, odd_passes, work

FEW = 2e-3  # share of elements one bf16 step apart: exp and rsqrt of GPU and torch differ
PASSES = odd_passes()


@pytest.mark.parametrize("name", PASSES)
def test_conv(name: str, device: torch.device) -> None:
    _, tables = work(PASSES[name], device)
    for channels in (8192, 520):
        assert check.bits_apart(*check.conv_pair(tables, channels, device)) < FEW


@pytest.mark.parametrize("name", PASSES)
def test_runs_of_tokens_decide_no_bit_of_the_convolution(
    name: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tables = work(PASSES[name], device)
    tokens = tables.num_tokens
    x = check.draw(tokens, 8192, device=device)
    weight = check.draw(4, 8192, device=device).t()
    made = []
    for short_rows in (0, tokens):
        monkeypatch.setattr(conv, "_SHORT_ROWS", short_rows)
        units = torch.empty(tokens, 4096, dtype=torch.float16, device=device)
        out = conv.causal_conv_silu(x, weight, tables, units=units)
        made.append((units, out[:, 4096:]))
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))


@pytest.mark.parametrize("rows", ODD)
def test_row_operators(rows: int, device: torch.device) -> None:
    found = {
        **{f"norm {w}": check.norm_pairs(rows, w, device) for w in (4096, 5120, 2560)},
        **{f"gated {h}": [check.gated_pair(rows, h, device)] for h in (32, 48)},
        **{f"rope {h}": check.rope_pairs(rows, h, 4, device) for h in (16, 24)},
        **{f"swiglu {w}": [check.swiglu_pair(rows, w, device)] for w in (12288, 17408, 1000)},
    }
    apart = {name: [check.bits_apart(*pair) for pair in pairs] for name, pairs in found.items()}
    assert all(share < FEW for shares in apart.values() for share in shares), apart
    assert torch.equal(*check.gather_pair(rows, 4096, device))


def test_heads_keep_the_bits_of_the_reference(device: torch.device) -> None:
    x = check.draw(37, 4096, device=device)
    weight, bias = torch.randn(1, 4096, device=device), torch.randn(1, device=device)
    assert torch.equal(
        head.scalar_head(x, weight, bias), head_reference.scalar_head(x, weight, bias)
    )
    maps = [torch.randn(256, 4096, device=device), torch.randn(256, device=device)] * 2
    of = torch.arange(37, device=device, dtype=torch.int32) % 5
    args = (x[:5], x, of, *maps)
    assert torch.equal(head.pointer_head(*args), head_reference.pointer_head(*args))


def test_offsets_beyond_two_to_the_31(device: torch.device) -> None:
    rows = 2**31 // 24576 + 3
    x = torch.zeros(rows, 24576, dtype=torch.bfloat16, device=device)
    x[-1] = check.draw(24576, device=device)
    assert torch.equal(swiglu.swiglu(x)[-1:], swiglu.swiglu(x[-1:]))
    weight = check.draw(24576, device=device)
    assert torch.equal(norm.rms_norm(x, weight, 1e-6)[-1:], norm.rms_norm(x[-1:], weight, 1e-6))
