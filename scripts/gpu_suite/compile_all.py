"""Compiles every kernel variant of the 9B and 27B layouts for every supported GPU, without a GPU.

Prints a line per variant and fails when one needs more shared memory than its generation has.
    python3 -m scripts.gpu_suite.compile_all [--only gdn] [8.0 8.9 9.0 10.0 12.0]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from systone.kernels import aot
from systone.kernels.attention import triton as attention
from systone.kernels.config import select, table_of
from systone.kernels.conv import triton as conv
from systone.kernels.gather import triton as gather
from systone.kernels.gdn import triton as gdn
from systone.kernels.gemm import gated
from systone.kernels.gemm import triton as gemm
from systone.kernels.head import triton as head
from systone.kernels.norm import triton as norm
from systone.kernels.rope import triton as rope
from systone.kernels.swiglu import triton as swiglu
from systone.kernels.work import READOUTS, Scan, WorkTables
from tests.gpu.cases import leaves
from tests.unit.nn.naive_tables import naive_tables

CAPABILITIES = ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
LAYOUTS = {"9b": (4096, 12288, 16, 32), "27b": (5120, 17408, 24, 48)}  # h, I, Hq, Hv


def launches(layout: str) -> dict[str, Callable[[], None]]:
    """By group: calls of every operator on unwritten tensors of a layout's shapes."""
    hidden, inner, heads, values = LAYOUTS[layout]
    table = table_of(torch.device("cpu"))[0]
    tile, short_tile = (
        f(table, heads, 4) for f in (attention.tile_tokens, attention.short_tile_tokens)
    )
    requests = naive_tables([leaves(70, 3, [5, 20, 70])])
    tables, short = WorkTables.build(requests, tile), WorkTables.build(requests, short_tile)
    whole = (Scan.of_all(0), Scan.of_all(2))
    tokens, rows = tables.num_tokens, tables.num_readouts
    width = 2 * 2048 + values * 128
    delta = _empty(tokens, width + values * 128 + 2 * values)
    fused = _empty(tokens, 2 * heads * 256 + 2 * 4 * 256)
    q, k = _empty(tokens, heads, 256), _empty(tokens, 4, 256)
    gate = fused[:, : 2 * heads * 256].view(tokens, heads, 2, 256)
    keys = fused[:, 2 * heads * 256 :].view(tokens, 2, 4, 256)
    cos, sin = _empty(tokens, 64).chunk(2, dim=1)
    w, x = _empty(256), _empty(tokens, hidden)

    def recurrence() -> None:
        longer = WorkTables.build(naive_tables([leaves(300, 3, [5, 20, 70])]), tile)
        for cut in (tables, longer):
            rows = cut.num_tokens
            b, a = _empty(rows, 2 * values).chunk(2, dim=1)
            gdn.gated_delta_rule(
                _empty(rows, width), b, a, _empty(values), _empty(values),
                replace(cut, scans=(*cut.scans, *whole)),
                num_key_heads=16, key_dim=128, value_dim=128,
            )  # fmt: skip

    def attend() -> None:
        for cut in (tables, short):
            attention.trie_attention(q, k, keys[:, 1], gate[:, :, 1], cut, scale=1 / 16)
        chosen = gate[:rows, :, 1]
        attention.readout_attention(q[:rows], k, keys[:, 1], chosen, tables, scale=1 / 16)

    def products() -> None:
        table, processors = table_of(torch.device("cpu"))
        x, weight = _empty(4096, hidden), _empty(2 * inner, hidden)
        for group in (8, 16):  # few and many rows
            for tile in table.gemm:
                made = replace(tile, group=group)
                described = {"descriptors": table.descriptors}
                gemm.linear_with(x, weight, None, made, processors, **described)
            for tile in table.gated:
                gated.gated_with(x, weight, None, replace(tile, group=group), processors)

    def row_operators() -> None:
        conv.causal_conv_silu(delta[:, :width], _empty(4, width).t(), tables)
        units = torch.empty(tokens, 4096, dtype=torch.float16)
        conv.causal_conv_silu(delta[:, :width], _empty(4, width).t(), tables, units=units)
        norm.rms_norm(x, _empty(hidden), 1e-6)
        norm.add_rms_norm(x, x, _empty(hidden), 1e-6)
        z = delta[:, width : width + values * 128]
        norm.gated_rms_norm(_empty(tokens, values, 128), z, _empty(128), 1e-6)
        rope.qk_norm_rope(gate[:, :, 0], keys[:, 0], w, w, cos, sin, 1e-6)
        rope.norm_rope(keys[:, 0], w, cos, sin, 1e-6)
        swiglu.swiglu(_empty(tokens, 2 * inner))
        gather.gather_rows(x, tables.readout_token)
        wide = torch.empty(256, hidden)
        head.scalar_head(x, wide[:1], torch.empty(1))
        maps = (wide, torch.empty(256), wide, torch.empty(256))
        head.pointer_head(x[:2], x, tables.token_ids, *maps)
        pair = (torch.empty(tokens, 256), torch.empty(tokens, 256))
        scores = torch.empty(tokens, 1)
        live = tables.counts[READOUTS : READOUTS + 1]
        head.readout_pointer_head(x, tables.token_ids, *maps, out=scores, scratch=pair, live=live)
        head.label_head(x, wide, live=live)
        head.scalar_head(x, wide[:1], torch.empty(1), live=live)

    return {"gdn": recurrence, "attention": attend, "gemm": products, "rows": row_operators}


def _empty(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=torch.bfloat16)


def compile_for(capability: tuple[int, int], only: str | None = None) -> list[dict[str, Any]]:
    """A record per variant. Raises what the compiler raises."""
    found = []
    seen: set[str] = set()
    limit = select(capability).shared_kib
    for layout in LAYOUTS:
        for group in ("gdn", "attention", "gemm", "rows"):
            if only in (None, group):
                made = aot.compile_launches(
                    capability, lambda n=layout, g=group: launches(n)[g](), seen
                )
                found += [
                    {
                        "sm": f"{capability[0]}.{capability[1]}", "kernel": one.name,
                        "layout": layout, "shared_kib": round(one.shared_bytes / 1024, 1),
                        "limit_kib": limit, "registers": one.registers,
                        "spill_bytes": one.spill_bytes,
                    }
                    for one in made
                ]  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("gdn", "attention", "gemm", "rows"))
    parser.add_argument("--out")
    parser.add_argument("capabilities", nargs="*")
    args = parser.parse_args()
    named = [tuple(map(int, c.split("."))) for c in args.capabilities] or CAPABILITIES
    records = [r for capability in named for r in compile_for(capability, args.only)]
    for record in records:
        print(*record.values(), flush=True)
    if args.out:
        with open(args.out, "w") as file:
            json.dump(records, file, indent=1)
    over = [r for r in records if r["shared_kib"] > r["limit_kib"]]
    print(f"{len(records)} variants, {len(over)} over their shared memory")
    raise SystemExit(bool(over))


if __name__ == "__main__":
    main()
