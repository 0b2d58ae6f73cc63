"""Laya-class models: a ModernBERT body and a head that reads one marker per option.

`load.load_directory` is the entry point; `load.recognises` tells the layout by its files.
"""

from __future__ import annotations

from systone.models.laya.adapter import LayaAdapter
from systone.models.laya.load import load_directory, recognises

__all__ = ["LayaAdapter", "load_directory", "recognises"]
