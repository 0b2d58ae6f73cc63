"""How systone-mini presents itself: one card for `/v1/models`, logs and documentation."""

from __future__ import annotations

from systone.models.base import Limits, ModelCard
from systone.models.mini.constants import (
    MAX_REQUEST_PIECES,
    MAX_TEXT_PIECES,
    NAME,
    RELEASE_DATE,
)
from systone.models.mini.files import MODEL_PACKAGE, MODEL_SHA256, MODEL_VERSION

__all__ = ["CARD", "USAGE_RULE"]

USAGE_RULE = (
    "input_tokens counts WordPiece pieces without special tokens: the state once, plus the "
    "instructions and every option, side or level text of each question as read; it never depends "
    "on caching, batching or the other requests."
)

CARD = ModelCard(
    name=NAME,
    description=(
        "Demo-grade, uncalibrated embedded default: MiniLM-L6 int8 sentence similarity on the CPU, "
        "no download. Fair at topical Choices and at ranking states by one Noul; weak at negation, "
        "numbers, entailment and Scores. Noul probabilities stay near 0.5 on purpose: rank by "
        "them, don't threshold at 0.5. English only. Read-out: cosine of the state with each "
        f"option, level or statement, less a background, no length normalisation; "
        f"{MAX_REQUEST_PIECES} pieces a request. For real work serve Kev-4B or Open-Jev-9B on a "
        "GPU, or a Laya-class encoder on a CPU."
    ),
    release_date=RELEASE_DATE,
    revision=f"{MODEL_PACKAGE}-{MODEL_VERSION}+sha256.{MODEL_SHA256['model.onnx'][:12]}",
    kinds=frozenset({"choice", "noul", "score"}),
    calibrated=False,
    confidence=(
        "Choice: (max p - 1/n) / (1 - 1/n). Score: max(0, 1 - mean distance from the most probable "
        "level / the same for a uniform answer). Noul: none. Not a chance of being right."
    ),
    usage_rule=USAGE_RULE,
    limits=Limits(max_tokens=MAX_TEXT_PIECES),
)
