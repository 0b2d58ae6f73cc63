"""A causal language model that transformers loads: one sequence a forward, continued from a cache.

Owns loading, the forward and the question whether the model's cache can be continued by several
tokens. Knows no questions and no labels. Files come from a local directory only, code from none.
T new tokens, V vocabulary.
"""

from __future__ import annotations

import copy
import inspect
import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from systone.errors import ConfigError, EngineDownError
from systone.execute.torch_runner import exact_products

__all__ = ["CausalLm", "Read"]

log = logging.getLogger(__name__)

# What a model keeps of the tokens it has read; opaque, copied before it is continued.
Read = Any

_PROBE = 29  # tokens of the start-up probe, cut after 17
# Largest relative difference (root mean square over centred logits) between a continued and a
# whole forward: rounding of the dtype; a cache that loses its past is off by about 1.
_CONTINUED = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.03}


class CausalLm:
    """Used by one thread. `forward` before `start` or after `close` raises EngineDownError."""

    def __init__(self, directory: Path, device: torch.device, dtype: torch.dtype) -> None:
        self._directory = directory
        self._device = device
        self._dtype = dtype
        self._model: Any = None
        self._last_only: Mapping[str, int] = {}
        self._continues = False
        self._state: Mapping[str, Any] = {"backend": "transformers", "device": str(device)}

    def start(self) -> None:
        """Load the weights and probe the cache. Raises ConfigError: one line."""
        from transformers import AutoModelForCausalLM, __version__
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                self._directory,
                dtype=self._dtype,
                local_files_only=True,
                trust_remote_code=False,
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise ConfigError(
                f"{self._directory}: transformers can't load it ({_first_line(error)})"
            ) from error
        self._model = model.to(self._device).eval()
        keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if keeps else {}
        self._continues = self._probe()
        self._state = {
            **self._state,
            "dtype": str(self._dtype).removeprefix("torch."),
            "architecture": type(model).__name__,
            "continues_its_cache": self._continues,
            "torch": torch.__version__,
            "transformers": __version__,
        }

    @property
    def continues(self) -> bool:
        """Whether a text read in two parts gave what it gives read whole. Valid when started."""
        return self._continues

    def read(self, ids: NDArray[np.integer[Any]], past: Read | None = None) -> tuple[Tensor, Read]:
        """Logits [V] after the last of `ids` [T >= 1], which follow `past`, and what was read.
        `past` is left as it was, so that several texts can follow it."""
        logits, after = self._forward(ids, past, **self._last_only)
        return logits[-1], after

    def read_all(
        self, ids: NDArray[np.integer[Any]], past: Read | None = None
    ) -> tuple[Tensor, Read]:
        """As `read`, with the logits [T, V] after every token."""
        return self._forward(ids, past)

    def whole(self, ids: NDArray[np.integer[Any]]) -> Tensor:
        """Logits [V] after the last token of a text read at once, nothing kept."""
        with self._running() as model:
            output = model(self._tensor(ids), use_cache=False, **self._last_only)
            logits: Tensor = output.logits[0, -1].float()
            return logits

    def close(self) -> None:
        self._model = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def describe(self) -> Mapping[str, Any]:
        return self._state

    def _forward(
        self, ids: NDArray[np.integer[Any]], past: Read | None, **options: Any
    ) -> tuple[Tensor, Read]:
        with self._running() as model:
            output = model(
                self._tensor(ids), past_key_values=copy.deepcopy(past), use_cache=True, **options
            )
            return output.logits[0].float(), output.get("past_key_values")

    def _tensor(self, ids: NDArray[np.integer[Any]]) -> Tensor:
        return torch.as_tensor(ids.astype(np.int64), device=self._device)[None]

    def _running(self) -> _Running:
        if self._model is None:
            raise EngineDownError("the language model is not running")
        return _Running(self._model, self._device)

    def _probe(self) -> bool:
        """A model may keep nothing, or drop its past when several tokens follow at once."""
        config = self._model.config.get_text_config()
        ids = np.arange(_PROBE) * 7919 % min(int(config.vocab_size), 30_000)
        whole = self.whole(ids)
        if not torch.isfinite(whole).all():
            raise ConfigError(f"{self._directory}: the model's logits are not finite")
        try:
            _, past = self.read(ids[:17])
            continued, _ = self.read(ids[17:], past)
        except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
            log.warning("this model's cache can't be continued: %s", _first_line(error))
            return False
        spread = float((whole - whole.mean()).square().mean().sqrt())
        difference = float((continued - whole).square().mean().sqrt())
        limit = _CONTINUED.get(self._dtype, 1e-3)
        if past is None or not math.isfinite(difference) or difference > limit * spread:
            log.warning(
                "this model's cache can't be continued (difference %.3g of spread %.3g): whole "
                "rows are read, nothing is shared", difference, spread,
            )  # fmt: skip
            return False
        return True


class _Running(AbstractContextManager[Any]):
    """torch's switches around one forward; a device that fails is an engine that is down."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self._model = model
        self._device = device
        self._contexts = (torch.inference_mode(), exact_products(device))

    def __enter__(self) -> Any:
        for context in self._contexts:
            context.__enter__()
        return self._model

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(None, None, None)
        if isinstance(error, torch.AcceleratorError):
            raise EngineDownError(f"device {self._device} failed: {error}") from error


def _first_line(error: BaseException) -> str:
    lines: Sequence[str] = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
