"""Date facts: which dates count, what is said of them, and where a state carries it."""

import pytest

from systone.models.kev.dates import date_facts, with_date_facts
from systone.models.kev.prompt import read_request
from systone.protocol.types import Noul, Request


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("from 2024-02-28 to 2024-03-01", "2024-03-01 is 2 days after 2024-02-28."),
        ("from 2023-02-28 to 2023-03-01", "2023-03-01 is 1 day after 2023-02-28."),
        ("due May 3, 2024, sent 2024-05-04", "2024-05-04 is 1 day after May 3, 2024."),
        ("2024-05-04, not 2024-05-03", "2024-05-03 is 1 day before 2024-05-04."),
        ("2024-12-25 is December 25, 2024", "December 25, 2024 is the same day as 2024-12-25."),
        ("2024-01-01 and 2024-01-01", None),
        ("2024-01-01 and 2024-02-30", None),
        ("2024-01-01 and 0000-01-01", None),
        ("2024-01-01 and June 31, 2024", None),
        ("2024-01-01 and may 3, 2024 and May 3 2024", None),
        ("12024-01-01, 2024-01-011, a2024-01-01 and 2024-01-02", None),
        ("", None),
    ],
)
def test_facts_of_a_text(text: str, facts: str | None) -> None:
    assert date_facts(text) == facts


def test_every_pair_in_order_of_first_appearance() -> None:
    text = "2024-01-03 2024-01-01 2024-01-03 2024-02-31 2024-01-02"
    assert date_facts(text) == (
        "2024-01-01 is 2 days before 2024-01-03. "
        "2024-01-02 is 1 day before 2024-01-03. "
        "2024-01-02 is 1 day after 2024-01-01."
    )


FACTS = "2024-01-02 is 1 day after 2024-01-01."


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("2024-01-01\n2024-01-02", f"2024-01-01\n2024-01-02\n\ndate_facts: {FACTS}"),
        (
            {"a": "2024-01-01", "b": ["2024-01-02"]},
            f"a: 2024-01-01\nb:\n  - 2024-01-02\ndate_facts: {FACTS}",
        ),
        (["2024-01-01", "2024-01-02"], f"- 2024-01-01\n- 2024-01-02\n- date_facts: {FACTS}"),
        ({"2024-01-01": 1, "2024-01-02": 2}, f"2024-01-01: 1\n2024-01-02: 2\ndate_facts: {FACTS}"),
        ({"a": "2024-01-01"}, "a: 2024-01-01"),
        (None, ""),
        (2024, "2024"),
    ],
)
def test_a_state_carries_its_facts_only_where_the_switch_is_on(state, shown: str) -> None:
    request = Request(state, {"q": Noul("?")})
    assert read_request(request, date_facts=True).state == shown
    assert "date_facts" not in read_request(request).state


def test_a_state_that_has_the_key_keeps_one() -> None:
    state = {"date_facts": "old", "a": "2024-01-01 2024-01-02"}
    assert with_date_facts(state, "2024-01-01 2024-01-02") == {**state, "date_facts": FACTS}


def test_the_setting_reaches_prompts_usage_and_limits(adapter_with) -> None:
    request = Request("2024-01-01 2024-01-02", {"q": Noul("?")})
    plain, told = (adapter_with(date_facts=on).prepare(request) for on in (False, True))
    assert told.input_tokens > plain.input_tokens + 10
    assert told.work.node_len[0] == told.input_tokens - plain.work.node_len[1]
