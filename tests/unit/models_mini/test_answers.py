"""What the model answers: public fault cases that concern meaning, order, names and blanks."""

from itertools import permutations

import pytest

from systone.protocol.types import Choice, Noul, Request, Score

SHORT = "Small"
LONG = (
    "A failure that floods several rooms, damages the floor below and needs the main valve closed "
    "at once by the on-call plumber"
)
DRIP = "The tap in room 3 drips about once a minute."


def test_a_long_option_does_not_win_by_its_length(ask):
    question = "How serious is this?"
    assert ask(DRIP, Choice(question, {"minor": SHORT, "major": LONG})).choice == "minor"
    assert ask(DRIP, Choice(question, {"minor": LONG, "major": SHORT})).choice == "major"
    padded = f"{SHORT}, that is to say, in other words and put as plainly as may be"
    assert ask(DRIP, Choice(question, {"minor": padded, "major": LONG})).choice == "minor"


def test_option_order_never_changes_a_probability(ask):
    state = "Invoice total 940 EUR, purchase order total 94 EUR, supplier unchanged."
    criteria = {
        "low": "Numbers agree",
        "medium": "Small difference",
        "high": "Large or odd difference",
    }
    expected = ask(state, Choice("How risky is paying this invoice?", criteria)).probabilities
    for order in permutations(criteria):
        answer = ask(
            state, Choice("How risky is paying this invoice?", {n: criteria[n] for n in order})
        )
        assert answer.probabilities == expected
        assert list(answer.probabilities) == list(order)


def test_question_ids_are_invisible(run):
    noul = Noul("Is the 07:40 ferry running?")
    state = "The 07:40 ferry is cancelled because of fog."
    answers = [
        run(Request(state, {id: noul}))[0].answers[id]
        for id in ("definitely_yes", "definitely_no", "i" * 300, "😀")
    ]
    assert answers.count(answers[0]) == len(answers)


def test_options_are_read_by_name_or_description(ask):
    state = "The kiln reached 1240 degrees at three in the morning."
    assert ask(state, Choice("What is it?", {"kiln": None, "oven": None})).choice == "kiln"
    described = {"a": "a device for firing pottery", "b": "a ship on the sea"}
    assert ask(state, Choice("What is it?", described)).choice == "a"
    mixed = ask(state, Choice("What is it?", {"kiln": None, "boat": "a ship on the sea"}))
    assert mixed.choice == "kiln"


def test_numeric_looking_labels_are_text(ask):
    levels = ["50", "40", "30", "20", "10"]
    answer = ask("The soup was warm, the bread was stale.", Score("Rate the meal", levels))
    assert list(answer.legend) == levels
    expected = sum(i * p for i, p in enumerate(answer.probabilities))
    assert answer.score == pytest.approx(expected, abs=1e-12)
    assert 0 <= answer.score <= 4


def test_the_named_intent_is_found_among_255(ask):
    criteria = {f"intent_{i:03d}": f"Unrelated topic number {i}" for i in range(255)}
    criteria["intent_200"] = "Change of address for a card"
    state = "I moved house and the card still goes to the old address."
    answer = ask(state, Choice("Which intent fits?", criteria))
    assert answer.choice == "intent_200"
    assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-12)
    assert len(answer.probabilities) == 255


@pytest.mark.parametrize("state", ["", "  ", {}, [], "{}", "?!"])
def test_a_state_without_content_is_answered_evenly(ask, state):
    choice = ask(state, Choice("", {"yes": "", "no": None, "": None}))
    assert set(choice.probabilities.values()) == {1 / 3}
    assert choice.confidence == 0
    assert ask(state, Noul("Does the text mention a price?")).noul == 0.5
    assert ask(state, Score(None, ["a", "b", "c"])).score == pytest.approx(1)


def test_an_unrelated_state_is_answered_nearly_evenly(ask):
    """A model that can't tell must not pretend to know."""
    desks = {
        "billing": "Charges, refunds, invoices",
        "shipping": "Late or lost parcels",
        "account": "Passwords and logins",
        "sales": "Questions before buying",
    }
    tops = []
    for state in (
        "Photosynthesis turns light into sugar.",
        "The violin was made in Cremona.",
        "Owls hunt at night.",
        "xq zzv kkp",
    ):
        tops.append(max(ask(state, Choice("Which desk?", desks)).probabilities.values()))
        assert abs(ask(state, Noul("Is the customer's parcel late?")).noul - 0.5) < 0.1
    assert max(tops) < 0.45
    known = ask("My parcel never arrived.", Choice("Which desk?", desks))
    assert known.choice == "shipping"
    assert max(known.probabilities.values()) > 0.5


def test_every_form_of_noul_is_answered(ask):
    state = "The kiln reached 1240 C at 03:10."
    for noul in (
        Noul("Above 1000 C?"),
        Noul("Was it at night?", None),
        Noul("Was a kiln used?", {"true": "a kiln is mentioned"}),
        Noul(None, {"false": "no kiln at all"}),
        Noul(None, {"true": "a kiln is used", "false": "a ship is sailing"}),
        Noul("?", {"true": None, "false": None}),
        Noul("", {"true": ""}),
    ):
        assert 0 < ask(state, noul).noul < 1
    both = Noul(None, {"true": "a kiln is used", "false": "a ship is sailing"})
    assert ask(state, both).noul > 0.5
    swapped = Noul(None, {"true": "a ship is sailing", "false": "a kiln is used"})
    assert ask(state, swapped).noul == pytest.approx(1 - ask(state, both).noul, abs=1e-12)


def test_states_are_ranked_by_what_they_show(ask):
    noul = Noul("Is the guest furious?")
    calm, furious = (
        ask(state, noul).noul
        for state in (
            "Could I have a second pillow, please? Thank you.",
            "Could I have a second pillow? It's outrageous how you treat your guests!",
        )
    )
    assert furious > calm


def test_a_split_crowd_keeps_two_peaks_and_low_confidence(ask):
    answer = ask(
        "Half of the crew calls the drill a triumph, half calls it a disaster; nobody is neutral.",
        Score(
            "How did the crew rate the drill?", ["disaster", "poor", "neutral", "good", "triumph"]
        ),
    )
    p = answer.probabilities
    assert p[0] > p[1]
    assert p[4] > p[3]
    assert answer.confidence < 0.3


def test_structured_texts_are_read_in_the_callers_order(run):
    state = {"z": 1, "a": [True, None, 1.0], "text": "line\nbreak"}
    (same, other) = (
        run(Request(s, {"q": Choice(None, {"a": {"owns": ["x"]}, "b": ["y", 2]})}))[0]
        for s in (state, '{"z": 1, "a": [true, null, 1.0], "text": "line\\nbreak"}')
    )
    assert same == other


def test_control_tokens_in_user_text_change_little(ask):
    question = Choice("State of the parcel?", {"ok</opt>": "fine", "[SEP]": "damaged"})
    answers = [
        ask(f"Parcel is damaged.{tail}", question) for tail in ("[SEP] [CLS]", " [ SEP ] [ CLS ]")
    ]
    assert answers[0] == answers[1]
    assert answers[0].choice == "[SEP]"
    assert list(answers[0].probabilities) == ["ok</opt>", "[SEP]"]
