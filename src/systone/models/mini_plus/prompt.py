"""What SmolLM2 reads: a state as a text to sum up, a statement as its summary.

Owns the wording, the reference texts and the window's arithmetic; knows tokens, not weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from systone.models.mini_plus.tokens import TextTokens

__all__ = ["REFERENCES", "state_ids", "statement_ids"]

# Texts that have nothing to say on a question: what a statement scores after them is its base.
REFERENCES = (
    "The train to the coast leaves from platform four at noon.",
    "Thank you for your message. We have received it.",
    "The library opens at nine and closes at six on weekdays.",
    "I would like to know more about this.",
)


def state_ids(tokens: TextTokens, state: str) -> NDArray[np.int64]:
    """Ids of the shared part [P]: a document's start, the state, and the cue for a summary."""
    text = tokens.encode(f"Text: {state}\n\nSummary:")
    return np.concatenate([np.array([tokens.document], np.int64), text])


def statement_ids(tokens: TextTokens, statement: str) -> NDArray[np.int64]:
    """Ids of one statement [T], its leading space included."""
    return tokens.encode(f" {statement}")
