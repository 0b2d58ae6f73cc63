"""Kev (0.8B, 4B, 9B, 27B): one row per question, a pointer head over its options."""

from systone.models.kev.adapter import KevAdapter
from systone.models.kev.card import KevCheckpoint, KevSettings

__all__ = ["KevAdapter", "KevCheckpoint", "KevSettings"]
