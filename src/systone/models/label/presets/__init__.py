"""Prompt formats by name. A new format is a new file here and a row in this table."""

from __future__ import annotations

from collections.abc import Mapping

from systone.models.label.presets.anyjev import ANYJEV
from systone.models.label.presets.base import Listing, Preset, Text, Words
from systone.models.label.presets.decider import DECIDER, DECIDER_CHAT
from systone.models.label.presets.letters import LETTERS
from systone.models.label.presets.llm2jev import LLM2JEV
from systone.models.label.presets.onejev import ONEJEV

__all__ = ["PRESETS", "Listing", "Preset", "Text", "Words"]

PRESETS: Mapping[str, Preset] = {
    preset.name: preset for preset in (LETTERS, DECIDER, DECIDER_CHAT, ONEJEV, ANYJEV, LLM2JEV)
}
