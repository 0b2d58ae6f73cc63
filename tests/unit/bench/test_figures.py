from typing import Any

import pytest

from systone.bench.figures import figures_of
from systone.bench.items import Item, group_of
from systone.bench.records import Record, from_lines, to_lines

ITEMS = (
    Item("short", "noul", 1, 1, longest=128, tokens=128, unique=128),
    Item("long", "choice", 2, 4, longest=129, tokens=516, unique=200),
)


def record(**fields: Any) -> Record:
    """A valid answer after 10 ms; `ms` and `at` are its latency and its start."""
    ms, at = fields.pop("ms", 10.0), fields.pop("at", 0.0)
    given: dict[str, Any] = {
        "target": "a",
        "level": "c1",
        "round": 0,
        "part": 0,
        "place": 0,
        "variant": 0,
        "item": "short",
        "begin_ns": round(at * 1e6),
        "wall_ns": round(ms * 1e6),
        "due_ns": None,
        "status": 200,
        "failure": None,
        "input_tokens": 100,
        "request": "r",
        "answers": "x",
        "expected": None,
        "server_ms": None,
        "sent_bytes": 10,
        "received_bytes": 20,
    }
    return Record(**{**given, **fields})


def level_of(records: list[Record], samples: list[Any] | None = None) -> dict[str, Any]:
    (level,) = figures_of(records, ITEMS, samples or [], seed=0)["levels"]
    found: dict[str, Any] = level
    return found


def test_rounds_are_pooled_and_throughput_counts_the_time_of_each() -> None:
    level = level_of(
        [
            record(ms=10, at=0),
            record(ms=30, at=10, item="long"),
            record(
                ms=20, at=500, round=1
            ),  # its own clock: a round's time starts at its first send
            record(ms=40, at=520, round=1, item="long"),
        ]
    )
    assert (level["requests"], level["failures"]) == (4, 0)
    assert level["mean_ms"] == 25.0
    assert level["p50_ms"] == 20.0
    assert level["p95_ms"] == level["p99_ms"] == level["max_ms"] == 40.0
    assert level["span_s"] == 0.1  # 40 ms and 60 ms
    assert level["requests_per_s"] == 40.0
    assert level["rounds_requests_per_s"] == [50.0, pytest.approx(33.333333)]
    assert level["decisions_per_s"] == 60.0
    assert level["rows_per_s"] == 100.0
    assert level["input_tokens_per_s"] == 4000.0


def test_warm_ups_are_in_no_figure_but_their_failures_are_listed() -> None:
    failed = record(round=-1, ms=999, failure="status 500: x", status=500, answers=None)
    figures = figures_of([failed, record()], ITEMS, [], seed=0)
    assert figures["levels"][0]["requests"] == 1
    assert figures["levels"][0]["max_ms"] == 10.0
    assert [f["failure"] for f in figures["failures"]] == ["status 500: x"]


def test_failures_are_counted_listed_and_add_nothing_to_throughput() -> None:
    failed = record(ms=90, at=10, failure="no reply in time", status=None, answers=None, place=1)
    figures = figures_of([record(ms=10), failed], ITEMS, [], seed=0)
    level = figures["levels"][0]
    assert (level["requests"], level["failures"]) == (2, 1)
    assert level["max_ms"] == 10.0
    assert level["requests_per_s"] == 10.0  # one answer in the 100 ms both took
    assert level["groups"][0]["failures"] == 1
    assert figures["failures"][0]["item"] == "short"


def test_a_level_where_all_failed_has_no_latency() -> None:
    level = level_of([record(failure="x", answers=None, input_tokens=None)])
    assert level["mean_ms"] is level["p95_ms"] is None
    assert level["requests_per_s"] == 0.0


def test_groups_split_by_kind_and_longest_candidate() -> None:
    groups = level_of([record(), record(item="long", ms=30), record(ms=20)])["groups"]
    assert [(g["kind"], g["group"], g["requests"], g["mean_ms"]) for g in groups] == [
        ("choice", "129-512", 1, 30.0),
        ("noul", "1-128", 2, 15.0),
    ]


@pytest.mark.parametrize(
    ("longest", "group"),
    [
        (1, "1-128"),
        (128, "1-128"),
        (129, "129-512"),
        (512, "129-512"),
        (2048, "513-2048"),
        (4096, "2049-4096"),
        (4097, "4097+"),
        (None, "unknown"),
    ],
)
def test_a_length_falls_into_one_group(longest: int | None, group: str) -> None:
    assert group_of(longest) == group


