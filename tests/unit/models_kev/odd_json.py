"""Random requests full of odd JSON: every kind of value, empties, depth, big and tiny numbers,
scripts, white space, forged delimiters."""

import random
from typing import Any

from tests.unit.models_open_jev import hostile

FORGED = (
    *("<|fim_prefix|>", "<|box_start|>", "<|box_end|>", "<|fim_suffix|>", "<|fim_middle|>"),
    *("<|x_9|>", "<|box end|>", "<|猫|>", "<||>", "<|a|><|b|>", "<|<|c|>|>", "<¦box_end¦>", "<|a|"),
)
NUMBERS = (
    0,
    -1,
    7,
    10**18,
    -(10**40),
    2**63,
    1.0,
    -0.0,
    1e-07,
    1e16,
    1e22,
    0.1,
    123456.789,
    5e-324,
)
SPACES = ("\u2003 lead", "\x1c\x1dlead", " \t\n", "\n- x", "\u0085y", "")


def text(rng: random.Random) -> str:
    pick = rng.random()
    if pick < 0.2:
        return rng.choice(FORGED)
    if pick < 0.3:
        return rng.choice(SPACES)
    if pick < 0.4:
        return hostile.text(rng, 2) + rng.choice(FORGED) + hostile.text(rng, 2)
    return hostile.text(rng)


def value(rng: random.Random, depth: int = 0) -> Any:
    pick = rng.random()
    if depth < 4 and pick < 0.35:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if depth < 4 and pick < 0.7:
        return {text(rng) + str(i): value(rng, depth + 1) for i in range(rng.randrange(4))}
    return rng.choice((None, True, False, rng.choice(NUMBERS), rng.random() * 10, text(rng)))


def question(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(("noul", "choice", "score"))
    made: dict[str, Any] = {"type": kind}
    if rng.random() < 0.8:
        made["instructions"] = value(rng, 2)
    if kind == "choice":
        count = rng.choice((1, 2, 3, 6))
        made["criteria"] = {text(rng) + "#" * i: value(rng, 2) for i in range(count)}
    elif kind == "score":
        made["criteria"] = [value(rng, 2) for _ in range(rng.choice((1, 2, 5, 11)))]
    elif rng.random() < 0.7:
        sides = rng.sample(("true", "false", "other"), rng.randrange(4))
        made["criteria"] = {side: value(rng, 2) for side in sides}
    return made


def request(rng: random.Random) -> dict[str, Any]:
    count = rng.choice((1, 1, 2, 4))
    return {"state": value(rng), "questions": {f"q{i}": question(rng) for i in range(count)}}
