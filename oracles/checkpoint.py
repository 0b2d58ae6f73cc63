"""An Open-Jev checkpoint as transformers and PEFT load it: DIR/base and DIR/package/checkpoint,
or a merged export (`open_jev_export.json` beside plain text-model files).

Modes (an export has nothing left to merge, and only the first two):
- fp32: loaded in bf16 and merged by PEFT in bf16 (what is served), then computed in FP32
- bf16: the same weights computed in bf16: the noise of a correct implementation
- unmerged: bf16 base with the adapter beside it in FP32: the official reference
- stored: FP32 base as stored (no cast) with the adapter beside it: no rounding of weights at all
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from peft import PeftModel
from transformers import AutoModel, AutoModelForImageTextToText, AutoTokenizer

from oracles.pure_torch import forbid_tf32, qwen3_5_modeling

Mode = Literal["fp32", "bf16", "unmerged", "stored"]
MODES: tuple[Mode, ...] = get_args(Mode)
EXPORT = "open_jev_export.json"


@dataclass(frozen=True, slots=True, eq=False)
class Official:
    """A text backbone with its adapter applied, its FP32 head and its tokenizer."""

    backbone: Any  # returns .last_hidden_state [batch, tokens, hidden] after the final norm
    tokenizer: Any
    head_weight: torch.Tensor  # [1, hidden]
    head_bias: torch.Tensor  # [1]
    temperature: float

    @torch.inference_mode()
    def hidden(self, ids: list[int]) -> torch.Tensor:
        """Final-norm hidden state [hidden] of the last token, widened to FP32."""
        out = self.backbone(input_ids=torch.tensor([ids]), use_cache=False)
        return torch.as_tensor(out.last_hidden_state[0, -1]).float()

    def logit(self, hidden: torch.Tensor) -> float:
        """The head in FP64, from an FP32 hidden state."""
        return float(hidden.double() @ self.head_weight[0].double() + self.head_bias.double())


def load(directory: Path, mode: Mode) -> Official:
    """Load on the CPU. Raises RuntimeError when a tensor of backbone or adapter is left over."""
    qwen3_5_modeling()
    forbid_tf32()
    if (directory / EXPORT).exists():
        return _load_export(directory, mode)
    checkpoint = directory / "package" / "checkpoint"
    head = torch.load(checkpoint / "head.pt", map_location="cpu", weights_only=True)
    temperature = json.loads((checkpoint / "temperature.json").read_text())["temperature"]
    return Official(
        backbone=_backbone(directory / "base", checkpoint / "adapter", mode).eval(),
        tokenizer=AutoTokenizer.from_pretrained(directory / "base"),
        head_weight=head["weight"].float(),
        head_bias=head["bias"].float(),
        temperature=float(temperature),
    )


def _load_export(directory: Path, mode: Mode) -> Official:
    if mode not in ("fp32", "bf16"):
        raise RuntimeError(f"{directory} is merged already: mode {mode} needs a package")
    facts = json.loads((directory / EXPORT).read_text())
    loader: Any = AutoModel
    backbone, report = loader.from_pretrained(
        directory, dtype=torch.bfloat16, attn_implementation="sdpa", output_loading_info=True
    )
    wrong = set(report["missing_keys"]) | set(report["unexpected_keys"])
    if wrong or report["mismatched_keys"]:
        raise RuntimeError(f"{directory}: {sorted(wrong)[:4]}, {report['mismatched_keys']}")
    return Official(
        backbone=(backbone.float() if mode == "fp32" else backbone).eval(),
        tokenizer=AutoTokenizer.from_pretrained(directory),
        head_weight=torch.tensor(facts["head_weight"], dtype=torch.float32)[None],
        head_bias=torch.tensor([facts["head_bias"]], dtype=torch.float32),
        temperature=float(facts["temperature"]),
    )


def _backbone(base: Path, adapter: Path, mode: Mode) -> Any:
    loader: Any = AutoModelForImageTextToText
    model, report = loader.from_pretrained(
        base,
        dtype=torch.float32 if mode == "stored" else torch.bfloat16,
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    # The decision head replaces the language model's: a checkpoint may leave that out.
    missing = set(report["missing_keys"]) - {"lm_head.weight"}
    if missing or report["mismatched_keys"]:
        raise RuntimeError(f"{base}: missing {missing}, misshapen {report['mismatched_keys']}")
    adapted = PeftModel.from_pretrained(model.model.language_model, adapter)
    _check_pairs(adapted, adapter)
    if mode in ("unmerged", "stored"):
        return adapted
    merged = adapted.merge_and_unload(safe_merge=True)
    return merged.float() if mode == "fp32" else merged


def _check_pairs(adapted: Any, adapter: Path) -> None:
    """PEFT drops a name it doesn't know and only warns of one it misses; count both."""
    from safetensors import safe_open

    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        stored = {name.replace(".default.", ".") for name in file.keys()}  # noqa: SIM118
    held = {n.replace(".default.", ".") for n, _ in adapted.named_parameters() if "lora_" in n}
    if stored != held:
        raise RuntimeError(f"{adapter}: {sorted(stored ^ held)[:4]} are not in both places")
