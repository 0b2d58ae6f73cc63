"""The Kev dialect's wording of answers and replies.

Owns the order of fields on that wire (the Kev contract, section 5). Knows no formula.
"""

from __future__ import annotations

from typing import Any

from systone.protocol.types import Answer, ChoiceAnswer, Decision, NoulAnswer, ScoreAnswer

__all__ = ["DEFAULT_MODEL", "answer_object", "reply_object"]

DEFAULT_MODEL = "kev-latest"  # what a request without a model is taken to name, and echoed as

_CUT = ("state_tokens", "state_tokens_used")


def answer_object(answer: Answer) -> dict[str, Any]:
    """One answer; a Score's legend is shown as the answer carries it."""
    if isinstance(answer, NoulAnswer):
        return {"type": "noul", "noul": answer.noul}
    if isinstance(answer, ChoiceAnswer):
        return {
            "type": "choice",
            "choice": answer.choice,
            "confidence": answer.confidence,
            "probabilities": dict(answer.probabilities),
        }
    assert isinstance(answer, ScoreAnswer)
    return {
        "type": "score",
        "score": answer.score,
        "legend": {str(i): level for i, level in enumerate(answer.legend)},
        "probabilities": {str(i): p for i, p in enumerate(answer.probabilities)},
        "confidence": answer.confidence,
    }


def reply_object(decision: Decision, model: str) -> dict[str, Any]:
    """The 200 body. `model`: the name to echo. What only this dialect has comes from the model's
    `metadata`; a model of another family leaves it out."""
    metadata = decision.metadata
    usage = {
        "input_tokens": int(decision.usage.input_tokens),
        "output_tokens": int(decision.usage.output_tokens),
    }
    usage |= {name: metadata[name] for name in _CUT if name in metadata}
    body: dict[str, Any] = {
        "model": model,
        "answers": {qid: answer_object(answer) for qid, answer in decision.answers.items()},
        "usage": usage,
    }
    body |= {name: metadata[name] for name in ("latency_ms", "truncated") if name in metadata}
    return body
