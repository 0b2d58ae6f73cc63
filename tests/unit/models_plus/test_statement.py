"""Questions become the statements they ask about; what no rule fits is quoted, never mangled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.models.statement import declare
from systone.models.statement_words import third_person

INVERTED = [
    ("Is the customer upset?", "The customer is upset."),
    ("is the customer very angry or hostile", "The customer is very angry or hostile."),
    ("Isn't the customer upset?", "The customer is upset."),
    ("Doesn’t the user mention a refund?", "The user mentions a refund."),
    ("Does the driver ask for directions?", "The driver asks for directions."),
    ("Does the driver explicitly ask to stop?", "The driver explicitly asks to stop."),
    ("Does the note try to reassure the reader?", "The note tries to reassure the reader."),
    ("Does the account have any open loans?", "The account has some open loans."),
    ("Does the mail name or tag a person?", "The mail names or tags a person."),
    ("Does it ask to open or close a door?", "It asks to open or close a door."),
    ("Does the price differ from the offer?", "The price differs from the offer."),
    ("Does the carrier's tracking say it is lost?", "The carrier's tracking says it is lost."),
    ("Does the bank change request mention Ann?", "The bank change request mentions Ann."),
    ("Does this mention a refund?", "This mentions a refund."),
    ("Does this request mention a refund?", "This request mentions a refund."),
    ("Does the committee glorp the proposal?", "The committee glorps the proposal."),
    ("Do customers like the product?", "Customers like the product."),
    ("Did the agent stop and ask for help?", "The agent did stop and ask for help."),
    ("Did the run cost more than $100?", "The run did cost more than $100."),
    ("Can the change be undone?", "The change can be undone."),
    ("Must the goods be kept cold?", "The goods must be kept cold."),
    ("Should we call a doctor?", "We should call a doctor."),
    ("Will it rain tomorrow?", "It will rain tomorrow."),
    ("Has the post already been hidden?", "The post has already been hidden."),
    ("Have the duties been paid?", "The duties have been paid."),
    ("Has anyone been injured?", "Someone has been injured."),
    ("Is there any mention of a refund?", "There is some mention of a refund."),
    ("Are there signs of fraud?", "There are signs of fraud."),
    ("Is this urgent?", "This is urgent."),
    ("Is this about billing?", "This is about billing."),
    ("Is this the first invoice?", "This is the first invoice."),
    ("Is this letter a complaint?", "This letter is a complaint."),
    ("Is John the owner?", "John is the owner."),
    ("Is $500,000 or more at stake?", "$500,000 or more is at stake."),
    ("Is the deadline 2 days away or less?", "The deadline is 2 days away or less."),
    ("Is the tone of the message hostile?", "The tone of the message is hostile."),
    ("Is the request for a refund urgent?", "The request for a refund is urgent."),
    ("Is the data on the device backed up?", "The data on the device is backed up."),
    ("Is the customer on the enterprise plan?", "The customer is on the enterprise plan."),
    ("Is the meeting cancelled?", "The meeting is cancelled."),
    ("Is the pending order late?", "The pending order is late."),
    ("Was the order delivered within 30 days?", "The order was delivered within 30 days."),
    ("Were the two flagged bills paid?", "The two flagged bills were paid."),
    ("According to the text, is the door locked?", "The door is locked."),
    ("Is the door locked, according to the text?", "The door is locked."),
    ("In this email, does the sender ask for money?", "In this email, the sender asks for money."),
    ("It is about Ann. Is the dog lost? Answer yes or no.", "The dog is lost."),
    ("Does `mail` ask for a replacement?", "`mail` asks for a replacement."),
    ("  Is\nthe  parcel\tlost ?", "The parcel is lost."),
]


@pytest.mark.parametrize(("question", "statement"), INVERTED)
def test_auxiliary_moves_behind_the_subject(question: str, statement: str) -> None:
    declared = declare(question)
    assert declared.text == statement
    assert declared.rule == "inverted"


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("The goods arrived damaged.", "The goods arrived damaged."),
        ("Is it true that the driver was speeding?", "The driver was speeding."),
        ("Do you think the user is a bot?", "The user is a bot."),
        ("Decide whether the customer wants a refund.", "The customer wants a refund."),
        ("Answer yes if the ticket is about billing.", "The ticket is about billing."),
        ("Whether the applicant is eligible", "The applicant is eligible."),
        ("Sarcasm", "Sarcasm."),
    ],
)
def test_statements_and_orders_keep_their_clause(question: str, statement: str) -> None:
    declared = declare(question)
    assert (declared.text, declared.rule) == (statement, "declarative")


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote this?",
        "Does it?",
        "Is paperwork that customs needs missing?",
        "Is someone other than the owner asking?",
        "Is the person who signed the form an adult?",
    ],
)
def test_what_no_rule_fits_is_quoted_whole(question: str) -> None:
    declared = declare(question)
    assert declared.rule == "quoted"
    assert declared.text == f'The answer to "{question}" is yes.'
    assert declared.negation == f'The answer to "{question}" is no.'


@pytest.mark.parametrize(
    ("question", "negation"),
    [
        ("Is the customer upset?", "The customer is not upset."),
        ("Does the driver ask for directions?", "The driver does not ask for directions."),
        ("Do customers like it here?", "Customers do not like it here."),
        ("Can this be refunded?", "This cannot be refunded."),
        ("Does the customer not want a call?", "The customer wants a call."),
        ("Were all passengers rescued?", "It is not true that all passengers were rescued."),
        ("The goods arrived damaged.", "It is not true that the goods arrived damaged."),
        ("Ann paid.", "It is not true that Ann paid."),
    ],
)
def test_negation_denies_the_statement(question: str, negation: str) -> None:
    assert declare(question).negation == negation


def test_a_negative_question_is_answered_by_its_negative_statement() -> None:
    assert declare("Does the customer not want a call?").text == (
        "The customer does not want a call."
    )


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_text_is_refused(blank: str) -> None:
    with pytest.raises(ValueError, match="without text"):
        declare(blank)


@pytest.mark.parametrize(
    ("verb", "third"),
    [
        ("ask", "asks"),
        ("try", "tries"),
        ("say", "says"),
        ("pass", "passes"),
        ("reach", "reaches"),
        ("push", "pushes"),
        ("fix", "fixes"),
        ("go", "goes"),
        ("have", "has"),
        ("be", "is"),
    ],
)
def test_verbs_inflect(verb: str, third: str) -> None:
    assert third_person(verb) == third


_WORDS = st.sampled_from(
    [
        *("Is", "Does", "Has", "the", "a", "customer", "request", "email", "ask", "angry", "been"),
        *("of", "for", "to", "not", "that", "this", "any", "more", "than", "3", "who", "and", "or"),
        *(",", "?", ".", "'"),
    ]
)


@given(st.one_of(st.text(min_size=1), st.lists(_WORDS, min_size=1, max_size=12).map(" ".join)))
def test_any_text_gives_two_different_full_sentences(question: str) -> None:
    if not question.strip():
        return
    declared = declare(question)
    assert declared.text.endswith(".")
    assert declared.negation.endswith(".")
    assert declared.text != declared.negation
    assert declared == declare(question)