def test_overhead_is_what_the_device_did_not_take() -> None:
    level = level_of(
        [
            record(ms=10, server_ms={"device": 9.4, "queue": 0.1}),
            record(ms=20, server_ms={"device": 19.0}),
            record(ms=30),  # a server that doesn't tell
        ]
    )
    assert level["device_mean_ms"] == 14.2
    assert level["overhead_p50_ms"] == 0.6
    assert level["overhead_mean_ms"] == 0.8


def test_open_loop_counts_from_the_time_a_request_was_due() -> None:
    level = level_of(
        [
            record(level="r5", due_ns=0, at=1, ms=50),
            record(level="r5", due_ns=100_000_000, at=130, ms=100),
        ]
    )
    assert level["span_s"] == 0.2
    assert level["max_late_ms"] == 30.0


def sample(device_s: float | None, peak: int | None = None, **fields: Any) -> dict[str, Any]:
    def at(value: float | None) -> dict[str, Any]:
        return {
            "device_s": value,
            "device_active_s": None if value is None else value * 0.75,
            "device_peak_bytes": peak,
            "device_used_bytes": None,
            "rss_bytes": 2**21,
        }

    after = None if device_s is None else 5.0 + device_s
    before = at(None if device_s is None else 5.0)
    return {
        "target": "a",
        "level": "c1",
        "round": 0,
        "before": before,
        "after": at(after),
        **fields,
    }


def test_device_share_and_memory_come_from_the_samples_of_the_rounds() -> None:
    level = level_of(
        [record(ms=100)],
        [
            sample(9.0, peak=7 * 2**20, round=-1),  # the warm-up's device time doesn't count
            sample(0.08, peak=9 * 2**20),
            sample(1.0, target="b"),
        ],
    )
    assert level["device_busy_share"] == 0.8
    assert level["device_idle_share"] == 0.4
    assert level["peak_device_mib"] == 9.0
    assert level["server_rss_mib"] == 2.0
    assert level["device_used_mib"] is None
    assert level_of([record()], [sample(0.1), sample(None)])["device_busy_share"] is None


def test_growth_is_from_the_first_round_to_the_last() -> None:
    rounds = [sample(0.0, round=number) for number in range(3)]
    for number, mib in enumerate((100, 160, 101)):
        rounds[number]["after"] = {**rounds[number]["after"], "rss_bytes": mib * 2**20}
    level = level_of([record()], [sample(0.0, round=-1), *rounds])
    assert level["server_growth_mib"] == 1.0
    assert level["device_growth_mib"] is None


def test_equal_requests_must_have_equal_answers() -> None:
    records = [
        record(),
        record(round=1, answers="y"),
        record(request="s", expected="x"),
        record(request="t", expected="z"),
        record(request="s", expected="x"),
    ]
    assert figures_of(records, ITEMS, [], seed=0)["answers"] == {
        "texts": 3,
        "repeats": 2,
        "texts_with_differing_answers": 1,
        "compared": 3,
        "compared_and_different": 1,
    }


def test_pairs_of_blocks_give_a_ratio_and_leave_failed_blocks_out() -> None:
    records = []
    for part in range(6):
        records += [record(part=part, ms=10), record(part=part, ms=12, target="b")]
    records += [record(part=6), record(part=6, target="b", ms=500, failure="x", answers=None)]
    (pair,) = figures_of(records, ITEMS, [], seed=0)["pairs"]
    assert (pair["blocks"], pair["blocks_with_failures"]) == (7, 1)
    assert pair["latency_b_over_a"] == {"ratio": 1.2, "low": 1.2, "high": 1.2}
    assert pair["time_b_over_a"]["ratio"] == 1.2


def test_records_survive_their_file_and_nothing_else_is_one() -> None:
    records = [record(), record(server_ms={"device": 1.5}, failure="ü", due_ns=3)]
    data = to_lines(records)
    assert from_lines(data) == records
    assert to_lines(records) == data
    for broken in (data[:-9], b"", b"not gzip", to_lines(records)[:40]):
        with pytest.raises(ValueError, match=r"not|line"):
            from_lines(broken)


def test_steps_are_medians_of_what_the_server_tells() -> None:
    told = [{"parse": 1.0, "total": 6.0}, {"parse": 3.0, "total": 7.0}, {"total": 9.0}]
    level = level_of([record(ms=10, server_ms=one) for one in told] + [record(ms=1)])
    assert level["steps_p50_ms"] == {"outside": 3.0, "parse": 1.0, "total": 7.0}
