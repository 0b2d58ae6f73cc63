"""Trie attention on a GPU; signatures of `reference`. T tokens, R read-outs, D = 256.

Scores and sums are FP32; softmax weights enter their product with v rounded to bf16.
"""

from __future__ import annotations

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from systone.kernels.attention.kernel import readout_attention_kernel, trie_attention_kernel
from systone.kernels.config import KernelConfig, table_of
from systone.kernels.work import READOUTS, TILES, WorkTables

LOG2_E = 1.4426950408889634
READOUT_ROWS = 16  # the least rows a tensor core product has
SHORT_ROWS, SHORT_WARPS = 64, 4  # of a tile in short passes: more tiles, each sooner done


def tile_tokens(config: KernelConfig, num_heads: int, num_kv_heads: int) -> int:
    """Tokens of a query tile: what `WorkTables.build` must cut by."""
    return config.attention_rows // (num_heads // num_kv_heads)


def short_tile_tokens(config: KernelConfig, num_heads: int, num_kv_heads: int) -> int:
    """Tokens of a query tile where a pass has too few of them for every multiprocessor. Rows are
    independent: tiles of either size give the same bits."""
    return min(SHORT_ROWS, config.attention_rows) // (num_heads // num_kv_heads)


def trie_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate: Tensor,
    tables: WorkTables,
    *,
    scale: float,
    out: Tensor | None = None,
) -> Tensor:
    """See `reference.trie_attention`."""
    out, group = _checked(q, k, v, gate, out)
    config, processors = table_of(q.device)
    rows, warps = config.attention_rows, config.attention_warps
    assert tables.tile_tokens * group <= rows
    if tables.tile_tokens * group <= SHORT_ROWS < rows:
        rows, warps = SHORT_ROWS, SHORT_WARPS
    trie_attention_kernel[(processors,)](
        *_tiles(k, v, config), q, k, v, gate, out,
        tables.counts, tables.tile_seg, tables.tile_first, tables.seg_start, tables.seg_len,
        tables.anc_ptr, tables.anc_seg,
        q.stride(0), k.stride(0), v.stride(0), gate.stride(0), gate.stride(1), scale * LOG2_E,
        COUNT=TILES, HK=k.shape[1], GROUP=group, TOKENS=tables.tile_tokens,
        ROWS=rows, KEYS=config.attention_keys, D=q.shape[2],
        STAGES=config.attention_stages, DESCRIPTORS=config.descriptors, num_warps=warps,
    )  # fmt: skip
    return out


def readout_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate: Tensor,
    tables: WorkTables,
    *,
    scale: float,
    out: Tensor | None = None,
) -> Tensor:
    """See `reference.readout_attention`."""
    out, group = _checked(q, k, v, gate, out)
    config, processors = table_of(q.device)
    assert group <= READOUT_ROWS
    readout_attention_kernel[(2 * processors,)](
        *_tiles(k, v, config), q, k, v, gate, out,
        tables.counts, tables.readout_token, tables.readout_seg, tables.seg_start, tables.seg_len,
        tables.anc_ptr, tables.anc_seg,
        q.stride(0), k.stride(0), v.stride(0), gate.stride(0), gate.stride(1), scale * LOG2_E,
        COUNT=READOUTS, HK=k.shape[1], GROUP=group,
        ROWS=READOUT_ROWS, KEYS=config.attention_keys, D=q.shape[2],
        STAGES=config.attention_stages, DESCRIPTORS=config.descriptors,
        num_warps=4,
    )  # fmt: skip
    return out


def _tiles(k: Tensor, v: Tensor, config: KernelConfig) -> tuple[object, object]:
    """Descriptors of keys and values by block of keys and head, or the tensors themselves."""
    if not config.descriptors:
        return k, v
    shape, block = [k.shape[0], k.shape[1] * k.shape[2]], [config.attention_keys, k.shape[2]]
    return (
        TensorDescriptor(k, shape, [k.stride(0), 1], block),
        TensorDescriptor(v, shape, [v.stride(0), 1], block),
    )


def _checked(
    q: Tensor, k: Tensor, v: Tensor, gate: Tensor, out: Tensor | None
) -> tuple[Tensor, int]:
    """The output buffer and the query heads of a KV head; q must be packed, rows contiguous."""
    rows, heads, width = q.shape
    assert all(x.stride(2) == 1 for x in (q, k, v, gate))
    assert all(x.stride(1) == width for x in (q, k, v))
    assert heads % k.shape[1] == 0
    assert width & (width - 1) == 0
    if out is None:
        out = torch.empty(rows, heads * width, dtype=q.dtype, device=q.device)
    assert out.is_contiguous()
    assert out.shape == (rows, heads * width)
    return out, heads // k.shape[1]
