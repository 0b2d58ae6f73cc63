"""Every kernel at the shapes of the 9B beside the best public peer at hand, under CUDA graphs.

Rows: {op, shape, ours_ms, peer, peer_ms, ratio}; ratio is peer time over ours (bandwidth operators:
share of the copy bandwidth).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from scripts.gpu_suite.products import GATED, SHAPES, measure
from scripts.gpu_suite.timing import capture, graph_ms, in_turn
from systone.kernels.attention import triton as attention
from systone.kernels.config import table_of
from systone.kernels.conv import triton as conv
from systone.kernels.norm import triton as norm
from systone.kernels.rope import triton as rope
from systone.kernels.swiglu import triton as swiglu
from tests.gpu.cases import Inputs, ids, leaves, work
from tests.gpu.trie_checks import AttentionCase, GdnCase

Row = dict[str, Any]
DEVICE = torch.device("cuda")
CALLS = 10  # of an operator in a graph


def row(op: str, shape: str, ours: float, peer: str, theirs: float | None) -> Row:
    ratio = None if theirs is None else round(theirs / ours, 3)
    return {"op": op, "shape": shape, "ours_ms": round(ours, 5), "peer": peer,
            "peer_ms": None if theirs is None else round(theirs, 5), "ratio": ratio}  # fmt: skip


def sequences() -> dict[str, list]:
    """Passes to time: single sequences, packed short ones, tries."""
    made = {f"1x{n}": [[[ids(n, 1)]]] for n in (64, 128, 256, 512, 1024, 2048, 4096)}
    made["8x128"] = [[[ids(128, i)]] for i in range(1, 9)]
    made["32x128"] = [[[ids(128, i)]] for i in range(1, 33)]
    made["trie 24+40x25"] = [leaves(20, 4, [25] * 40)]
    made["trie 96+160x25"] = [leaves(90, 6, [25] * 160)]
    return made


def gdn_rows(names: list[str] | None = None) -> Iterator[Row]:
    for name, requests in sequences().items():
        if names and name not in names:
            continue
        tables, on_device = work(requests, DEVICE)
        case = GdnCase.of(tables, Inputs(), 16, 32, DEVICE)
        ours = graph_ms(_gdn_call(case, on_device))
        fla = None
        if not name.startswith("trie") and not os.environ.get("NO_PEERS"):
            fla = graph_ms(_fla_call(case, [len(r[0][0]) for r in requests]))
        yield row("gdn", name, ours, "fla 0.6.0 chunk_gated_delta_rule", fla)


def gdn_parts() -> Iterator[Row]:
    """Device time of each GDN kernel, from the profiler."""
    for name in ("1x64", "1x1024", "1x4096", "8x128", "trie 96+160x25"):
        tables, on_device = work(sequences()[name], DEVICE)
        call = _gdn_call(GdnCase.of(tables, Inputs(), 16, 32, DEVICE), on_device)
        call()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            for _ in range(5):
                call()
            torch.cuda.synchronize()
        for event in seen.key_averages():
            if event.device_time_total == 0:
                continue
            yield {"op": event.key[:40], "shape": name, "calls": event.count,
                   "us": round(event.device_time_total / 5, 1)}  # fmt: skip


def _gdn_call(case: GdnCase, tables: Any) -> Callable[[], object]:
    from systone.kernels.gdn import triton as gdn

    tokens, heads = case.b.shape
    scratch = gdn.GdnScratch.empty(tokens, tables.num_states, 16, heads, DEVICE)
    states = torch.empty(max(tables.num_states, 1), heads, 128, 128, device=DEVICE)
    out = torch.empty(tokens, heads, 128, dtype=torch.bfloat16, device=DEVICE)
    return lambda: gdn.gated_delta_rule(
        case.qkv, case.b, case.a, case.log, case.bias, tables,
        num_key_heads=16, key_dim=128, value_dim=128, states=states, out=out, scratch=scratch,
    )  # fmt: skip


def _fla_call(case: GdnCase, lengths: list[int]) -> Callable[[], object]:
    """FLA takes gates ready made: its time leaves the gate maths out."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    q, k, v = case.qkv.contiguous().split([2048, 2048, 4096], dim=-1)
    q, k = (x.reshape(1, -1, 16, 128).repeat_interleave(2, 2).contiguous() for x in (q, k))
    v = v.reshape(1, -1, 32, 128).contiguous()
    g = -torch.exp(case.log.float()) * functional.softplus(case.a.float() + case.bias.float())
    beta = torch.sigmoid(case.b.float()).bfloat16()[None].contiguous()
    starts = None
    if len(lengths) > 1:
        ends = torch.tensor([0, *lengths], device=DEVICE).cumsum(0)
        starts = {"cu_seqlens": ends}
    return lambda: chunk_gated_delta_rule(
        q, k, v, g[None].contiguous(), beta, use_qk_l2norm_in_kernel=True, **(starts or {})
    )


