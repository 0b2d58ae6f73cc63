"""Checks of the operators that treat every row alone: found and wanted outputs side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from systone.kernels.conv import reference as conv_reference
from systone.kernels.conv import triton as conv
from systone.kernels.gather import reference as gather_reference
from systone.kernels.gather import triton as gather
from systone.kernels.norm import reference as norm_reference
from systone.kernels.norm import triton as norm
from systone.kernels.rope import reference as rope_reference
from systone.kernels.rope import triton as rope
from systone.kernels.swiglu import reference as swiglu_reference
from systone.kernels.swiglu import triton as swiglu
from systone.kernels.work import WorkTables
from tests.gpu.cases import beyond

EPS = 1e-6
Pair = tuple[Tensor, Tensor]


def draw(*shape: int, device: torch.device, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).bfloat16().to(device)


def conv_pair(tables: WorkTables, channels: int, device: torch.device) -> Pair:
    x = beyond(draw(tables.num_tokens, channels + 24, device=device))[:, :channels]
    weight = draw(channels, 4, device=device)
    apart = weight.t().contiguous().t()
    made = conv.causal_conv_silu(x, apart, tables)
    assert torch.equal(made, conv.causal_conv_silu(x, weight, tables))
    return (
        made,
        conv_reference.causal_conv_silu(x, weight, tables),
    )


def norm_pairs(rows: int, width: int, device: torch.device) -> list[Pair]:
    x, y, w = (draw(n, width, device=device, seed=i) for i, n in enumerate((rows, rows, 1)))
    x = beyond(x)
    found = (norm.rms_norm(x, w[0], EPS), *norm.add_rms_norm(x, y, w[0], EPS))
    wanted = (
        norm_reference.rms_norm(x, w[0], EPS),
        *norm_reference.add_rms_norm(x, y, w[0], EPS),
    )
    return list(zip(found, wanted, strict=True))


def gated_pair(rows: int, heads: int, device: torch.device) -> Pair:
    x, weight = draw(rows, heads, 128, device=device), draw(128, device=device)
    gate = draw(rows, heads * 128 + 40, device=device)[:, : heads * 128]
    return (
        norm.gated_rms_norm(x, gate, weight, EPS),
        norm_reference.gated_rms_norm(x, gate, weight, EPS),
    )


def rope_pairs(rows: int, heads: int, kv_heads: int, device: torch.device) -> list[Pair]:
    fused = beyond(draw(rows, 2 * (heads + kv_heads) * 256, device=device))
    q = fused[:, : 2 * heads * 256].view(rows, heads, 2, 256)[:, :, 0]
    k = fused[:, 2 * heads * 256 :].view(rows, 2, kv_heads, 256)[:, 0]
    positions = (torch.arange(rows, dtype=torch.int32, device=device) * 977) % 16384
    cos, sin = rope.rotary_table(
        positions, theta=1e7, rotary_dim=64, sections=(11, 11, 10), dtype=torch.bfloat16
    )
    weights = draw(256, device=device), draw(256, device=device, seed=1)
    found = rope.qk_norm_rope(q, k, *weights, cos, sin, EPS)
    wanted = rope_reference.qk_norm_rope(q, k, *weights, cos, sin, EPS)
    alone = rope.norm_rope(k, weights[1], cos, sin, EPS)
    return [*zip(found, wanted, strict=True), (alone, wanted[1])]


def swiglu_pair(rows: int, width: int, device: torch.device) -> Pair:
    x = beyond(draw(rows, 2 * width, device=device))
    return swiglu.swiglu(x), swiglu_reference.swiglu(x)


def gather_pair(rows: int, width: int, device: torch.device) -> Pair:
    x = draw(53, width + 8, device=device)[:, :width]
    index = ((torch.arange(rows) * 31) % 53).to(device=device, dtype=torch.int32)
    index[1::3] = -1
    return gather.gather_rows(x, index), gather_reference.gather_rows(x, index)


def bits_apart(found: Tensor, wanted: Tensor) -> float:
    """Share of elements that differ; 1 if one is NaN or further off than two roundings can be."""
    off = (found.float() - wanted.float()).abs()
    if not torch.isfinite(found).all() or (off > 2**-6 * wanted.float().abs() + 2**-10).any():
        return 1.0
    return (off > 0).float().mean().item()
