"""Open-Jev (9B, 27B-v1.1): one prompt per candidate, a scalar head, one temperature."""

from systone.models.open_jev.adapter import OpenJevAdapter
from systone.models.open_jev.card import OpenJevCheckpoint, OpenJevSettings

__all__ = ["OpenJevAdapter", "OpenJevCheckpoint", "OpenJevSettings"]
