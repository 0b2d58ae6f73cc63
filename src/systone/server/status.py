"""What `/health` says: the engine's own truth, rendered.

`/health` and `/health/ready` are 200 only while the engine is ready. `/health/live` is 503 once it
has failed: a lost device or frozen worker is for good, so a supervisor should replace the process.
"""

from __future__ import annotations

from typing import Any

from systone.engine import Engine

__all__ = ["health_body", "live_status", "ready_status"]


def health_body(engine: Engine, version: str) -> dict[str, Any]:
    health = engine.health()
    descriptions = {card.name: card.description for card in engine.cards}
    return {
        "status": health.status,
        "reason": health.reason,
        "version": version,
        "max_queue": health.max_queue,
        "models": [
            {
                "name": model.name,
                "description": descriptions[model.name],
                "calibrated": model.calibrated,
                "queue_depth": model.undispatched,
                "running": model.running,
                "modes": dict(model.modes),
            }
            for model in health.models
        ],
    }


def ready_status(engine: Engine) -> int:
    return 200 if engine.health().ready else 503


def live_status(engine: Engine) -> int:
    return 503 if engine.health().status == "failed" else 200
