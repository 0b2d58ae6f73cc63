"""One call for one decision, over engines the process keeps: `systone.ask(...)`.

The first call of a model loads it and takes its time; later ones answer at once. Engines live until
the process ends.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping

from systone.engine import Engine
from systone.protocol.types import Decision, Question, Text

__all__ = ["ask"]

_engines: dict[str, Engine] = {}
_lock = threading.Lock()


def ask(state: Text, questions: Mapping[str, Question], model: str = "systone-mini") -> Decision:
    """Answer typed questions about a state. `model`: a built-in name or a model directory.

    Raises RequestError for a request that can't be answered, ConfigError for a model that can't be
    loaded."""
    return _engine(model).decide(state, questions)


def _engine(model: str) -> Engine:
    with _lock:
        engine = _engines.get(model)
        if engine is None:
            engine = Engine((model,)).start()
            atexit.register(engine.close)
            _engines[model] = engine
        return engine
