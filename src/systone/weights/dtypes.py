"""safetensors' dtype names against torch's. Nothing else."""

from __future__ import annotations

import torch

__all__ = ["NAMES", "SIZES", "TORCH"]

TORCH = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in TORCH.items()}
SIZES = {name: dtype.itemsize for name, dtype in TORCH.items()}  # bytes per element
