"""The bundled example request: one question of each kind about a short message."""

from __future__ import annotations

from typing import Any

__all__ = ["EXAMPLE"]

EXAMPLE: dict[str, Any] = {
    "state": {
        "subject": "Parcel arrived crushed",
        "body": "The box was wet and the lamp inside is broken. Please send a new one before "
        "Friday, it is a birthday present.",
    },
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
        "urgency": {
            "type": "score",
            "instructions": "How urgent is it?",
            "criteria": [
                "Not urgent, no date is named",
                "Should be handled within days, a date is named",
                "An emergency, people are in danger",
            ],
        },
    },
}
