"""How a reference operator hands over its result: a fresh tensor, or the caller's own buffer."""

from __future__ import annotations

from torch import Tensor


def place(value: Tensor, out: Tensor | None) -> Tensor:
    """`value`, or `out` after copying `value` into it. Shapes and dtypes must be equal: a buffer
    that would broadcast or round once more is a fault of ours."""
    if out is None:
        return value
    assert out.shape == value.shape, f"out is {tuple(out.shape)}, result {tuple(value.shape)}"
    assert out.dtype == value.dtype, f"out is {out.dtype}, result {value.dtype}"
    return out.copy_(value)
