"""How many tokens a batch should hold, from the measured times of passes. No torch.

More tokens in a pass cost a little less each, until they cost the same; from there on a larger pass
only makes its requests wait for each other. Tokens and seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["batch_tokens"]

LEAST = 2048  # smaller passes leave the matrix products' tiles partly empty at the ends
PLATEAU = 0.97  # of the best rate


def batch_tokens(curve: Mapping[int, float], most: int) -> int:
    """The smallest measured size from `LEAST` up to `most` whose tokens a second are on the
    plateau; `most` where nothing was measured there."""
    sizes = [size for size in sorted(curve) if min(LEAST, most) <= size <= most]
    if not sizes:
        return most
    best = max(size / curve[size] for size in sizes)
    return next(size for size in sizes if size / curve[size] >= PLATEAU * best)
