"""Reads racecheck's output: reports and hazards by kernel and place, and by the threads named.

python3 -m scripts.gpu_suite.hazards FILE... (- is standard input) prints a table of each. Two kinds
of output are understood: the tool's analysis and, by `--racecheck-report hazard`, single hazards.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ACCESS = re.compile(
    r"(Read|Write) access at (?:void )?(\w+).*?\+0x[0-9a-f]+(?: in (\S+))?(?:.*\[(\d+) hazards?\])?"
)
KIND = re.compile(r"(RAW|WAR|WAW) hazard detected")
THREAD = re.compile(
    r"(Read|Write) Thread \((\d+),\d+,\d+\) at (?:void )?(\w+).*?\+0x[0-9a-f]+(?: in (\S+))?"
)


@dataclass(slots=True)
class Hazards:
    """Hazards of one kind between two places: how many, and the threads of either access."""

    count: int = 0
    first: set[int] = field(default_factory=set)
    second: set[int] = field(default_factory=set)


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


def by_threads(lines: Iterable[str]) -> dict[tuple[str, str, str, str], Hazards]:
    """{(kernel, RAW | WAR | WAW, first access, second access): hazards}, of single hazards."""
    found: dict[tuple[str, str, str, str], Hazards] = {}
    kind, before = "", None
    for line in lines:
        opened = KIND.search(line)
        if opened:
            kind, before = opened.group(1), None
            continue
        seen = THREAD.search(line)
        if seen is None or not kind:
            continue
        access, thread, kernel, place = seen.groups()
        here = (f"{access} {place or '?'}", int(thread))
        if before is None:
            before = here
            continue
        record = found.setdefault((kernel, kind, before[0], here[0]), Hazards())
        record.count += 1
        record.first.add(before[1])
        record.second.add(here[1])
        kind, before = "", None
    return found


def spans(numbers: Iterable[int]) -> str:
    """Sorted numbers with neighbours joined: "1-31 64"."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return " ".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def main() -> None:
    for name in sys.argv[1:]:
        lines = sys.stdin.readlines() if name == "-" else Path(name).read_text().splitlines()
        print(f"{name}:")
        for kernel, record in sorted(by_kernel(lines).items()):
            print(f"  {kernel:32} {record['reports']:4} reports {record['hazards']:7} hazards")
            for pair, count in record["between"].items():
                print(f"    {count:7} {pair}")
        for (kernel, kind, first, second), hazards in by_threads(lines).items():
            print(f"  {kernel:32} {hazards.count:7} {kind}")
            print(f"    {first} by threads {spans(hazards.first)}")
            print(f"    {second} by threads {spans(hazards.second)}")


if __name__ == "__main__":
    main()
