"""Brings a pass up on its device: proves products, checks passes, captures graphs, checks those.

Everything runs on the current stream under `exact_blas`. Owns the order and the cache of verdicts;
what is compared, the other `selfcheck` modules know.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from systone.execute.buckets import PRODUCT_ROWS, readout_buckets, token_buckets
from systone.execute.gpu_gemm import Products, projections
from systone.execute.gpu_memory import graph_room
from systone.execute.gpu_pass import GpuPass
from systone.execute.graph_cuda import CudaCapture
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.execute.graph_stage import PassStage
from systone.execute.graph_store import Capture
from systone.execute.selfcheck import Bits, Clock, Report, check_graphs, check_passes
from systone.execute.selfcheck_cache import VerdictCache, default_directory
from systone.execute.selfcheck_long import long_passes, mixed_launch
from systone.execute.selfcheck_products import (
    Shape,
    Verdict,
    check_heads,
    check_products,
    one_of_each_shape,
)
from systone.execute.selfcheck_rows import check_rows, pass_of, sample_pass
from systone.kernels.config import table_of
from systone.kernels.gemm.gated_kernel import gated_kernel
from systone.kernels.gemm.kernel import gemm_descriptor_kernel, gemm_kernel
from systone.kernels.head.triton import rows_dot_kernel
from systone.plan.tables import PassTables

__all__ = ["StartSettings", "bring_up"]

log = logging.getLogger(__name__)

_HEAD = "head "  # before a head's shape, where verdicts are kept


@dataclass(frozen=True, slots=True)
class StartSettings:
    """`graphs` None: eager only. `fast_products`: cuBLASLt where proven. `verdicts` None: every
    start checks every product. A pass expected to take longer than `whole_s` runs in groups of
    layers of about `group_s`; None: every pass runs whole."""

    graphs: GraphSettings | None = field(default_factory=GraphSettings)
    fast_products: bool = True
    verdicts: Path | None = field(default_factory=default_directory)
    whole_s: float | None = 0.06
    group_s: float = 0.015


def bring_up(
    split: GpuPass, stage: PassStage, device: torch.device, settings: StartSettings
) -> tuple[GraphedPasses, Report]:
    """Passes ready to serve, and what was found on the way."""
    clock = Clock()
    vocabulary = split.config.vocab_size
    sample = partial(sample_pass, vocabulary)
    eager = GraphedPasses(split, stage, GraphSettings(), None, sample)
    verdicts, heads, cached = _products(split, stage, device, settings)
    _use(split, verdicts)
    split.products.warm(_weights(split).values(), _row_counts(split))
    torch.cuda.empty_cache()
    clock.lap("products")
    found = check_passes(partial(_bits, eager), vocabulary)
    found = replace(found, packing=found.packing and not any(v.refused for v in heads.values()))
    clock.lap("passes")
    times = None if settings.whole_s is None else (settings.whole_s, settings.group_s)
    eager, groups = long_passes(
        eager, _bits, partial(_bits, launch=mixed_launch), times if found.packing else None
    )
    clock.lap("largest pass")
    served, graphs = eager, None
    if settings.graphs is not None and found.packing:
        capture: Capture = CudaCapture(device).of
        room = graph_room(settings.graphs.max_bytes, device)  # after the largest pass has run
        wanted = replace(settings.graphs, max_bytes=room)
        served = GraphedPasses(eager.split, stage, wanted, capture, sample, eager.long)
        served.capture()
        clock.lap("capture")
        graphs = check_graphs(partial(_bits, eager), partial(_bits, served), vocabulary)
        clock.lap("graphs")
        if not graphs:
            served.close()
            served = eager
    return served, Report(verdicts, found, graphs, clock.seconds, cached, groups, heads)


def _bits(
    passes: GraphedPasses,
    tables: PassTables,
    launch: Callable[[GraphedPasses, PassTables], Tensor] = GraphedPasses.launch,
) -> Bits:
    """Final hidden states and scores of every read-out as integers, so that NaN compares too."""
    rows = tables.readout_token.shape[0]
    scores = launch(passes, tables)[:rows]
    hidden = passes.split.arena.take("last_normed", rows, passes.split.config.hidden_size)
    parts = [hidden.view(torch.int16).int(), scores.view(torch.int32)]
    return np.asarray(torch.cat(parts, dim=1).cpu().numpy())


def _products(
    split: GpuPass, stage: PassStage, device: torch.device, settings: StartSettings
) -> tuple[dict[Shape, Verdict], dict[Shape, Verdict], bool]:
    """Verdicts of products and of heads by shape, and whether they are an earlier start's."""
    room, weights = split.arena.room, _weights(split)
    heads = one_of_each_shape([split.model.head_weight])
    readouts = readout_buckets(room.readouts)
    # every count there is, so that starts with other limits know these verdicts
    counts = sorted({*token_buckets(PRODUCT_ROWS), *readouts})
    kept = VerdictCache(_identity(device, weights, heads, counts), settings.verdicts)
    held = kept.read()
    names = {_name(s): s for s in weights} | {_HEAD + _name(s): s for s in heads}
    if held is not None and set(held) == set(names):
        found = {name: Verdict(**held[name]) for name in names}
    else:
        held = None
        warm, last = _warm_rows(split, stage)
        products = check_products(weights, counts, warm, activated=_gate_up(split))
        projected = check_heads(heads, readouts, dict.fromkeys(heads, last))
        found = {_name(s): v for s, v in products.items()}
        found |= {_HEAD + _name(s): v for s, v in projected.items()}
        kept.write({name: v.as_json() for name, v in found.items()})
    wanted = {s: replace(found[_name(s)], wanted=settings.fast_products) for s in weights}
    return wanted, {s: found[_HEAD + _name(s)] for s in heads}, held is not None


