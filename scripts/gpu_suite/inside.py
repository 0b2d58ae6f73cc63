"""How much of a replayed forward its matrix products take, by the profiler's kernel times."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

__all__ = ["is_product", "products_ms"]

# cuBLAS and cuBLASLt name their kernels so; ours are gemm_* and gated_kernel (SwiGLU included)
_PRODUCTS = ("gemm", "gated_kernel", "nvjet", "cutlass", "xmma", "gemv", "splitK")


def is_product(kernel: str) -> bool:
    return any(part in kernel for part in _PRODUCTS)


def products_ms(call: Callable[[], object], calls: int = 3) -> float:
    """Milliseconds of product kernels in one `call`, on the current stream."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    spent_us = sum(
        event.time_range.end - event.time_range.start
        for event in seen.events()
        if event.device_type == DeviceType.CUDA and is_product(event.name)
    )
    return float(spent_us / calls / 1e3)
