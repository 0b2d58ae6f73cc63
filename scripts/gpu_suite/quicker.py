"""Where our products take less than cuBLASLt's, bucket by bucket: what `gemm/measured.py` lists.

python3 -m scripts.gpu_suite.quicker prints every point and, last, the tables; quicker.json under
$OUT has the milliseconds. Half a minute on an H200.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from scripts.gpu_suite.products import GATED, SHAPES, measure
from scripts.gpu_suite.sweep_tiles import label
from systone.execute.buckets import token_buckets
from systone.kernels.gemm import tiles

MARGIN = 1.03  # cuBLASLt's time over ours from which a point counts; runs scatter by 1 to 2 %
MOST = 4096


def points() -> Iterator[dict[str, Any]]:
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for layout, shapes in SHAPES.items():
        for rows in token_buckets(MOST):
            for name, (outputs, inputs) in shapes.items():
                fused = name == GATED
                half = tiles.quickest(tiles.HOPPER_GATED, rows, outputs // 2, processors)
                row = measure((rows, outputs, inputs, fused), [half] if fused else [], processors)
                ours = row["ms"][label(half) if fused else "table"]
                by_rule = fused and None is not tiles.quickest_gated(
                    tiles.HOPPER_GATED, tiles.HOPPER_RATES, rows, outputs // 2, processors
                )
                yield {"layout": layout, "name": name, **row, "by_rule": by_rule,
                       "gain": row["ms"]["exact"] / ours}  # fmt: skip


def main() -> None:
    found, quicker, gated = [], {}, {}
    for row in points():
        found.append(row)
        times = " ".join(f"{k} {1e3 * ms:.1f}" for k, ms in row["ms"].items())
        print(f"{row['layout']} {row['name']} {row['m']}: {times} us, gain {row['gain']:.3f}"
              + (f" WRONG BITS {row['wrong']}" if row["wrong"] else ""), flush=True)  # fmt: skip
        if row["gain"] >= MARGIN and not row["by_rule"]:
            fused = row["op"] == "gated"
            shape = (row["n"] // 2 if fused else row["n"], row["k"])
            (gated if fused else quicker).setdefault(shape, []).append(row["m"])
    for name, table in (("quicker", quicker), ("gated quicker", gated)):
        print(name, *(f"{shape}: {rows}" for shape, rows in table.items()), sep="\n  ")
    Path(os.environ.get("OUT", "."), "quicker.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
