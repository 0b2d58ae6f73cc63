"""Answers on a terminal: one block per question, a bar per possible answer."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from systone.catalog import brief
from systone.models.base import ModelCard
from systone.protocol.types import (
    Answer,
    ChoiceAnswer,
    Decision,
    NoulAnswer,
    Question,
    Request,
    ScoreAnswer,
)

__all__ = ["print_decision"]

BAR_CELLS = 24
NAME_CELLS = 36
EIGHTHS = " ▏▎▍▌▋▊▉"


def print_decision(
    console: Console, request: Request, decision: Decision, card: ModelCard, took_s: float
) -> None:
    console.print(f"[dim]state[/dim]  {escape(_cut(str(request.state), 68))}\n")
    for name, question in request.questions.items():
        _print_answer(console, name, question, decision.answers[name])
    console.print(
        f"[dim]{escape(brief(card))}\n"
        f"{decision.usage.input_tokens} input tokens, {took_s * 1e3:.1f} ms[/dim]"
    )


def _print_answer(console: Console, name: str, question: Question, answer: Answer) -> None:
    asked = "" if question.instructions is None else _cut(str(question.instructions), 60)
    console.print(f"[bold]{escape(name)}[/bold] [dim]{question.kind}  {escape(asked)}[/dim]")
    table = Table.grid(padding=(0, 1))
    for label, probability, top in _rows(answer):
        style = "bold green" if top else ""
        table.add_row(
            "  " + escape(_cut(label, NAME_CELLS)),
            bar(probability),
            f"{probability:7.2%}",
            style=style,
        )
    console.print(table)
    console.print(f"  [dim]->[/dim] {escape(verdict(answer))}\n")


def _rows(answer: Answer) -> Iterable[tuple[str, float, bool]]:
    """(label, probability, whether it is the most probable) of every possible answer."""
    if isinstance(answer, NoulAnswer):
        yes = answer.noul
        return [("yes", yes, yes >= 0.5), ("no", 1.0 - yes, yes < 0.5)]
    if isinstance(answer, ChoiceAnswer):
        return [(name, p, name == answer.choice) for name, p in answer.probabilities.items()]
    top = max(answer.probabilities)
    levels = zip(answer.legend, answer.probabilities, strict=True)
    return [(f"{i} {level}", p, p == top) for i, (level, p) in enumerate(levels)]


def verdict(answer: Answer) -> str:
    if isinstance(answer, NoulAnswer):
        return f"{'yes' if answer.noul >= 0.5 else 'no'} (probability of yes {answer.noul:.4f})"
    if isinstance(answer, ScoreAnswer):
        return f"score {answer.score:.3f} (confidence {answer.confidence:.3f})"
    return f"{answer.choice} (confidence {answer.confidence:.3f})"


def bar(probability: float) -> str:
    """A bar of BAR_CELLS cells at probability 1, to an eighth of a cell."""
    eighths = round(probability * BAR_CELLS * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(BAR_CELLS)


def _cut(text: str, cells: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= cells else line[: cells - 1] + "…"
