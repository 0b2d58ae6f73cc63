"""Run transformers and PEFT on a Kev checkpoint and write what one request gives as a golden file.

    python -m oracles.kev DIR REQUEST.json --mode merged|unmerged --out golden.json

DIR holds base/ and package/ in the official layout. One row (state + branch) a forward, unpadded.
Modes:
- merged: FP32 merge of the stored base and adapter, one rounding to bf16, computed in FP32
- unmerged: the stored base in FP32 with the adapter beside it: no rounding of weights at all
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from peft import PeftModel
from transformers import AutoModelForImageTextToText, AutoTokenizer

from oracles.header import header
from oracles.kev_answers import answer, output_tokens, pointer_logits
from oracles.kev_prompts import pack
from oracles.open_jev import write
from oracles.pure_torch import forbid_tf32, qwen3_5_modeling

Mode = Literal["merged", "unmerged"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True, eq=False)
class OfficialKev:
    """A text backbone with its adapter applied, its pointer head and the base's tokenizer."""

    backbone: Any  # returns .last_hidden_state [batch, tokens, hidden] after the final norm
    tokenizer: Any
    head: Mapping[str, torch.Tensor]
    temperature: float

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    @torch.inference_mode()
    def hidden(self, ids: list[int], at: list[int]) -> torch.Tensor:
        """Final-norm hidden states FP32 [len(at), hidden] of one row."""
        out = self.backbone(input_ids=torch.tensor([ids]), use_cache=False)
        return torch.as_tensor(out.last_hidden_state[0, at]).float()


def load(directory: Path, mode: Mode) -> OfficialKev:
    """Load on the CPU. Raises RuntimeError when a tensor of backbone or adapter is left over."""
    qwen3_5_modeling()
    forbid_tf32()
    held = torch.load(directory / "package" / "head.pt", map_location="cpu", weights_only=True)
    return OfficialKev(
        backbone=_backbone(directory / "base", directory / "package", mode).eval(),
        tokenizer=AutoTokenizer.from_pretrained(directory / "base"),
        head={name: tensor.float() for name, tensor in held["head"].items()},
        temperature=float(held["temperature"]),
    )


def _backbone(base: Path, package: Path, mode: Mode) -> Any:
    loader: Any = AutoModelForImageTextToText
    model, report = loader.from_pretrained(
        base, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True
    )
    missing = set(report["missing_keys"]) - {"lm_head.weight"}
    if missing or report["mismatched_keys"]:
        raise RuntimeError(f"{base}: missing {missing}, misshapen {report['mismatched_keys']}")
    adapted = PeftModel.from_pretrained(model.model.language_model, package)
    _check_pairs(adapted, package)
    if mode == "unmerged":
        return adapted
    # FP32 merge, then one cast of every weight, as the served ones are; then computed in FP32.
    # Weights only: a cast of the whole module would round the rotary frequencies too.
    merged = adapted.merge_and_unload(safe_merge=True)
    for parameter in merged.parameters():
        parameter.data = parameter.data.to(torch.bfloat16).float()
    return merged


def _check_pairs(adapted: Any, package: Path) -> None:
    """PEFT drops a name it doesn't know and only warns of one it misses; count both."""
    from safetensors import safe_open

    with safe_open(package / "adapter_model.safetensors", "pt") as file:
        stored = {name.replace(".default.", ".") for name in file.keys()}  # noqa: SIM118
    held = {n.replace(".default.", ".") for n, _ in adapted.named_parameters() if "lora_" in n}
    if stored != held:
        raise RuntimeError(f"{package}: {sorted(stored ^ held)[:4]} are not in both places")


def capture(official: OfficialKev, request: Mapping[str, Any]) -> dict[str, Any]:
    """Rows (branch ids, read-outs, hidden states, logits), answers and usage of one request."""
    packed = pack(request, official.encode)
    rows, answers = [], {}
    for branch in packed.branches:
        hidden = official.hidden(packed.state + branch.ids, [*branch.options, branch.decide])
        logits = pointer_logits(hidden[:-1], hidden[-1], official.head).tolist()
        rows.append(
            {
                "question": branch.question,
                "ids": branch.ids,
                "readouts": [*branch.options, branch.decide],
                "logits": logits,
                # nine digits carry every FP32 value exactly
                "hidden": [[float(f"{v:.9g}") for v in row] for row in hidden.tolist()],
            }
        )
        answers[branch.question] = answer(
            request["questions"][branch.question], logits, official.temperature
        )
    usage = {
        "input_tokens": packed.input_tokens,
        "output_tokens": output_tokens(answers, official.encode),
    }
    return {"state": packed.state, "rows": rows, "answers": answers, "usage": usage}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path, help="holds base/ and package/")
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


if __name__ == "__main__":
    main()
