"""Matrix products through cuBLASLt with split-K forbidden; signature of `reference`.

Under `exact_blas` every output is one FP32 sum in the canonical order on the devices where the
self-check finds it so. torch's switches are process-wide: the context sets them for our calls and
puts them back. M rows, K inputs, N outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def exact_blas() -> Iterator[None]:
    """cuBLASLt as torch's BLAS, no split-K and no bf16 partial sums, no TF32, inside the block.
    Nothing without a CUDA device, where torch has no such switches."""
    if not torch.cuda.is_available():
        yield
        return
    flags = torch.backends.cuda.matmul
    library = torch.backends.cuda.preferred_blas_library()
    reduction, tf32 = flags.allow_bf16_reduced_precision_reduction, flags.allow_tf32
    torch.backends.cuda.preferred_blas_library("cublaslt")
    flags.allow_bf16_reduced_precision_reduction = (False, False)
    flags.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(library)
        flags.allow_bf16_reduced_precision_reduction = reduction
        flags.allow_tf32 = tf32


def linear(x: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor:
    """See `reference.linear`; call it inside `exact_blas`."""
    if out is None:
        return torch.mm(x, weight.t())
    return torch.mm(x, weight.t(), out=out)
