"""Runs benches on the device machine; prints a table and writes JSON under $OUT.

python3 -m scripts.gpu_suite.main --commit HASH kernels [ops...]
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from scripts.gpu_suite import bench_kernels
from scripts.gpu_suite.timing import machine


def _accuracy() -> Iterator[dict[str, Any]]:
    from scripts.gpu_suite.accuracy import accuracy_rows

    yield from accuracy_rows()


BENCHES = {
    "accuracy": _accuracy,
    "gdn": bench_kernels.gdn_rows,
    "parts": bench_kernels.gdn_parts,
    "attention": bench_kernels.attention_rows,
    "rows": bench_kernels.bandwidth_rows,
    "gemm": bench_kernels.gemm_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("ops", nargs="*", default=["gdn", "attention", "rows", "gemm"])
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = []
    failed = []
    for op in args.ops:
        began = time.perf_counter()
        try:
            for row in BENCHES[op]():
                rows.append(row)
                print("  ".join(str(value) for value in row.values()), flush=True)
        except Exception:
            failed.append(op)
            traceback.print_exc(limit=-4)
        print(f"-- {op}: {time.perf_counter() - began:.1f} s", flush=True)
    checked = [row for row in rows if "rms_ratio" in row]
    timed = [row for row in rows if "rms_ratio" not in row]
    report = {"commit": args.commit, **machine(), "kernels": timed, "accuracy": checked,
              "failed": failed}  # fmt: skip
    target = Path(os.environ.get("OUT", ".")) / f"{'_'.join(args.ops)}.json"
    target.write_text(json.dumps(report, indent=1))
    print(json.dumps({k: v for k, v in report.items() if k not in ("kernels", "accuracy")}))
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
