"""Small launches of every own kernel, to be run under compute-sanitizer.

Inputs are made on the CPU, so that the device runs our kernels and copies only. Prints what ran;
the sanitizer's exit status is the verdict (`scripts/gpu run sanitize`).
python3 -m scripts.gpu_suite.sanitize [gdn|attention|rows|gemm|head|controls ...]
`controls`, named alone: `sanitize_controls`, among them kernels that race.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor

from systone.kernels.attention import triton as attention
from systone.kernels.attention.triton import tile_tokens
from systone.kernels.config import table_of
from systone.kernels.conv import triton as conv
from systone.kernels.gather import triton as gather
from systone.kernels.gdn import triton as gdn
from systone.kernels.gemm import triton as gemm
from systone.kernels.head import triton as head
from systone.kernels.norm import triton as norm
from systone.kernels.rope import triton as rope
from systone.kernels.swiglu import triton as swiglu
from systone.kernels.work import WorkTables
from tests.gpu.cases import leaves, rows_of
from tests.unit.nn.naive_tables import naive_tables

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Head counts and widths of the 9B: the very variants that serve, compiled by earlier parts.
HEADS, KV_HEADS, KEY_HEADS, VALUE_HEADS, HIDDEN, INNER = 16, 4, 16, 32, 4096, 12288
EPS = 1e-6


def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Gaussian values by shape, from the CPU."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype).to(DEVICE)


def tables() -> WorkTables:
    """A pass with short parents, odd ends, a whole chunk and leaves of every tile."""
    requests = [leaves(67, 3, [1, 17, 40, 65]), rows_of([[2, 1, 33], [130]], seed=3)]
    return WorkTables.build(
        naive_tables(requests), tile_tokens(table_of(DEVICE)[0], HEADS, KV_HEADS), DEVICE
    )


def run_gdn(at: WorkTables) -> list[Tensor]:
    """As a pass runs it, unit rows left by the convolution, and on its own."""
    tokens, width = at.num_tokens, 2 * KEY_HEADS * 128 + VALUE_HEADS * 128
    x, taps = drawn(tokens, width), drawn(4, width).t()
    gates = [drawn(tokens, VALUE_HEADS), drawn(tokens, VALUE_HEADS)]
    decay = [drawn(VALUE_HEADS), drawn(VALUE_HEADS)]
    found = []
    for ready in (True, False):
        scratch = gdn.GdnScratch.empty(tokens, at.num_states, KEY_HEADS, VALUE_HEADS, DEVICE)
        units = scratch.units.view(tokens, -1) if ready else None
        found.append(
            gdn.gated_delta_rule(
                conv.causal_conv_silu(x, taps, at, units=units), *gates, *decay, at,
                num_key_heads=KEY_HEADS, key_dim=128, value_dim=128,
                states=torch.empty(at.num_states, VALUE_HEADS, 128, 128, device=DEVICE),
                out=torch.empty(tokens, VALUE_HEADS, 128, dtype=torch.bfloat16, device=DEVICE),
                scratch=scratch, units_ready=ready,
            )
        )  # fmt: skip
    return found


def run_attention(at: WorkTables) -> list[Tensor]:
    tokens, rows = at.num_tokens, at.num_readouts
    k, v = drawn(tokens, KV_HEADS, 256), drawn(tokens, KV_HEADS, 256)
    q, gate = drawn(tokens, HEADS, 256), drawn(tokens, HEADS, 256)
    few, few_gate = drawn(rows, HEADS, 256), drawn(rows, HEADS, 256)
    return [
        attention.trie_attention(q, k, v, gate, at, scale=1 / 16),
        attention.readout_attention(few, k, v, few_gate, at, scale=1 / 16),
    ]


def run_rows(at: WorkTables) -> list[Tensor]:
    tokens = at.num_tokens
    width, values = 2 * KEY_HEADS * 128 + VALUE_HEADS * 128, VALUE_HEADS * 128
    x, w = drawn(tokens, HIDDEN), drawn(HIDDEN)
    cos, sin = drawn(tokens, 64), drawn(tokens, 64)
    q, k, heads = drawn(tokens, HEADS, 256), drawn(tokens, KV_HEADS, 256), drawn(256)
    return [
        conv.causal_conv_silu(drawn(tokens, width), drawn(4, width).t(), at),
        norm.rms_norm(x, w, EPS),
        *norm.add_rms_norm(x, drawn(tokens, HIDDEN), w, EPS),
        norm.gated_rms_norm(
            drawn(tokens, VALUE_HEADS, 128), drawn(tokens, values), drawn(128), EPS
        ),
        *rope.qk_norm_rope(q, k, heads, heads, cos, sin, EPS),
        rope.norm_rope(k, heads, cos, sin, EPS),
        swiglu.swiglu(drawn(tokens, 2 * INNER)),
        gather.gather_rows(x, at.readout_token),
    ]


def run_gemm(_: WorkTables) -> list[Tensor]:
    found = []
    for rows in (1, 70, 300, 600):
        found.append(gemm.linear(drawn(rows, HIDDEN), drawn(200, HIDDEN)))
        found.append(gemm.linear(drawn(rows, 200), drawn(72, 200)))
    return found


def run_head(_: WorkTables) -> list[Tensor]:
    wide, bias = drawn(1, HIDDEN, dtype=torch.float32), drawn(1, dtype=torch.float32)
    return [head.scalar_head(drawn(5, HIDDEN), wide, bias)]


def run_controls(_: WorkTables) -> list[Tensor]:
    """Prints whether each one's copy came out right; those that race may or may not."""
    from scripts.gpu_suite.sanitize_controls import cuda_controls, gluon_controls

    outputs = []
    for name, found, wanted in chain(cuda_controls(DEVICE), gluon_controls(DEVICE)):
        right = "right" if torch.equal(found, wanted) else "wrong"
        print(f"control {name}: copied {right}", flush=True)
        outputs.append(found)
    return outputs


GROUPS: dict[str, Callable[[WorkTables], list[Tensor]]] = {
    "gdn": run_gdn,
    "attention": run_attention,
    "rows": run_rows,
    "gemm": run_gemm,
    "head": run_head,
}


def main() -> None:
    at = tables()
    for name in sys.argv[1:] or GROUPS:
        found = (run_controls if name == "controls" else GROUPS[name])(at)
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        print(f"{name}: {len(found)} launches' outputs, {sum(t.numel() for t in found)} values")


if __name__ == "__main__":
    main()
