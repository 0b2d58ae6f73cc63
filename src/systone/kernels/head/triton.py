"""FP32 read-out heads on a GPU: the bits of `reference`, whose order of addition they keep.

R rows, M candidates, h hidden width, d pointer width. Products and sums are rounded one by one:
fused multiply-adds are off for these kernels.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.head.reference import LANES

assert LANES == 2**10
_COLUMNS = 8  # of one program: the row is read once for all of them


@triton.jit
def _fixed_dots(x_ptr, y_ptr, width, columns, first_column, C: tl.constexpr, N: tl.constexpr):
    """[C] dot products of x [width] with rows first_column .. first_column + C - 1 of y."""
    STEPS: tl.constexpr = 10
    lane = tl.arange(0, N)
    column = first_column + tl.arange(0, C)
    y_ptrs = y_ptr + column.to(tl.int64)[:, None] * width + lane[None, :]
    total = tl.zeros((C, N), dtype=tl.float32)
    for first in range(0, width, N):
        inside = first + lane < width
        x = tl.load(x_ptr + first + lane, mask=inside, other=0.0).to(tl.float32)
        wanted = inside[None, :] & (column < columns)[:, None]
        total += x[None, :] * tl.load(y_ptrs + first, mask=wanted, other=0.0).to(tl.float32)
    for _ in tl.static_range(STEPS):  # the upper half onto the lower until one is left
        total = tl.sum(tl.reshape(total, (C, 2, total.shape[1] // 2)), axis=1)
    return tl.sum(total, axis=1)


@triton.jit
def rows_dot_kernel(
    x_ptr, y_ptr, bias_ptr, own_ptr, live_ptr, out_ptr, width, stride_x, columns,
    HAS_BIAS: tl.constexpr, HAS_OWN: tl.constexpr, HAS_LIVE: tl.constexpr,
    C: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """out[r, j] = x[r] . y[j] (+ bias[j]) of every column j and row r; with `own`, of the rows r
    with own[r] == r only; with `live`, of the first live[0] rows only."""
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * C
    if HAS_LIVE:  # noqa: SIM102 - a compile-time branch
        if row >= tl.load(live_ptr):
            return
    if HAS_OWN:  # noqa: SIM102 - a compile-time branch
        if tl.load(own_ptr + row) != row:
            return
    dots = _fixed_dots(x_ptr + row * stride_x, y_ptr, width, columns, first, C, N)
    column = first + tl.arange(0, C)
    if HAS_BIAS:
        dots += tl.load(bias_ptr + column, mask=column < columns, other=0.0)
    tl.store(out_ptr + row * columns + column, dots, mask=column < columns)


@triton.jit
def pair_dot_kernel(
    key_ptr, query_ptr, query_of_ptr, live_ptr, out_ptr, width, scale,
    HAS_LIVE: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """out[m] = scale * (key[m] . query[query_of[m]]); with `live`, of the first live[0] rows."""
    row = tl.program_id(0).to(tl.int64)
    if HAS_LIVE:  # noqa: SIM102 - a compile-time branch
        if row >= tl.load(live_ptr):
            return
    query = tl.load(query_of_ptr + row).to(tl.int64)
    dots = _fixed_dots(key_ptr + row * width, query_ptr + query * width, width, 1, 0, 1, N)
    tl.store(out_ptr + row + tl.arange(0, 1), dots * scale)


def scalar_head(
    x: Tensor, weight: Tensor, bias: Tensor, *, out: Tensor | None = None,
    live: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """See `reference.scalar_head`. `live`: int32 [1] on the device, rows from there on are pads
    and left unwritten."""
    if out is None:
        out = torch.empty(x.shape[0], 1, dtype=torch.float32, device=x.device)
    _project(x, weight, bias, out, live=live)
    return out


def label_head(
    x: Tensor, weight: Tensor, *, out: Tensor | None = None, live: Tensor | None = None
) -> Tensor:
    """See `reference.label_head`. `live` as in `scalar_head`."""
    if out is None:
        out = torch.empty(x.shape[0], len(weight), dtype=torch.float32, device=x.device)
    _project(x, weight, None, out, live=live)
    return out


def pointer_head(
    query_rows: Tensor,
    key_rows: Tensor,
    query_of: Tensor,
    q_weight: Tensor,
    q_bias: Tensor,
    k_weight: Tensor,
    k_bias: Tensor,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """See `reference.pointer_head`."""
    width, device = q_weight.shape[0], key_rows.device
    if out is None:
        out = torch.empty(key_rows.shape[0], 1, dtype=torch.float32, device=device)
    queries = torch.empty(query_rows.shape[0], width, device=device)
    keys = torch.empty(key_rows.shape[0], width, device=device)
    _project(query_rows, q_weight, q_bias, queries)
    _project(key_rows, k_weight, k_bias, keys)
    _pair(keys, queries, query_of, out)
    return out


def readout_pointer_head(
    x: Tensor,
    query_of: Tensor,
    q_weight: Tensor,
    q_bias: Tensor,
    k_weight: Tensor,
    k_bias: Tensor,
    *,
    out: Tensor,
    scratch: tuple[Tensor, Tensor],
    live: Tensor | None = None,
) -> Tensor:
    """`pointer_head` with every row of x [R, h] a candidate and a possible query: candidate r is
    scored against row query_of[r], whose own query is itself. No other row is projected as one.

    `scratch`: FP32 [R, d] for queries and for keys; `live` as in `scalar_head`. -> out FP32
    [R, 1]."""
    queries, keys = scratch
    _project(x, q_weight, q_bias, queries, own=query_of, live=live)
    _project(x, k_weight, k_bias, keys, live=live)
    _pair(keys, queries, query_of, out, live)
    return out


def _pair(
    keys: Tensor, queries: Tensor, query_of: Tensor, out: Tensor, live: Tensor | None = None
) -> None:
    rows, width = keys.shape
    if rows:
        pair_dot_kernel[(rows,)](
            keys, queries, query_of, query_of if live is None else live, out, width, width**-0.5,
            HAS_LIVE=live is not None, N=LANES, num_warps=4, enable_fp_fusion=False,
        )  # fmt: skip


def _project(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, own: Tensor | None = None,
    live: Tensor | None = None,
) -> None:  # fmt: skip
    assert x.stride(1) == 1
    assert weight.is_contiguous()
    assert out.is_contiguous()
    assert weight.dtype == out.dtype == torch.float32
    assert bias is None or bias.dtype == torch.float32
    rows, columns = out.shape
    if rows == 0:
        return
    together = min(_COLUMNS, triton.next_power_of_2(columns))
    rows_dot_kernel[(rows, triton.cdiv(columns, together))](
        x, weight, weight if bias is None else bias, weight if own is None else own,
        weight if live is None else live, out, x.shape[1], x.stride(0), columns,
        HAS_BIAS=bias is not None, HAS_OWN=own is not None, HAS_LIVE=live is not None,
        C=together, N=LANES, num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
