"""transformers' text model in FP32 over weights that stay bf16: the oracle at any depth.

Activations, norms, convolutions and gates are FP32. A product splits its FP32 rows into three bf16
parts that sum to them exactly and adds three products with FP32 sums: what FP32 hardware would
give, within FP32's own rounding, at tensor core speed. Knows no rows and no comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def in_fp32(model: Any) -> Iterator[None]:
    """Inside the block `model` computes in FP32. Its parameters must be bf16 and are again after
    it, bit for bit."""
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding)]
    narrow = [m for m in model.modules() if not isinstance(m, nn.Linear | nn.Embedding)]
    hooks = [m.register_forward_hook(lambda _m, _x, out: out.float()) for m in tables]
    for module in linear:
        assert module.bias is None
        module.forward = partial(wide_linear, module.weight)
    _cast(narrow, torch.float32)
    try:
        yield
    finally:
        _cast(narrow, torch.bfloat16)
        for module in linear:
            del module.forward
        for hook in hooks:
            hook.remove()


def wide_linear(weight: Tensor, x: Tensor) -> Tensor:
    """x FP32 [..., K] times the transpose of weight bf16 [N, K] -> FP32 [..., N]."""
    assert x.dtype == torch.float32
    rest, total = x.reshape(-1, x.shape[-1]), None
    for _ in range(3):
        part = rest.bfloat16()
        rest = rest - part.float()
        product = _product(part, weight)
        total = product if total is None else total + product
    assert total is not None
    return total.unflatten(0, x.shape[:-1])


def product_error(weight: Tensor) -> float:
    """Largest difference of `wide_linear` from FP64 over the size of a row, on Gaussian rows."""
    generator = torch.Generator(weight.device).manual_seed(0)
    x = torch.randn(64, weight.shape[1], generator=generator, device=weight.device)
    wanted = x.double() @ weight.double().t()
    off = (wide_linear(weight, x) - wanted).norm(dim=1) / wanted.norm(dim=1)
    return float(off.max())


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """bf16 operands, FP32 sums and result."""
    if x.device.type == "cpu":
        return x.float() @ weight.float().t()
    return torch.mm(x, weight.t(), out_dtype=torch.float32)


def _cast(modules: list[nn.Module], dtype: torch.dtype) -> None:
    with torch.inference_mode(False):
        for module in modules:
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(dtype)
