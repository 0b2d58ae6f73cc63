"""Runs Triton kernels on the CPU through Triton's interpreter, with bf16 as a GPU computes it.

The interpreter stores bf16 as raw 16-bit words: it would multiply the words and cut instead of
round; and numpy 2.4 no longer turns its one-element arrays into an index. Three of its functions
are replaced for this folder. GPU code paths stay as they are.
"""

from __future__ import annotations

import os
from dataclasses import replace

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from systone.kernels import config
from systone.kernels.config import KernelConfig
from systone.kernels.gemm.tiles import GemmTile

triton.knobs.runtime.interpret = True
torch.set_num_threads(2)


def widen(words: np.ndarray) -> np.ndarray:
    """bf16 words as float32."""
    return (words.astype(np.uint32) << 16).view(np.float32)


def narrow(values: np.ndarray) -> np.ndarray:
    """float32 rounded to nearest even, as bf16 words."""
    return torch.from_numpy(np.ascontiguousarray(values)).bfloat16().view(torch.uint16).numpy()


def _cast(self, src, dst_type):
    source, target = src.dtype.scalar, dst_type.scalar
    if source == tl.bfloat16 and target == tl.float32:
        return interpreter.TensorHandle(widen(src.data), target)
    if source == tl.float32 and target == tl.bfloat16:
        return interpreter.TensorHandle(narrow(src.data), target)
    return _original_cast(self, src, dst_type)


def _dot(self, a, b, d, input_precision, max_num_imprecise_acc):
    """Summed in FP64 and rounded once: a BLAS sums an FP32 row by its place in the tile."""
    left, right = (widen(x.data) if x.dtype.scalar == tl.bfloat16 else x.data for x in (a, b))
    product = np.matmul(left, right, dtype=np.float64).astype(np.float32)
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


def _patch_tensor(tensor, scope):
    _original_patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


_original_patch = interpreter._patch_lang_tensor
interpreter._patch_lang_tensor = _patch_tensor
_original_cast = interpreter.InterpreterBuilder.cast_impl
interpreter.InterpreterBuilder.cast_impl = _cast
interpreter.InterpreterBuilder.create_dot = _dot


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> KernelConfig:
    """Tiles the interpreter can afford; the kernels and their edges stay the same."""
    tile = GemmTile(32, 32, 64, 4, 2, 1.0)
    table = replace(config.SM90, gemm=(tile,), gated=(), attention_rows=16, attention_keys=16)
    monkeypatch.setattr(config, "SM90", table)
    return table


@pytest.fixture(autouse=True)
def _quiet_nan_arithmetic():
    """Masked lanes hold anything; numpy would warn about arithmetic on them."""
    with np.errstate(all="ignore"):
        yield
