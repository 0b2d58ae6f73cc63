"""Turns a yes/no question into the statement whose truth it asks.

Owns the rewriting by rules and its plain fallback; pure text, knows no model and no tokenizer.
"Does the customer ask for a refund?" -> "The customer asks for a refund."
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from systone.models.statement_subject import Auxiliary, predicate_start
from systone.models.statement_words import (
    DETERMINERS,
    NOUN_VERBS,
    PRONOUNS,
    VERBS,
    is_adverb,
    third_person,
)

__all__ = ["Statement", "declare"]

Rule = Literal["inverted", "declarative", "quoted"]


@dataclass(frozen=True, slots=True)
class Statement:
    """`text` holds exactly when the answer is yes, `negation` when it is no.

    `rule`: "inverted" (auxiliary moved behind the subject), "declarative" (the text was a statement
    already), "quoted" (no rule fits: a sentence that says the quoted question's answer is yes)."""

    text: str
    negation: str
    rule: Rule


_AUXILIARIES: dict[str, Auxiliary] = {
    **dict.fromkeys(("is", "are", "am", "was", "were"), "be"),
    **dict.fromkeys(("does", "do", "did", "can", "could", "will", "would"), "do"),
    **dict.fromkeys(("shall", "should", "must", "may", "might"), "do"),
    **dict.fromkeys(("has", "have", "had"), "have"),
}
_CONTRACTED = {"can't": "can", "won't": "will", "shan't": "shall"}
_QUESTION_WORDS = frozenset(
    ("who", "whom", "whose", "what", "which", "when", "where", "why", "how")
)
_SOME = {"any": "some", "anyone": "someone", "anybody": "somebody", "anything": "something"}

# Subjects that "not" after the auxiliary doesn't negate: "all orders are not late".
_QUANTIFIED = frozenset((*_SOME, "some", "someone", "all", "both", "every", "everyone", "each"))

_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"(?<=[.?!:])\s+(?=[\"'(A-Z0-9])")
_LEAD_IN = re.compile(
    r"^(?:(?:according to|based on|judging (?:by|from)|going by|from|given|considering)"
    r" [^,?]{1,60}, |(?:question|q|yes or no|true or false|yes/no) ?: *"
    r"|(?:so|and|now|then|please), )",
    re.IGNORECASE,
)
_TRAILING_SOURCE = re.compile(r",? (?:according to|based on) [^,?]{1,60}$", re.IGNORECASE)
_WHETHER = re.compile(
    r"^(?:(?:please )?(?:answer|say|respond|reply|true|yes)?[\w ,'\"-]{0,40}?\b)?(?:whether|if)"
    r"(?: or not)? (?P<clause>.+)$",
    re.IGNORECASE,
)
_THAT_CLAUSE = re.compile(
    r"^(?:is it (?:true|the case|correct|a fact|likely|clear) that"
    r"|would you (?:say|agree)(?: that)?|do you (?:think|believe|agree)(?: that)?"
    r"|(?:can|could|may) (?:we|one|you|it be) (?:say|said|conclude|concluded|assume|assumed|infer"
    r"|inferred|tell)(?: that)?|does it (?:seem|look like|appear)(?: that)?) (?P<clause>.+)$",
    re.IGNORECASE,
)


def declare(question: str) -> Statement:
    """The statement a yes/no question asks about, capitalised and ending in a full stop.

    Of several sentences the first question is read, else the text as a whole. A negated auxiliary
    ("Isn't it late?") asks the same as the plain one. Raises ValueError on blank text."""
    text = _SPACE.sub(" ", question).strip()
    if not text:
        raise ValueError("a question without text has no statement")
    asked = _asked_sentence(text)
    if asked is None:
        return _of_clause(_clause_of_order(text))
    core = _strip_lead_ins(asked.rstrip("?!. "))
    if not core:
        return _quoted(text)
    if (match := _THAT_CLAUSE.match(core)) is not None:
        return _of_clause(match["clause"])
    lead, inner = _split_lead(core)
    rewritten = _invert(inner)
    if rewritten is not None:
        text, negation = rewritten
        return Statement(_sentence(lead + text), _sentence(lead + negation), "inverted")
    first = _bare(core.split(" ", 1)[0])
    if first in _AUXILIARIES or first in _QUESTION_WORDS or first.endswith("n't"):
        return _quoted(core)
    return _of_clause(_clause_of_order(core))


