"""Compiles every kernel variant a model launches, for any GPU generation, without a GPU.

Launches are recorded instead of run: the operators are called on unwritten CPU tensors of the
model's shapes under a pretended capability, so that what is compiled is what serving launches.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.jit import JITFunction, create_function_from_signature

from systone.kernels.config import pretend


@dataclass(frozen=True, slots=True)
class Compiled:
    """One variant: shared memory and spilled registers in bytes, registers of a thread."""

    name: str
    variant: str
    shared_bytes: int
    registers: int
    spill_bytes: int


def compile_launches(
    capability: tuple[int, int], launch: Callable[[], None], seen: set[str] | None = None
) -> list[Compiled]:
    """Every distinct variant that `launch` starts, compiled to machine code. `seen`: variants to
    skip, extended by the new ones. Raises what the compiler raises."""
    target = GPUTarget("cuda", capability[0] * 10 + capability[1], 32)
    known = set() if seen is None else seen
    made = []
    with pretend(capability), _recorded(target) as calls:
        launch()
    for name, key, source, options in calls:
        if key not in known:
            known.add(key)
            kernel = triton.compile(source, target=target, options=options)
            registers, spilled = _resources(kernel.asm["ptx"], target)
            made.append(Compiled(name, key, kernel.metadata.shared, registers, spilled))
    return made


@contextmanager
def _recorded(target: GPUTarget) -> Iterator[list[tuple[str, str, ASTSource, dict[str, Any]]]]:
    backend = make_backend(target)
    calls: list[tuple[str, str, ASTSource, dict[str, Any]]] = []

    def record(self: JITFunction, *args: Any, **kwargs: Any) -> None:
        del kwargs["grid"], kwargs["warmup"]
        binder = create_function_from_signature(self.signature, self.params, backend)
        kwargs["debug"] = False
        bound, specialization, options = binder(*args, **kwargs)
        key = f"{self.__name__} {specialization} {options}"
        parsed, signature, constants, attributes = self._pack_args(
            backend, kwargs, bound, specialization, options
        )
        make = GluonASTSource if self.is_gluon() else ASTSource
        source = make(self, signature, constants, attributes)
        calls.append((self.__name__, key, source, parsed.__dict__))

    original = JITFunction.run
    JITFunction.run = record
    try:
        yield calls
    finally:
        JITFunction.run = original


def _resources(ptx: str, target: GPUTarget) -> tuple[int, int]:
    """(registers of a thread, spill bytes) as the assembler reports them."""
    arch = re.search(r"^\.target\s+(\w+)", ptx, re.MULTILINE).group(1)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [
            get_ptxas(target.arch).path,
            "-v",
            f"--gpu-name={arch}",
            file.name,
            "-o",
            "/dev/null",
        ]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    registers = re.search(r"Used (\d+) registers", report)
    spills = re.findall(r"(\d+) bytes spill", report)
    return int(registers.group(1)), sum(map(int, spills))
