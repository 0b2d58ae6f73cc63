"""Runs benches on the device machine; prints a table and writes JSON under $OUT.

python3 -m scripts.gpu_suite.main --commit HASH kernels [ops...]
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from pathlib import Path

import torch

from scripts.gpu_suite import bench_kernels
from scripts.gpu_suite.timing import machine

BENCHES = {
    "gdn": bench_kernels.gdn_rows,
    "parts": bench_kernels.gdn_parts,
    "attention": bench_kernels.attention_rows,
    "rows": bench_kernels.bandwidth_rows,
    "gemm": bench_kernels.gemm_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("ops", nargs="*", default=list(BENCHES))
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
    report = {"commit": args.commit, **machine(), "kernels": rows, "failed": failed}
    target = Path(os.environ.get("OUT", ".")) / "kernels.json"
    target.write_text(json.dumps(report, indent=1))
    print(json.dumps({k: v for k, v in report.items() if k != "kernels"}))
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
