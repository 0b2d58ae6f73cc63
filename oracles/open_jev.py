"""Run the official implementation on one request and write what it gives as a golden file.

    python -m oracles.open_jev DIR REQUEST.json --mode fp32|bf16|unmerged|stored --out golden.json

DIR holds base/ and package/checkpoint/ in the official layout, or a merged export. One row a
forward, unpadded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oracles.answers import answer
from oracles.checkpoint import MODES, Official, load
from oracles.header import header
from oracles.prompts import prompts


def capture(official: Official, request: Mapping[str, Any]) -> dict[str, Any]:
    """Rows (token ids, hidden state, logit), answers and usage of one request."""
    rows = []
    for prompt in prompts(request):
        ids = official.tokenizer(prompt.text, add_special_tokens=False)["input_ids"]
        hidden = official.hidden(ids)
        rows.append(
            {
                "question": prompt.question,
                "candidate": prompt.candidate,
                "ids": ids,
                "logit": official.logit(hidden),
                # nine digits carry every FP32 value exactly
                "hidden": [float(f"{value:.9g}") for value in hidden.tolist()],
            }
        )
    answers = {
        name: answer(
            question,
            [row["logit"] for row in rows if row["question"] == name],
            official.temperature,
        )
        for name, question in request["questions"].items()
    }
    return {
        "rows": rows,
        "answers": answers,
        "usage": {"input_tokens": sum(len(row["ids"]) for row in rows), "output_tokens": 0},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path, help="base/ and package/checkpoint/, or an export")
    parser.add_argument("request", type=Path, help="a System One request as JSON")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--seed", type=int, help="of a synthetic checkpoint, for the header")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    request = json.loads(args.request.read_bytes())
    golden = {
        "header": header(args.directory, args.mode, args.seed),
        "request": request,
        **capture(load(args.directory, args.mode), request),
    }
    write(args.out, golden)


def write(path: Path, golden: Mapping[str, Any]) -> None:
    """Compact, one row a line, so that a change shows in a diff."""
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in golden["rows"])
    rest = json.dumps({**golden, "rows": []}, ensure_ascii=False, indent=1)
    path.write_text(rest.replace('"rows": []', f'"rows": [\n{rows}\n]') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