def attention_rows() -> Iterator[Row]:
    for name in ("1x512", "1x1024", "1x2048", "1x4096", "8x128", "trie 96+160x25"):
        requests = sequences()[name]
        tables, on_device = work(requests, DEVICE)
        case = AttentionCase.of(tables, Inputs(), 16, 4, DEVICE)
        out = torch.empty(case.q.shape[0], 4096, dtype=torch.bfloat16, device=DEVICE)

        def call(case: AttentionCase = case, t: Any = on_device, out: Tensor = out) -> Tensor:
            return attention.trie_attention(
                case.q, case.k, case.v, case.gate, t, scale=1 / 16, out=out
            )

        ours = graph_ms(call)
        peer = None
        if name.startswith("1x") or name == "8x128":
            n = len(requests)
            q, k, v = (x.contiguous().view(n, -1, x.shape[1], 256).transpose(1, 2)
                       for x in (case.q, case.k, case.v))  # fmt: skip

            def sdpa(q: Tensor = q, k: Tensor = k, v: Tensor = v) -> Tensor:
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    return functional.scaled_dot_product_attention(
                        q, k, v, is_causal=True, enable_gqa=True
                    )

            peer = graph_ms(sdpa)
        yield row("attention", name, ours, "cuDNN SDPA", peer)
        rows = on_device.readout_token.long()
        q, gate = case.q[rows].contiguous(), case.gate[rows]

        def last(
            case: AttentionCase = case, t: Any = on_device, q: Tensor = q, g: Tensor = gate
        ) -> Tensor:
            return attention.readout_attention(q, case.k, case.v, g, t, scale=1 / 16)

        yield row("readout attention", name, graph_ms(last), "none", None)


def gemm_rows(counts: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)) -> Iterator[Row]:
    """Ours and the peers in turn: alone, the first would have the cooler device."""
    _, processors = table_of(DEVICE)
    points = [(layout, name, False) for layout in SHAPES for name in SHAPES[layout]]
    points += [(layout, GATED, True) for layout in SHAPES]
    for (layout, name, fused), m in product(points, counts):
        found = measure((m, *SHAPES[layout][name], fused), [], processors)
        taken = found["ms"]
        peer = "cuBLAS default" + (" and SwiGLU" if fused else "")
        ours = taken.get("table", taken["exact"])  # two launches where the table says so
        shape = f"{layout} {name} M={m}"
        made = row("gated product" if fused else "gemm", shape, ours, peer, taken["default"])
        made["exact_cublaslt_ms"] = round(taken["exact"], 5)
        made["bits_equal"] = not found["wrong"]
        if fused:
            made["launches"] = 1 if "table" in taken else 2
        yield made


def bandwidth_rows(tokens: int = 4096) -> Iterator[Row]:
    """Bytes each operator must move over its time, as a share of a copy's rate: in turn with it,
    since a device's clocks, and so both rates, change within seconds."""
    a = torch.empty(2**30, dtype=torch.bfloat16, device=DEVICE).normal_()
    b = torch.empty_like(a)
    _, on_device = work([[[ids(tokens, 1)]]], DEVICE)
    draw = lambda *s: torch.randn(*s, device=DEVICE).bfloat16()  # noqa: E731
    wide, weight = draw(tokens, 12352), draw(4, 8192).t()
    conv_out = torch.empty(tokens, 8192, dtype=torch.bfloat16, device=DEVICE)
    x, y, scale = draw(tokens, 4096), draw(tokens, 4096), draw(4096)
    gate_up, inner = draw(tokens, 24576), draw(tokens, 12288)
    core, gated, head = draw(tokens, 32, 128), draw(tokens, 4096), draw(128)
    fused = draw(tokens, 10240)
    q = fused[:, :8192].view(tokens, 16, 2, 256)[:, :, 0]
    k = fused[:, 8192:].view(tokens, 2, 4, 256)[:, 0]
    cos, sin = rope.rotary_table(on_device.positions, theta=1e7, rotary_dim=64,
                                 sections=(11, 11, 10), dtype=torch.bfloat16)  # fmt: skip
    q_out, k_out, w = draw(tokens, 16, 256), draw(tokens, 4, 256), draw(256)
    out = torch.empty_like(x)
    unit = tokens * 2
    qkv, z = wide[:, :8192], wide[:, 8192:12288]
    eps, turned = 1e-6, {"q_out": q_out, "k_out": k_out}
    calls: dict[str, tuple[int, Callable[[], object]]] = {
        "conv": (2 * 8192, lambda: conv.causal_conv_silu(qkv, weight, on_device, out=conv_out)),
        "add_rms_norm": (
            4 * 4096,
            lambda: norm.add_rms_norm(x, y, scale, eps, out=out, residual_out=y),
        ),
        "gated_norm": (3 * 4096, lambda: norm.gated_rms_norm(core, z, head, eps, out=gated)),
        "swiglu": (3 * 12288, lambda: swiglu.swiglu(gate_up, out=inner)),
        "qk_norm_rope": (
            2 * 5120,
            lambda: rope.qk_norm_rope(q, k, w, w, cos, sin, eps, **turned),
        ),
    }
    graphs = {name: repeated(call, CALLS) for name, (_, call) in calls.items()}
    # not captured: a copy in a graph takes half as long again
    copying = SimpleNamespace(replay=lambda: [b.copy_(a) for _ in range(CALLS)])
    taken = in_turn({"copy": copying, **graphs}, CALLS, rounds=15)
    copy = 2 * a.numel() * 2 / taken["copy"] / 1e6
    yield {"op": "copy", "shape": "2 GiB", "ours_ms": None, "gbps": round(copy)}
    for name, (elements, _) in calls.items():
        moved = unit * elements
        yield row(name, f"T={tokens}", taken[name], "copy bandwidth", moved / copy / 1e6)


def repeated(call: Callable[[], object], times: int) -> torch.cuda.CUDAGraph:
    return capture(lambda: [call() for _ in range(times)])
