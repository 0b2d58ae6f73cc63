"""The bundled example request: one question of each kind about a short message."""

from __future__ import annotations

from typing import Any

__all__ = ["EXAMPLE"]

EXAMPLE: dict[str, Any] = {
    "state": "The lamp arrived broken. Please send a replacement before Friday, it is a birthday "
    "present.",
    "questions": {
        "desk": {
            "type": "choice",
            "instructions": "Which desk should handle this message?",
            "criteria": {
                "returns": "Damaged or wrong goods, replacements and refunds",
                "billing": "Invoices, charges and payment methods",
                "delivery": "Where a parcel is and when it comes",
                "sales": "Questions before buying",
            },
        },
        "replacement": {
            "type": "noul",
            "instructions": "Does the writer ask for a replacement?",
            "criteria": {
                "true": "The writer wants a new item sent",
                "false": "The writer wants no new item",
            },
        },
        "damage": {
            "type": "score",
            "instructions": "How badly is the item damaged?",
            "criteria": ["The item is fine", "A small scratch", "The item is broken"],
        },
    },
}
