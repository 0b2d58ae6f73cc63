"""transformers in this process as a peer: one padded batch of candidate prompts a request.

What a user of the official model has without an engine: bf16, SDPA, the fast kernels transformers
finds installed, merged adapter, Open-Jev prompts. Imported only when it is measured; needs the
`oracles` extra. One request at a time. Axes: N prompts, L tokens, h hidden.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForImageTextToText, AutoTokenizer

from systone.bench.asking import Outcome
from systone.bench.replies import Expectation, InvalidReplyError, answers_digest
from systone.bench.run import Questions
from systone.models.open_jev.answers import answer, num_rows
from systone.models.open_jev.checks import read_request
from systone.models.open_jev.prompt import whole_prompts
from systone.models.synthetic import PREFIX, tokenizer_directory
from systone.protocol import systemone
from systone.protocol.types import Decision, Usage

__all__ = ["TransformersPeer"]

_FAST = ("fla", "causal_conv1d")  # what transformers looks for


@dataclass(frozen=True, slots=True)
class TransformersPeer:
    """A text backbone, its FP32 head and its tokenizer on one device."""

    backbone: Any
    tokenizer: Any
    head: tuple[Tensor, Tensor]  # [1, h], [1]
    temperature: float
    device: torch.device
    weights: str

    @classmethod
    def load(cls, directory: Path, *, random_weights: bool = False) -> Self:
        """`directory` holds base/ and, unless the weights are random, package/checkpoint/. With
        random weights a package's name will do, with `:tiny` for less than its full size.

        Raises ConfigError for an unknown name, OSError or ValueError as transformers does for
        what is missing."""
        if random_weights and not directory.exists():
            with _written(str(directory)) as written:
                return cls.load(written, random_weights=True)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        base, checkpoint = directory / "base", directory / "package" / "checkpoint"
        if random_weights:
            backbone = _random(base, dtype, device)
            hidden = backbone.config.hidden_size
            head = (torch.randn(1, hidden, device=device) / hidden**0.5, torch.zeros(1).to(device))
            temperature = 1.0
        else:
            backbone = _merged(base, checkpoint / "adapter", dtype, device)
            stored = torch.load(checkpoint / "head.pt", map_location=device, weights_only=True)
            head = (stored["weight"].float(), stored["bias"].float())
            temperature = float(
                json.loads((checkpoint / "temperature.json").read_bytes())["temperature"]
            )
        return cls(
            backbone.eval(),
            AutoTokenizer.from_pretrained(base, padding_side="right"),
            head,
            temperature,
            device,
            "random" if random_weights else "merged",
        )

    def answer(self, asked: Questions, progress: Callable[[int], None]) -> list[Outcome]:
        """One request after another. Raises what torch raises: a peer that breaks ends its run."""
        outcomes = []
        for number, (body, expected) in enumerate(zip(asked.bodies, asked.expected, strict=True)):
            outcomes.append(self._one(body, expected))
            progress(number + 1)
        return outcomes

    def modes(self) -> dict[str, Any]:
        fast = [name for name in _FAST if importlib.util.find_spec(name) is not None]
        return {
            "transformers": {
                "version": transformers.__version__,
                "device": str(self.device),
                "dtype": str(next(self.backbone.parameters()).dtype).removeprefix("torch."),
                "attention": self.backbone.config._attn_implementation,
                "fast_kernels_installed": ", ".join(fast) or "none",
                "weights": self.weights,
            }
        }

    def sample(self) -> dict[str, Any]:
        on_gpu = self.device.type == "cuda"
        return {
            "at_s": round(time.time(), 3),
            "device_s": None,
            "device_active_s": None,
            "device_peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
            "device_used_bytes": torch.cuda.memory_reserved() if on_gpu else None,
            "rss_bytes": None,
        }

    def _one(self, body: bytes, expected: Expectation) -> Outcome:
        begin = time.perf_counter_ns()
        reply, device_ns = self._decide(body)
        failure = read = None
        try:
            read = expected.read(reply)
        except InvalidReplyError as error:
            failure = f"invalid reply: {error}"
        end = time.perf_counter_ns()
        return Outcome(
            begin_ns=begin,
            wall_ns=end - begin,
            status=200,
            failure=failure,
            input_tokens=read.input_tokens if read else None,
            answers=answers_digest(read.answers) if read else None,
            server_ms={"device": device_ns / 1e6},
            received_bytes=len(reply),
        )

    def _decide(self, body: bytes) -> tuple[bytes, int]:
        """A reply's body, and nanoseconds from the first copy to the device to the scores."""
        request = systemone.parse(body, dialect="default")
        text = read_request(request, strict=False)
        prompts = [p for question in text.questions for p in whole_prompts(text.state, question)]
        batch = self.tokenizer(prompts, add_special_tokens=False, padding=True, return_tensors="pt")
        lengths = batch["attention_mask"].sum(dim=1)
        began = time.perf_counter_ns()
        scores = self._scores(batch, lengths)
        device_ns = time.perf_counter_ns() - began
        answers, at = {}, 0
        for name, question in request.questions.items():
            count = num_rows(question)
            answers[name] = answer(question, scores[at : at + count], self.temperature)
            at += count
        decision = Decision("transformers", answers, Usage(int(lengths.sum())))
        return systemone.render(decision, dialect="default", extras=False), device_ns

    @torch.inference_mode()
    def _scores(self, batch: Mapping[str, Tensor], lengths: Tensor) -> Sequence[float]:
        """The head's score of each prompt's last token: [N] as floats."""
        out = self.backbone(
            input_ids=batch["input_ids"].to(self.device),
            attention_mask=batch["attention_mask"].to(self.device),
            use_cache=False,
        )
        last = lengths.to(self.device) - 1
        hidden = out.last_hidden_state[torch.arange(len(last), device=self.device), last]
        weight, bias = self.head
        scores: list[float] = (hidden.float() @ weight[0] + bias).tolist()  # waits for the device
        return scores


def _random(base: Path, dtype: torch.dtype, device: torch.device) -> Any:
    """The text backbone of a configuration with weights drawn on the device: speed, no sense."""
    from transformers import Qwen3_5TextModel

    config = AutoConfig.from_pretrained(base).get_text_config()
    make: Any = Qwen3_5TextModel._from_config
    with torch.device(device):
        return make(config, dtype=dtype, attn_implementation="sdpa")


@contextmanager
def _written(name: str) -> Iterator[Path]:
    """A directory that holds what random weights need of a package."""
    from systone.weights.synth.specs import find

    package, _, size = name.removeprefix(PREFIX).partition(":")
    config = find(package, size or "full").backbone.config()
    with tokenizer_directory() as base, tempfile.TemporaryDirectory() as scratch:
        (base / "config.json").write_text(json.dumps(config))
        (Path(scratch) / "base").symlink_to(base)
        yield Path(scratch)


def _merged(base: Path, adapter: Path, dtype: torch.dtype, device: torch.device) -> Any:
    """The text backbone with the adapter merged, as the official loader merges it."""
    from peft import PeftModel

    loader: Any = AutoModelForImageTextToText
    model = loader.from_pretrained(base, dtype=torch.bfloat16, attn_implementation="sdpa")
    backbone = model.model.language_model.to(device)
    merged = PeftModel.from_pretrained(backbone, adapter).merge_and_unload(safe_merge=True)
    return merged.to(dtype)
