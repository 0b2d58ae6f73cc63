"""What is read off racecheck's output."""

from __future__ import annotations

from scripts.gpu_suite.hazards import by_kernel

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
