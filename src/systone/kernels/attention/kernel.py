"""Trie attention kernels: online softmax over the key ranges of a path, in path order.

A program takes (query tile, KV head) items from a device list. The rows of a tile are (token, query
head) pairs of one KV head, so keys are read once for the whole group. Key blocks restart at every
segment: a row meets the same blocks in the same order whatever is packed beside it. Blocks that a
row may not see leave its sums exactly as they were.
"""

import triton
import triton.language as tl

from systone.kernels.device import round_to, sigmoid


@triton.jit
def _fold(q, k, v, seen, top, total, acc, scale, MASKED: tl.constexpr):
    """One key block into the running (maximum, sum, weighted values). `scale` carries log2(e)."""
    scores = tl.dot(q, tl.trans(k))
    if MASKED:
        scores = tl.where(seen, scores, float("-inf"))
    peak = tl.maximum(top, tl.max(scores, axis=1) * scale)
    shift = peak
    if MASKED:  # a row that has seen nothing yet keeps -inf: shift by 0, so that no NaN arises
        shift = tl.where(peak == float("-inf"), 0.0, peak)
    weights = tl.exp2(scores * scale - shift[:, None])
    fade = tl.exp2(top - shift)
    total = total * fade + tl.sum(weights, axis=1)
    acc = tl.dot(weights.to(v.dtype), v, acc * fade[:, None])
    return peak, total, acc


@triton.jit
def _item(turn, items):
    """The turn-th item of this program: rounds run forth and back, so that a list sorted by length
    gives every program about the same work. -> item, or `items` when its round is over."""
    programs = tl.num_programs(0)
    place = tl.program_id(0)
    if turn % 2 == 1:
        place = programs - 1 - place
    return tl.minimum(turn * programs + place, items)


