"""For every test: without a GPU, Triton's kernels run in its interpreter.

Triton reads the variable when a kernel is defined: it must be set before anything imports one."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
