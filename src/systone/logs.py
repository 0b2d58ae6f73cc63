"""Log lines on standard error: time, level, part, message. No request's text is ever logged."""

from __future__ import annotations

import logging
import sys

__all__ = ["set_up_logs"]


def set_up_logs(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger("systone")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False