def _asked_sentence(text: str) -> str | None:
    """The first sentence that is a question, preferring one that opens with an auxiliary."""
    sentences = _SENTENCE_END.split(text)
    marked = [s for s in sentences if s.rstrip("\"')").endswith("?")]
    opened = [s for s in (marked or sentences) if _opens_with_auxiliary(s)]
    return (opened or marked or [None])[0]


def _opens_with_auxiliary(sentence: str) -> bool:
    words = _strip_lead_ins(sentence).split(" ")
    return len(words) > 1 and _auxiliary(words[0]) is not None


def _strip_lead_ins(text: str) -> str:
    """Without "According to the text," and the like, which the state itself stands for."""
    while (shorter := _LEAD_IN.sub("", text, count=1)) != text:
        text = shorter
    return _TRAILING_SOURCE.sub("", text).strip()


def _split_lead(text: str) -> tuple[str, str]:
    """An adverbial before the question ("In this mail, does ...") is kept in front."""
    lead, comma, rest = text.partition(", ")
    if comma and _auxiliary(rest.split(" ", 1)[0]) and not _opens_with_auxiliary(text):
        return f"{lead}, ", rest
    return "", text


def _auxiliary(word: str) -> str | None:
    """The plain auxiliary behind a word, negated forms included; None for any other word."""
    bare = _bare(word).replace("’", "'")
    bare = _CONTRACTED.get(bare, bare.removesuffix("n't"))
    return bare if bare in _AUXILIARIES else None


def _invert(text: str) -> tuple[str, str] | None:
    """(statement, negation) without a full stop, or None when no rule finds the subject."""
    words = text.split(" ")
    auxiliary = _auxiliary(words[0])
    if auxiliary is None:
        return None
    cut = predicate_start([_bare(w) for w in words], _AUXILIARIES[auxiliary])
    if cut is None:
        return None
    subject, predicate = words[1:cut], words[cut:]
    negated = _bare(predicate[0]) == "not"
    plain = predicate[1:] if negated else predicate
    without = " ".join([*subject, "cannot" if auxiliary == "can" else f"{auxiliary} not", *plain])
    if auxiliary == "does":
        plain = _conjugate(plain)
    verb = plain if auxiliary in ("do", "does") else [auxiliary, *plain]
    text = " ".join(_SOME.get(_bare(w), w) for w in [*subject, *verb])
    if not negated and not _QUANTIFIED.isdisjoint(map(_bare, subject)):
        without = f"it is not true that {_lower_first(text)}"
    return (without, text) if negated else (text, without)


def _conjugate(predicate: list[str]) -> list[str]:
    """The predicate's verb, and verbs joined to it before any infinitive, in the third person."""
    out = list(predicate)
    at = next((i for i, w in enumerate(out) if not is_adverb(_bare(w))), 0)
    out[at] = _inflect(out[at])
    for i in range(at + 1, len(out)):
        if _bare(out[i]) == "to" and i + 1 < len(out) and _bare(out[i + 1]) in VERBS | NOUN_VERBS:
            break
        joined = _bare(out[i - 1]) in ("or", "and") and i < len(out) - 1
        if joined and (i == at + 2 or _bare(out[i]) in VERBS - NOUN_VERBS):
            out[i] = _inflect(out[i])
    return out


def _inflect(word: str) -> str:
    core = word.rstrip(",;:")
    return third_person(core) + word[len(core) :]


def _clause_of_order(text: str) -> str:
    """The clause of "Decide whether X" or "True if X"; any other text as it stands."""
    core = text.rstrip(". ")
    match = _WHETHER.match(core)
    if match is None or "." in core:
        return core
    return match["clause"]


def _of_clause(clause: str) -> Statement:
    text = clause.rstrip("?!. ")
    return Statement(
        _sentence(text), _sentence(f"it is not true that {_lower_first(text)}"), "declarative"
    )


def _quoted(question: str) -> Statement:
    asked = question.rstrip("?!. ")
    opening = f'the answer to "{asked[:1].upper()}{asked[1:]}?" is'
    return Statement(_sentence(f"{opening} yes"), _sentence(f"{opening} no"), "quoted")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _lower_first(text: str) -> str:
    """Lower-case start for use inside a sentence, where the first word is no name."""
    first = text.split(" ", 1)[0]
    plain = first.lower() in DETERMINERS or first.lower() in PRONOUNS - {"i"}
    return text[:1].lower() + text[1:] if plain else text


def _bare(word: str) -> str:
    return word.strip("\"'“”‘(),.;:?!*`").lower()
