"""Reads racecheck's output: reports and hazards by kernel and by place.

python3 -m scripts.gpu_suite.hazards FILE... prints a table of each file and {file: {kernel:
{reports, hazards, between}}} as JSON on the last line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ACCESS = re.compile(
    r"(Read|Write) access at (?:void )?(\w+).*?\+0x[0-9a-f]+(?: in (\S+))?(?:.*\[(\d+) hazards?\])?"
)


def by_kernel(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{kernel: {reports, hazards, between: {"Write a.py:61 - Read a.py:135": hazards}}}. A report
    is one access with every access it raced with."""
    found: dict[str, dict[str, Any]] = {}
    first = ""
    for line in lines:
        seen = ACCESS.search(line)
        if seen is None:
            continue
        kind, kernel, place, hazards = seen.groups()
        record = found.setdefault(kernel, {"reports": 0, "hazards": 0, "between": {}})
        here = f"{kind} {place or '?'}"
        if "Race reported between" in line:
            record["reports"] += 1
            first = here
        else:
            count = int(hazards or 0)
            record["hazards"] += count
            pair = f"{first} - {here}"
            record["between"][pair] = record["between"].get(pair, 0) + count
    return found


def main() -> None:
    found = {name: by_kernel(Path(name).read_text().splitlines()) for name in sys.argv[1:]}
    for name, kernels in found.items():
        print(f"{name}: {len(kernels)} kernels named")
        for kernel, record in sorted(kernels.items()):
            print(f"  {kernel:32} {record['reports']:4} reports {record['hazards']:7} hazards")
            for pair, count in record["between"].items():
                print(f"    {count:7} {pair}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
