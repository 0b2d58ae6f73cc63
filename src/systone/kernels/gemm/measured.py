"""At which row counts our products were measured to be quicker than cuBLASLt's: facts, no rule.

By weight (outputs, inputs), on an H200, replays in turn in one run; `scripts/gpu run quicker`
measures them. Only buckets are listed, where ours took at least 3 % less and the products of whole
layers took no longer. Bits are equal either way.
"""

from __future__ import annotations

from collections.abc import Mapping

Rows = Mapping[tuple[int, int], frozenset[int]]

HOPPER_QUICKER: Rows = {
    # 9B: the two inputs of a layer, its output and down projections
    (12352, 4096): frozenset({64}),
    (10240, 4096): frozenset({64, 320, 832, 3968}),
    (4096, 4096): frozenset({128, 256, 448, 3584}),
    (4096, 12288): frozenset({128, 448, 3200, 3584}),
    # 4B
    (12352, 2560): frozenset({1600, 1664, 2432}),
    (10240, 2560): frozenset({320, 832, 1088, 1152, 3968}),
    (2560, 4096): frozenset({192, 320, 448, 704, 832}),
    (2560, 9216): frozenset({192, 320, 448, 704, 832}),
    # 27B
    (16480, 5120): frozenset({64, 1536}),
    (14336, 5120): frozenset({64, 448, 832}),
    (5120, 6144): frozenset({192, 320, 832}),
    (5120, 17408): frozenset({192, 320, 512, 832}),
}
# The same of the gated product against product and activation apart, where its rounds are uneven;
# outputs of a half.
HOPPER_GATED_QUICKER: Rows = {
    (12288, 4096): frozenset({448}),
    (9216, 2560): frozenset({320, 448, 576, 640, 832, 960, 1472, 1664, 1728}),
    (17408, 5120): frozenset({320, 832}),
}
