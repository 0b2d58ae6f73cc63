"""`systone ask`: one decision in this process, printed with probability bars or as JSON.

Without a state and questions it answers a bundled example.
"""

from __future__ import annotations

import argparse
import sys
import time

from systone.commands._example import EXAMPLE
from systone.commands._flags import add_model_flag, add_setting_flags, settings_of
from systone.commands._question_flags import add_question_flags, body_of
from systone.config import EngineConfig, ModelSettings, Settings
from systone.models.base import ModelCard
from systone.protocol import jsontext, systemone
from systone.protocol.types import Decision, Request


def configure(parser: argparse.ArgumentParser) -> None:
    add_question_flags(parser)
    parser.add_argument("--json", action="store_true", help="print the reply as JSON")
    add_model_flag(parser)
    add_setting_flags(parser, ModelSettings, EngineConfig)


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    body = body_of(args)
    request = systemone.parse(jsontext.dumps(body or EXAMPLE), dialect="default")
    decision, card, took_s = _decide(settings, request)
    if args.json:
        reply = systemone.render(decision, dialect="default", extras=False)
        sys.stdout.write(reply.decode() + "\n")
        return 0
    from rich.console import Console

    from systone.commands._bars import print_decision

    print_decision(Console(highlight=False), request, decision, card, took_s)
    return 0


def _decide(settings: Settings, request: Request) -> tuple[Decision, ModelCard, float]:
    """The decision, its model's card, and the seconds it took once the model was loaded."""
    from systone.engine import Engine

    with Engine(settings.models, settings.engine) as engine:
        began = time.perf_counter()
        decision = engine.submit(request).result()
        took_s = time.perf_counter() - began
        (card,) = (card for card in engine.cards if card.name == decision.model)
    return decision, card, took_s
