"""Reading instructions and options."""

import pytest

from systone.models.mini.phrases import asks_degree, option_text, proposition


@pytest.mark.parametrize(
    ("question", "sentence", "key"),
    [
        ("Is the tap open?", "The tap is open.", "open"),
        ("Does the mail ask for money?", "The mail asks for money.", "asks for money"),
        ("Was anybody hurt?", "Somebody was hurt.", "hurt"),
        ("The goods arrived damaged.", "The goods arrived damaged.", "The goods arrived damaged"),
    ],
)
def test_a_question_becomes_a_statement_and_its_predicate(question, sentence, key):
    found = proposition(question)
    assert (found.sentence, found.key) == (sentence, key)


def test_text_that_is_no_yes_no_question_stands_for_itself():
    found = proposition("What colour is it?")
    assert found.sentence == "What colour is it?"
    assert found.key == "What colour is it"


def test_an_option_without_description_is_its_name():
    assert option_text("a_b", None) == "a_b"
    assert option_text("a_b", " ") == "a_b"
    assert option_text("a_b", "c") == "a_b: c"


@pytest.mark.parametrize("text", ["How serious is this?", "Rate the pain", "how likely is rain?"])
def test_questions_of_degree_are_recognised(text):
    assert asks_degree(text)


@pytest.mark.parametrize(
    "text", ["Which team?", "How many are there?", "How did it end?", "Is it rated?", "However"]
)
def test_other_questions_are_not(text):
    assert not asks_degree(text)
