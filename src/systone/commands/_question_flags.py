"""Questions and states from a command line, as the body a client would send.

    --choice "desk: Which desk?=billing,returns"   --score "tone=calm,cross,furious"
    --noul "refund: Is a refund asked for?"        --noul "Is a refund asked for?"

The name before the first colon is the question's id, the text after it its instructions; without
one the whole text is both. The body is then checked by the protocol like any other.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from systone.errors import ConfigError
from systone.protocol import jsontext

__all__ = ["add_question_flags", "body_of"]


def add_question_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="STATE", help="file with the state (.json: as JSON), - for stdin"
    )
    parser.add_argument("--state", metavar="TEXT", help="the state itself")
    parser.add_argument(
        "--questions", metavar="FILE", help="JSON file: question ids to questions, as on the wire"
    )
    parser.add_argument("--request", metavar="FILE", help="JSON file: a whole request body")
    for kind, form in (("choice", "ID[: TEXT]=A,B"), ("score", "ID[: TEXT]=LOW,HIGH")):
        parser.add_argument(
            f"--{kind}", action="append", default=[], metavar=form, help=f"a {kind} question"
        )
    parser.add_argument(
        "--noul", action="append", default=[], metavar="[ID: ]TEXT", help="a yes/no question"
    )


def body_of(args: argparse.Namespace) -> dict[str, Any] | None:
    """The request's body, None if nothing was given. Raises ConfigError, RequestError."""
    questions = _questions(args)
    if args.request is not None:
        if questions or args.file is not None or args.state is not None:
            raise ConfigError("--request is a whole request: give no state or questions with it")
        return _object(args.request)
    if args.state is None and args.file is None:
        if questions:
            raise ConfigError("there is no state: name a file, - for stdin, or --state TEXT")
        return None
    if args.state is not None and args.file is not None:
        raise ConfigError("the state is given twice: as a file and by --state")
    if not questions:
        raise ConfigError("there is no question: use --choice, --noul, --score or --questions")
    state = args.state if args.state is not None else _state(args.file)
    return {"state": state, "questions": questions}


def _questions(args: argparse.Namespace) -> dict[str, Any]:
    found = _object(args.questions) if args.questions is not None else {}
    for text in args.noul:
        name, instructions = _named(text)
        _add(found, name, {"type": "noul", "instructions": instructions or name})
    for text in args.choice:
        name, instructions, options = _listed(text, "--choice")
        _add(found, name, _question("choice", instructions, dict.fromkeys(options)))
    for text in args.score:
        name, instructions, levels = _listed(text, "--score")
        _add(found, name, _question("score", instructions, levels))
    return found


def _question(kind: str, instructions: str | None, criteria: Any) -> dict[str, Any]:
    question = {"type": kind, "criteria": criteria}
    return question if instructions is None else question | {"instructions": instructions}


def _add(questions: dict[str, Any], name: str, question: dict[str, Any]) -> None:
    if name in questions:
        raise ConfigError(f"two questions have the id {name!r}")
    questions[name] = question


def _named(text: str) -> tuple[str, str | None]:
    name, colon, instructions = text.partition(":")
    return (name.strip(), instructions.strip()) if colon else (text.strip(), None)


def _listed(text: str, flag: str) -> tuple[str, str | None, list[str]]:
    head, equals, tail = text.rpartition("=")
    items = [item.strip() for item in tail.split(",")]
    if not equals or not all(items):
        raise ConfigError(f"{flag} {text!r}: expected ID=A,B,C or ID: TEXT=A,B,C")
    return (*_named(head), items)


def _state(name: str) -> Any:
    text = _read(name)
    return jsontext.loads(text.encode()) if name.endswith(".json") else text


def _object(name: str) -> dict[str, Any]:
    value = jsontext.loads(_read(name).encode())
    if not isinstance(value, dict):
        raise ConfigError(f"{name} doesn't hold a JSON object")
    return value


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"can't read {name}: {reason}") from None
