"""`systone models`: what the models named (by default the built-in one) are and accept."""

from __future__ import annotations

import argparse
import sys

from systone.commands._cards import card_lines
from systone.commands._flags import add_model_flag, add_setting_flags, settings_of
from systone.config import ModelSettings


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_flag(parser)
    add_setting_flags(parser, ModelSettings)


def run(args: argparse.Namespace) -> int:
    from systone.models import registry

    for model in settings_of(args).models:
        loaded = registry.load(model.source, model)
        sys.stdout.write("\n".join(card_lines(loaded.adapter.card, model.source)) + "\n")
    return 0
