"""Kernels run through Triton's interpreter here too."""

from tests.unit.kernels_triton.conftest import _quiet_nan_arithmetic, small_tiles

__all__ = ["_quiet_nan_arithmetic", "small_tiles"]
