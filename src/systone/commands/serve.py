"""`systone serve`: the HTTP server over the models named."""

from __future__ import annotations

import argparse

from systone.commands._flags import add_model_flag, add_setting_flags, settings_of
from systone.config import EngineConfig, ModelSettings, ServerConfig


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_flag(parser)
    add_setting_flags(parser, ServerConfig, ModelSettings, EngineConfig)


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    from systone.logs import set_up_logs
    from systone.server.lifecycle import serve

    set_up_logs(settings.server.log_level)
    return serve(settings)
