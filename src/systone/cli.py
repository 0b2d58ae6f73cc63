"""The `systone` command: finds the subcommand's module, parses its flags, reports its errors.

An error of the user or operator is one line on standard error and exit status 2.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from systone import __version__, commands
from systone.errors import RequestError, SystoneError

__all__ = ["main"]

USER_ERROR = 2
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Reports a wrong flag in one line instead of printing the usage first."""

    def error(self, message: str) -> NoReturn:
        self.exit(USER_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(given)
    args = parser.parse_args(given)
    if args.command is None:
        parser.print_help()
        return USER_ERROR
    try:
        status: int = _module(args.command).run(args)
    except SystoneError as error:
        sys.stderr.write(f"systone {args.command}: {_sentence(error)}\n")
        return USER_ERROR
    except BrokenPipeError:
        return 0  # the reader of our output had enough
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """A parser with the one subcommand that is asked for, or with all of them for help."""
    parser = _Parser(
        prog="systone",
        description="Typed decisions with probabilities from System One decision models.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"systone {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    names = _names()
    wanted = [given[0]] if given and given[0] in names else names
    for name in wanted:
        module = _module(name)
        subparser = subparsers.add_parser(
            name, help=_summary(module), description=module.__doc__, allow_abbrev=False
        )
        module.configure(subparser)
    return parser


def _names() -> list[str]:
    """Every command, by its module's name; `_` modules are parts of commands."""
    found = (info.name for info in pkgutil.iter_modules(commands.__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def _module(name: str) -> ModuleType:
    return import_module("systone.commands." + name.replace("-", "_"))


def _sentence(error: SystoneError) -> str:
    """One line; the faults of a request with the fields they are in."""
    if isinstance(error, RequestError):
        from systone.protocol.faults import sentence_of

        return sentence_of(error.faults)
    return " ".join(str(error).split())


def _summary(module: ModuleType) -> str:
    """The first sentence of a command's docstring, without the command's own name."""
    first = (module.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".")
    return first.partition("`: ")[2] or first


if __name__ == "__main__":
    sys.exit(main())