@triton.jit
def _whole_blocks(
    q, k_tiles, v_tiles, k_ptr, v_ptr, start, keys, kv, top, total, acc, scale, stride_k, stride_v,
    KEYS: tl.constexpr, D: tl.constexpr, STAGES: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Keys 0 .. `keys` (a multiple of KEYS) of the segment at `start`, seen by every row."""
    d = tl.arange(0, D)
    rows = tl.arange(0, KEYS)[:, None]
    for j in tl.range(0, keys, KEYS, num_stages=STAGES, disable_licm=True):
        if DESCRIPTORS:
            k = k_tiles.load([start + j, kv * D])
            v = v_tiles.load([start + j, kv * D])
        else:
            at = (start + j).to(tl.int64)
            k = tl.load(k_ptr + at * stride_k + (rows * stride_k + d[None, :]))
            v = tl.load(v_ptr + at * stride_v + (rows * stride_v + d[None, :]))
        top, total, acc = _fold(q, k, v, True, top, total, acc, scale, False)
    return top, total, acc


@triton.jit
def _edge_blocks(
    q, k_ptr, v_ptr, start, first, limit, reach, top, total, acc, scale, stride_k, stride_v,
    KEYS: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Keys `first` .. `limit` of a segment; row r sees those below reach[r]. What lies beyond the
    limit is a neighbour's, or NaN, and is never read."""
    d = tl.arange(0, D)
    rows = tl.arange(0, KEYS)
    for j in tl.range(first, limit, KEYS, num_stages=1, disable_licm=True):
        at = (start + j).to(tl.int64)
        live = (rows < limit - j)[:, None]
        k = tl.load(k_ptr + at * stride_k + (rows[:, None] * stride_k + d[None, :]), live, 0.0)
        v = tl.load(v_ptr + at * stride_v + (rows[:, None] * stride_v + d[None, :]), live, 0.0)
        seen = rows[None, :] < (reach - j)[:, None]
        top, total, acc = _fold(q, k, v, seen, top, total, acc, scale, True)
    return top, total, acc


@triton.jit
def _walk_path(
    q, k_tiles, v_tiles, k_ptr, v_ptr, kv, seg, clear, limit, reach,
    ancestor_ptr, ancestors_ptr, start_ptr, length_ptr, scale, stride_k, stride_v,
    ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr,
    STAGES: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Ancestors in path order, then the own segment: keys below `clear` are seen by every row, keys
    from there to `limit` as `reach` says. -> sums (total [ROWS], acc [ROWS, D])."""
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    begin = tl.load(ancestor_ptr + seg)
    end = tl.load(ancestor_ptr + seg + 1)
    for a in tl.range(begin, end + 1, disable_licm=True):
        other = tl.load(ancestors_ptr + a, mask=a < end, other=0)
        at = tl.where(a < end, other, seg)
        length = tl.load(length_ptr + at)
        whole = tl.where(a < end, length, clear) // KEYS * KEYS
        last = tl.where(a < end, length, limit)
        far = tl.where(a < end, length, reach)
        start = tl.load(start_ptr + at)
        top, total, acc = _whole_blocks(
            q, k_tiles, v_tiles, k_ptr, v_ptr, start, whole, kv, top, total, acc, scale,
            stride_k, stride_v, KEYS, D, STAGES, DESCRIPTORS,
        )  # fmt: skip
        top, total, acc = _edge_blocks(
            q, k_ptr, v_ptr, start, whole, last, far, top, total, acc, scale,
            stride_k, stride_v, KEYS, D,
        )  # fmt: skip
    return total, acc


@triton.jit
def _finish(out_ptr, out_at, gate_ptr, gate_at, live, total, acc, D: tl.constexpr):
    """Divide, round, times sigmoid(gate), round, store; rows outside `live` are left alone."""
    d = tl.arange(0, D)
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    gate = tl.load(gate_ptr + gate_at[:, None] + d[None, :], mask=live, other=0.0)
    out = round_to(acc / total[:, None], dtype) * round_to(sigmoid(gate.to(tl.float32)), dtype)
    tl.store(out_ptr + out_at[:, None] + d[None, :], out.to(dtype), mask=live)


@triton.jit
def trie_attention_kernel(
    k_tiles, v_tiles, q_ptr, k_ptr, v_ptr, gate_ptr, out_ptr,
    count_ptr, tile_seg_ptr, tile_first_ptr, start_ptr, length_ptr, ancestor_ptr, ancestors_ptr,
    stride_q, stride_k, stride_v, stride_gate, stride_gate_head, scale,
    COUNT: tl.constexpr, HK: tl.constexpr, GROUP: tl.constexpr, TOKENS: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr,
    STAGES: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Items: query tiles of TOKENS tokens (TOKENS * GROUP <= ROWS) times KV heads. `*_tiles`:
    descriptors of k and v where the device has them."""
    r = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    token = r // GROUP
    items = tl.load(count_ptr + COUNT) * HK
    for turn in tl.range(0, tl.cdiv(items, tl.num_programs(0)), disable_licm=True):
        item = _item(turn, items)
        there = item < items
        tile = item // HK
        kv = item % HK
        head = kv * GROUP + r % GROUP
        seg = tl.load(tile_seg_ptr + tile, mask=there, other=0)
        first = tl.load(tile_first_ptr + tile, mask=there, other=0)
        length = tl.where(there, tl.load(length_ptr + seg), 0)
        live = ((token < TOKENS) & (first + token < length))[:, None]
        flat = tl.load(start_ptr + seg).to(tl.int64) + first + token
        q_at = flat * stride_q + head * D
        q = tl.load(q_ptr + q_at[:, None] + d[None, :], mask=live, other=0.0)
        total, acc = _walk_path(
            q, k_tiles, v_tiles, k_ptr + kv * D, v_ptr + kv * D, kv, seg, first,
            tl.minimum(first + TOKENS, length), first + token + 1,
            ancestor_ptr, ancestors_ptr, start_ptr, length_ptr, scale, stride_k, stride_v,
            ROWS, KEYS, D, STAGES, DESCRIPTORS,
        )  # fmt: skip
        out_at = flat * (HK * GROUP * D) + head * D
        gate_at = flat * stride_gate + head * stride_gate_head
        _finish(out_ptr, out_at, gate_ptr, gate_at, live, total, acc, D)


@triton.jit
def readout_attention_kernel(
    k_tiles, v_tiles, q_ptr, k_ptr, v_ptr, gate_ptr, out_ptr,
    count_ptr, token_ptr, seg_ptr, start_ptr, length_ptr, ancestor_ptr, ancestors_ptr,
    stride_q, stride_k, stride_v, stride_gate, stride_gate_head, scale,
    COUNT: tl.constexpr, HK: tl.constexpr, GROUP: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr,
    STAGES: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Items: read-out rows times KV heads; the rows of a tile are one group's query heads."""
    r = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    live = (r < GROUP)[:, None]
    items = tl.load(count_ptr + COUNT) * HK
    for item in tl.range(tl.program_id(0), items, tl.num_programs(0), disable_licm=True):
        kv = item % HK
        head = kv * GROUP + r
        seg = tl.load(seg_ptr + item // HK)
        keys = tl.load(token_ptr + item // HK) - tl.load(start_ptr + seg) + 1
        row = tl.zeros((ROWS,), dtype=tl.int64) + item // HK
        q_at = row * stride_q + head * D
        q = tl.load(q_ptr + q_at[:, None] + d[None, :], mask=live, other=0.0)
        total, acc = _walk_path(
            q, k_tiles, v_tiles, k_ptr + kv * D, v_ptr + kv * D, kv, seg, keys, keys,
            tl.zeros_like(r) + keys, ancestor_ptr, ancestors_ptr, start_ptr, length_ptr, scale,
            stride_k, stride_v, ROWS, KEYS, D, STAGES, DESCRIPTORS,
        )  # fmt: skip
        out_at = row * (HK * GROUP * D) + head * D
        gate_at = row * stride_gate + head * stride_gate_head
        _finish(out_ptr, out_at, gate_ptr, gate_at, live, total, acc, D)
