"""transformers' Qwen3.5 with its plain torch gated delta rule and convolution, and proof of it.

Fast kernels (flash-linear-attention, causal-conv1d) round FP32 products like TF32: they are no
oracle. Import this before transformers.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

import torch

_FAST_PACKAGES = ("fla", "causal_conv1d")
_TORCH_OPERATORS = (
    "torch_chunk_gated_delta_rule",
    "torch_recurrent_gated_delta_rule",
    "causal_conv1d_fn",
    "causal_conv1d_update",
)


def qwen3_5_modeling() -> ModuleType:
    """The modeling module with fast kernels kept out. Raises RuntimeError where that failed."""
    for package in _FAST_PACKAGES:
        if sys.modules.get(package) is not None:
            raise RuntimeError(f"{package} is imported already; start a fresh interpreter")
        sys.modules[package] = None  # type: ignore[assignment]  # makes its import fail
    try:
        from transformers.models.qwen3_5 import modeling_qwen3_5
    finally:
        for package in _FAST_PACKAGES:
            del sys.modules[package]
    for name in _TORCH_OPERATORS:
        bound = inspect.getclosurevars(getattr(modeling_qwen3_5, name)).nonlocals
        if bound["implementation"] is not bound["torch_function"]:
            raise RuntimeError(f"transformers runs {name} through {bound['implementation']}")
    return modeling_qwen3_5


def forbid_tf32() -> None:
    """FP32 products in full precision, in this whole process."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
