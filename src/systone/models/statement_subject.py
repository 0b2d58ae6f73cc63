"""Where the subject of a yes/no question ends, without a tagger.

Owns the left-to-right scan over a noun phrase; knows word classes, not statements. Positions count
words; word 0 is the auxiliary and the subject begins at word 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from systone.models.statement_words import (
    DEMONSTRATIVES,
    DETERMINERS,
    NOUN_VERBS,
    PREPOSITIONS,
    PRONOUNS,
    VERBS,
    is_adjective,
    is_adverb,
    is_function_word,
    is_number,
    is_participle,
)

__all__ = ["Auxiliary", "predicate_start"]

# What follows the subject: a complement ("be"), a base verb ("do") or a past participle ("have").
Auxiliary = Literal["be", "do", "have"]

_CONJUNCTIONS = ("and", "or", "nor", "&")


def predicate_start(words: Sequence[str], kind: Auxiliary) -> int | None:
    """Index of the first word after the subject, or None when no boundary can be told.

    `words` are lower case and bare; `words[0]` is the auxiliary."""
    if len(words) < 3:
        return None
    if words[1] in PRONOUNS and words[2] == "other":
        return None
    if words[1] in PRONOUNS and words[2] != "else":
        return 2
    if words[1] in PRONOUNS:
        return 3 if len(words) > 3 else None
    if words[1] in DEMONSTRATIVES and _stands_alone(words, kind):
        return 2
    return _scan(words, kind)


def _stands_alone(words: Sequence[str], kind: Auxiliary) -> bool:
    """Whether the "this" at word 1 is the whole subject, not the determiner of a noun."""
    word, last = words[2], len(words) == 3
    if is_adverb(word) or (kind != "be" and word in VERBS and word not in NOUN_VERBS):
        return True
    if kind == "be":
        if last or word in DETERMINERS or word in PREPOSITIONS or is_number(word):
            return True
        return is_adjective(word) or is_participle(word) or words[3] in _CONJUNCTIONS
    if kind == "have":
        return is_participle(word, present=False)
    return word in NOUN_VERBS and (last or is_function_word(words[3]) or words[3] == "to")


def _scan(words: Sequence[str], kind: Auxiliary) -> int | None:
    """The boundary after a full noun phrase: nouns joined by "of" or a conjunction belong to it."""
    head = -1  # index of the current phrase's first noun; -1 while one is still to come
    end = len(words) - 1
    i = 1
    while i <= end:
        word = words[i]
        if word in _CONJUNCTIONS and i < end and words[i + 1] in ("more", "less", "fewer"):
            i += 2
            continue
        if word in _CONJUNCTIONS or word == "of" or word.endswith(("'s", "s'", "’s")):
            head = -1
        elif word in ("who", "which", "whose") or (word == "that" and head >= 0 and kind == "be"):
            return None
        elif head < 0:
            if not _is_modifier(words, i, kind):
                head = i
        elif _starts(words, i, kind):
            return i
        elif (at := _boundary_by_neighbour(words, i, head, kind)) is not None:
            return at
        elif word in PREPOSITIONS or word in DETERMINERS:
            head = -1
        i += 1
    return None


def _is_modifier(words: Sequence[str], i: int, kind: Auxiliary) -> bool:
    """Whether word `i`, before any noun, leaves the noun still to come."""
    word = words[i]
    if word in DETERMINERS or word in ("than", "at", "least", "up", "to") or is_adverb(word):
        return True
    described = is_adjective(word) or (is_participle(word) and word not in VERBS)
    if not described or i + 1 >= len(words) - 1:
        return False
    after = words[i + 1]
    if kind == "do" and after in VERBS:
        return False
    return not (is_function_word(after) or is_adverb(after) or after in _CONJUNCTIONS)


def _starts(words: Sequence[str], i: int, kind: Auxiliary) -> bool:
    """Whether word `i`, after a noun, can only begin the predicate."""
    word, last = words[i], i == len(words) - 1
    if word == "not" or (is_adverb(word) and not last):
        return True
    if kind == "be":
        if word in PREPOSITIONS:
            return not _phrase_is_of_subject(words, i)
        if is_participle(word) and not last and words[i + 1] == "by":
            return not _phrase_is_of_subject(words, i + 1)
        if is_number(word):
            return not last and (words[i + 1].endswith("s") or words[i + 1] == "or")
        return last or word in DETERMINERS or is_adjective(word) or is_participle(word)
    if kind == "have":
        return is_participle(word, present=False)
    if word in NOUN_VERBS:
        return not _verb_follows(words, i + 1)
    return word in VERBS or (last and words[i - 1] not in VERBS and _is_lone_noun(words, i - 1))


def _verb_follows(words: Sequence[str], i: int) -> bool:
    """Whether word `i` is the verb, so that the noun-or-verb before it was a noun."""
    if i >= len(words) - 1:
        return False
    return words[i] in VERBS or (words[i] in NOUN_VERBS and _verb_follows(words, i + 1))


def _is_lone_noun(words: Sequence[str], i: int) -> bool:
    return i == 1 or words[i - 1] in DETERMINERS or words[i - 1].endswith(("'s", "s'", "’s"))


def _phrase_is_of_subject(words: Sequence[str], i: int) -> bool:
    """Whether the phrase of preposition `i` belongs to the subject, because an adjective or a
    participle closes it: "the fee for returns | refundable"."""
    for j in range(i + 2, len(words)):
        before = words[j - 1]
        if before in PREPOSITIONS or before in _CONJUNCTIONS or is_participle(before):
            return False
        plain = not (before in DETERMINERS or is_adjective(before) or is_adverb(before))
        closes = j == len(words) - 1 or words[j + 1] in PREPOSITIONS or words[j + 1] == "to"
        closer = is_adjective(words[j]) or is_participle(words[j], present=False)
        if plain and closes and closer:
            return True
    return False


def _boundary_by_neighbour(words: Sequence[str], i: int, head: int, kind: Auxiliary) -> int | None:
    """The verb unknown to the lists: the word before an object or phrase, if a noun is left."""
    if kind != "do" or i - 1 <= head:
        return None
    return i - 1 if is_function_word(words[i]) or words[i] in ("to", "that") else None