def _weights(split: GpuPass) -> dict[Shape, Tensor]:
    """One of each shape a pass multiplies by."""
    queries = 2 * split.config.num_heads * split.config.head_dim
    return one_of_each_shape(projections(split.model.stack.weights, queries))


def _row_counts(split: GpuPass) -> set[int]:
    """Of every product that these limits allow; what is left of more rows than PRODUCT_ROWS is a
    bucket as well."""
    room = split.arena.room
    trunks = token_buckets(min(room.tokens, PRODUCT_ROWS))
    return {*trunks, *readout_buckets(room.readouts)}


def _gate_up(split: GpuPass) -> set[Shape]:
    """Shapes whose product is activated."""
    return set(one_of_each_shape([layer.gate_up for layer in split.model.stack.weights.layers]))


def _use(split: GpuPass, verdicts: Mapping[Shape, Verdict]) -> None:
    products, gate_up = split.products, _gate_up(split)
    for shape, verdict in verdicts.items():
        if shape in gate_up and verdict.gated is None and verdict.canonical is None:
            products.gated.add(shape)
        if verdict.gated is not None:
            log.warning("gated product %s differs at M=%d: in two", _name(shape), verdict.gated)
        if verdict.fast:
            products.fast.add(shape)
        elif verdict.refused:
            first = verdict.cublaslt if verdict.canonical is None else verdict.canonical
            assert first is not None
            products.failed[shape] = first
            log.warning("product %s: %s", _name(shape), verdict.mode)


@dataclass(slots=True)
class _Recording(Products):
    """Keeps the real rows that each shape was last multiplied with. `real`: of a padded count."""

    real: dict[int, int] = field(default_factory=dict)
    seen: dict[Shape, Tensor] = field(default_factory=dict)

    def linear(self, x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
        shape = (int(weight.shape[0]), int(weight.shape[1]))
        self.seen[shape] = x[: self.real.get(x.shape[0], 1)].clone()
        return Products.linear(self, x, weight, out)


def _warm_rows(split: GpuPass, stage: PassStage) -> tuple[Mapping[Shape, Tensor], Tensor]:
    """What the check's own rows bring to every product, from the last layer that has the shape, and
    to the head."""
    tables = pass_of(check_rows(split.config.vocab_size), shared=True)
    recording = _Recording()
    sample = partial(sample_pass, split.config.vocab_size)
    passes = GraphedPasses(replace(split, products=recording), stage, GraphSettings(), None, sample)
    tokens, readouts = tables.num_tokens, int(tables.readout_token.shape[0])
    recording.real = {
        token_buckets(tokens)[-1]: tokens, readout_buckets(readouts)[-1]: readouts
    }  # fmt: skip
    passes.launch(tables)
    last = split.arena.take("last_normed", readouts, split.config.hidden_size).clone()
    return recording.seen, last


def _identity(
    device: torch.device, shapes: Iterable[Shape], heads: Iterable[Shape], counts: Sequence[int]
) -> Mapping[str, Any]:
    """What a product's bits depend on, the device as the CUDA runtime names it."""
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": properties.name,
        "capability": [properties.major, properties.minor],
        "processors": properties.multi_processor_count,
        "driver": _driver(),
        "cuda": torch.version.cuda,
        "cublas": _version("nvidia-cublas", "nvidia-cublas-cu12"),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "kernels": [
            kernel.cache_key
            for kernel in (gemm_kernel, gemm_descriptor_kernel, gated_kernel, rows_dot_kernel)
        ],
        "tiles": repr(table_of(device)[0]),
        "shapes": sorted(_name(shape) for shape in shapes),
        "heads": sorted(_name(shape) for shape in heads),
        "rows": list(counts),
    }


def _driver() -> int:
    """Version of the driver as itself says, 0 where its library isn't called so."""
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return 0
    return version.value


def _version(*packages: str) -> str:
    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "of the system"


def _name(shape: Shape) -> str:
    return f"{shape[0]}x{shape[1]}"
