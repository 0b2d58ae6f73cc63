"""Settings as flags: every setting of `config.py` becomes `--name VALUE`, checked there."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from systone.config import (
    EngineConfig,
    ModelSettings,
    ServerConfig,
    Settings,
    read_settings,
    setting_text,
)

__all__ = ["add_model_flag", "add_setting_flags", "settings_of"]

Section = type[ModelSettings] | type[EngineConfig] | type[ServerConfig]


def add_model_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="SOURCE",
        help="built-in name, directory or synth:NAME; repeat it to serve several, the first is the "
        "default (default: systone-mini)",
    )


def add_setting_flags(parser: argparse.ArgumentParser, *sections: Section) -> None:
    """A flag for every setting of these sections. Not given, it stays None: the environment's
    value, or else the default, holds."""
    for section in sections:
        group = parser.add_argument_group(_title(section))
        for f in fields(section):
            if "parse" in f.metadata:
                group.add_argument(
                    "--" + f.name.replace("_", "-"),
                    dest=f"setting_{f.name}",
                    action="append" if f.name == "api_key" else "store",
                    metavar="VALUE",
                    help=f"{f.metadata['help']} (default: {setting_text(f.default) or 'none'})",
                )


def settings_of(args: argparse.Namespace) -> Settings:
    """The effective settings of a command line. Raises ConfigError."""
    flags = {
        name.removeprefix("setting_"): _text(value)
        for name, value in vars(args).items()
        if name.startswith("setting_") and value is not None
    }
    return read_settings(flags, args.model)


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _title(section: Section) -> str:
    return {ModelSettings: "models", EngineConfig: "engine", ServerConfig: "server"}[section]
