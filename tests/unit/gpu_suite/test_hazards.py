"""What is read off racecheck's output."""

from __future__ import annotations

from scripts.gpu_suite.hazards import Hazards, by_kernel, by_threads, spans

OUTPUT = """
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at scan_kernel+0x800 in scan.py:61
=========     and Read access at scan_kernel+0x2e30 in scan.py:135 [1152 hazards]
=========     and Read access at scan_kernel+0x2e80 in scan.py:135 [8 hazards]
=========
========= Error: Race reported between Read access at scan_kernel+0x110 in scan.py:223
=========     and Write access at scan_kernel+0x1490 in scan.py:223 [1 hazards]
=========
========= Warning: Race reported between Write access at void other(const float *, int)+0x90
=========     and Read access at void other(const float *, int)+0xa0 [4 hazards]
=========
gdn: 2 launches' outputs, 2940928 values
========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warnings)
"""


def test_reports_and_hazards_are_counted_by_kernel_and_place() -> None:
    found = by_kernel(OUTPUT.splitlines())
    assert found == {
        "scan_kernel": {
            "reports": 2,
            "hazards": 1161,
            "between": {
                "Write scan.py:61 - Read scan.py:135": 1160,
                "Read scan.py:223 - Write scan.py:223": 1,
            },
        },
        "other": {"reports": 1, "hazards": 4, "between": {"Write ? - Read ?": 4}},
    }


def test_a_clean_run_names_no_kernel() -> None:
    assert by_kernel(["========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)"]) == {}


HAZARDS = """
========= Error: Potential RAW hazard detected at __shared__ 0x2cca0 in block (46,0,0) :
=========     Write Thread (212,0,0) at scan_kernel+0x800 in scan.py:61
=========     Read Thread (0,0,0) at scan_kernel+0x2e30 in scan.py:135
=========     Current Value : 185
=========
========= Error: Potential RAW hazard detected at __shared__ 0x2cca1 in block (46,0,0) :
=========     Write Thread (213,0,0) at scan_kernel+0x800 in scan.py:61
=========     Read Thread (40,0,0) at scan_kernel+0x2e30 in scan.py:135
=========
========= Error: Potential WAR hazard detected at __shared__ 0x2cca1 in block (46,0,0) :
=========     Read Thread (9,0,0) at scan_kernel+0x2e30 in scan.py:135
=========     Write Thread (213,0,0) at scan_kernel+0x800 in scan.py:61
"""


def test_threads_of_single_hazards_are_told_apart_by_kind() -> None:
    found = by_threads(HAZARDS.splitlines())
    write, read = "Write scan.py:61", "Read scan.py:135"
    assert found == {
        ("scan_kernel", "RAW", write, read): Hazards(2, {212, 213}, {0, 40}),
        ("scan_kernel", "WAR", read, write): Hazards(1, {9}, {213}),
    }
    assert by_kernel(HAZARDS.splitlines()) == {}


def test_neighbouring_threads_are_joined() -> None:
    assert spans({64, 3, 1, 2, 65, 9}) == "1-3 9 64-65"
