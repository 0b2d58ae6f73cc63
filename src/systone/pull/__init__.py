"""Fetching known models from a model hub, pinned and verified.

`table` says what there is, `hub` lists and fetches one repository, `pull` does a whole model.
Knows no torch and serves nothing.
"""

from __future__ import annotations

from systone.pull.model import pull
from systone.pull.table import MODELS, find

__all__ = ["MODELS", "find", "pull"]
