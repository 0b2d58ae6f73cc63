"""`systone check`: the effective settings and, for the models named, what would be served.

Loads each model's files through the same checks as `serve` does, but starts no device.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from systone.commands._cards import card_lines
from systone.commands._flags import add_model_flag, add_setting_flags, settings_of
from systone.config import EngineConfig, ModelSettings, ServerConfig, Settings, setting_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="models to check, as --model")
    add_model_flag(parser)
    add_setting_flags(parser, ServerConfig, ModelSettings, EngineConfig)


def run(args: argparse.Namespace) -> int:
    import sys

    args.model = [*args.model, *args.sources]
    settings = settings_of(args)
    lines = list(setting_lines(settings))
    from systone.models import registry

    for model in settings.models:
        loaded = registry.load(model.source, model)
        lines += ["", *card_lines(loaded.adapter.card, model.source)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def setting_lines(settings: Settings) -> Iterator[str]:
    """`name = value`, every setting once; keys are counted, not shown."""
    yield "model = " + ",".join(model.source for model in settings.models)
    for section in (settings.server, settings.models[0], settings.engine):
        for f in fields(section):
            if "parse" in f.metadata:
                yield f"{f.name} = {_shown(f.name, getattr(section, f.name))}"


def _shown(name: str, value: Any) -> str:
    if name == "api_key":
        return f"({len(value)} keys)" if value else "none"
    return setting_text(value)
