"""From a directory of a causal language model to a served decision model.

Owns which directories are this family's, which backend runs them, and the wiring. The only file of
the family that needs torch and transformers, and only inside its functions.
"""

from __future__ import annotations

import hashlib
import logging
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from systone.errors import ConfigError
from systone.models.base import Adapter, Executor, Loaded
from systone.models.label.adapter import LabelAdapter
from systone.models.label.card import Source, card_of
from systone.models.label.frame import Frame, chat_frame, plain_frame
from systone.models.label.labels import MAX_LABELS, Labels, find_labels
from systone.models.label.options import LabelOptions, Mode, Orders, read_options
from systone.models.label.presets import PRESETS, Listing, Preset, Text
from systone.models.label.rows import RowPlanner
from systone.models.label.settings_file import read_object
from systone.models.label.statements import StatementAdapter
from systone.models.label.tokens import PromptTokens, control_tokens
from systone.models.label.warmup import WARMUP
from systone.models.placement import budget_of, device_of, dtype_of, runner_of
from systone.models.qwen_tokens import CLASS_PATTERN, FILE_PATTERN
from systone.plan import Sharing

if TYPE_CHECKING:
    import torch

    from systone.config import ModelSettings
    from systone.execute.base import PassRunner
    from systone.execute.causal_lm_text import CausalLmText

__all__ = ["load_directory", "recognises"]

log = logging.getLogger("systone.models.label")

# What directories of other families have at their top: packages, exports, marker heads.
_OTHERS = ("checkpoint", "package", "open_jev_export.json", "rl_agent_config.json")
OWN_TYPES = ("qwen3_5", "qwen3_5_text")  # `model_type`s that our own text stack runs
MAX_TOKENS = 16_384  # of one row, unless the operator asks for more


def recognises(directory: Path) -> bool:
    """Whether the directory looks like a causal language model: a configuration, a tokenizer and
    weights at its top, and no decision package of another family."""
    if not (directory / "config.json").is_file() or (directory / "model.json").exists():
        return False
    if any((directory / name).exists() for name in _OTHERS):
        return False
    tokenizer = any((directory / f).exists() for f in ("tokenizer.json", "tokenizer_config.json"))
    weights = any(directory.glob("*.safetensors")) or any(directory.glob("*.bin"))
    return tokenizer and weights and _is_causal(directory)


def load_directory(
    directory: Path, settings: ModelSettings, options: LabelOptions | None = None
) -> Loaded:
    """Serve a causal language model by its label tokens or by statements.

    `options` None: what the settings say, else `decision.json` beside the model, else the
    defaults. Raises ConfigError: one line; for labels that can't be read it names the label and
    its ids."""
    _require_extras(directory)
    from systone.execute.causal_lm_text import open_text

    chosen = options or read_options(
        directory,
        preset=settings.preset,
        mode=cast("Mode | None", settings.readout),
        orders=cast("Orders | None", settings.orders),
    )
    text = open_text(directory)
    backend = _backend(directory, chosen)
    tokens = PromptTokens(
        text.backend,
        controls=control_tokens(text.backend, text.template),
        first=text.first,
        safe_cuts=_is_qwen(text.backend),
    )
    source = _source(directory, text)
    limit = settings.max_length or min(source.max_positions, MAX_TOKENS)
    if limit > source.max_positions:
        raise ConfigError(f"max_length {limit}: {source.name} has {source.max_positions} positions")
    if chosen.mode == "statement":
        card = card_of(source, chosen, max_tokens=limit, max_options=MAX_LABELS)
        return Loaded(
            StatementAdapter(card, tokens, chosen), _statements(directory, settings), WARMUP
        )
    return _by_labels(directory, settings, chosen, backend, text, tokens, source, limit)


def _require_extras(directory: Path) -> None:
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"{directory}: this model needs {' and '.join(missing)}; install systone[torch,lm]"
        )


def _by_labels(
    directory: Path,
    settings: ModelSettings,
    options: LabelOptions,
    backend: str,
    text: CausalLmText,
    tokens: PromptTokens,
    source: Source,
    limit: int,
) -> Loaded:
    preset = PRESETS[options.preset]
    framed = tokens.framed(_frame(preset, text, tokens))
    labels = find_labels(tokens.encode_real, framed.context(_sample(preset)), preset)
    count = len(labels.letters)
    if count < MAX_LABELS:
        log.warning(
            "%s: only %d labels are one token each; Choices of more options are refused",
            source.name, count,
        )  # fmt: skip
    sharing = Sharing(settings.effective_policy)
    card = card_of(source, options, max_tokens=limit, max_options=count)
    adapter: Adapter = LabelAdapter(
        card, RowPlanner(preset, labels, options.orders), framed, labels, options, sharing
    )
    executor = _passes(directory, settings, backend, labels, sharing, limit)
    return Loaded(adapter, executor, WARMUP)


def _passes(
    directory: Path,
    settings: ModelSettings,
    backend: str,
    labels: Labels,
    sharing: Sharing,
    longest_row: int,
) -> Executor[Any]:
    from systone.execute.passes import PassExecutor

    device, dtype = _place(settings)
    runner: PassRunner
    if backend == "own":
        runner = _own_runner(directory, settings, labels, dtype, longest_row)
    else:
        from systone.execute.causal_lm import CausalLm
        from systone.execute.causal_lm_runner import CausalLmRunner

        runner = CausalLmRunner(CausalLm(directory, device, dtype), labels.token_ids)
    return PassExecutor(runner, budget_of(settings), sharing)


def _own_runner(
    directory: Path, settings: ModelSettings, labels: Labels, dtype: torch.dtype, longest_row: int
) -> PassRunner:
    from systone.nn.label_model import LabelModel
    from systone.weights.plain import load_plain

    def build(place: torch.device) -> LabelModel:
        weights = load_plain(directory, labels.token_ids, dtype=dtype, device=place)
        return LabelModel.of_tensors(
            weights.tensors, weights.config, weights.rows, dtype=dtype, device=place, consume=True
        )

    return runner_of(build, settings, longest_row=longest_row)


def _statements(directory: Path, settings: ModelSettings) -> Executor[Any]:
    from systone.execute.causal_lm import CausalLm
    from systone.execute.causal_lm_statements import StatementExecutor

    return StatementExecutor(CausalLm(directory, *_place(settings)))


def _backend(directory: Path, options: LabelOptions) -> str:
    """Raises ConfigError for `own` on a model that isn't ours to run, or with statements."""
    kind = read_object(directory / "config.json").get("model_type")
    ours = kind in OWN_TYPES and options.mode == "label"
    if options.backend == "own" and not ours:
        raise ConfigError(
            f"{directory}: backend own reads labels of {', '.join(OWN_TYPES)}, not "
            f"{options.mode}s of {kind!r}"
        )
    if options.backend == "auto":
        return "own" if ours else "transformers"
    return options.backend


def _frame(preset: Preset, text: CausalLmText, tokens: PromptTokens) -> Frame:
    if preset.layout == "plain" or not text.template:
        return plain_frame(preset)
    before, after = text.around(preset.system)
    return chat_frame(before, after, preset, tokens.controls)


def _sample(preset: Preset) -> Text:
    """Any row of the format: what ends it is the same for all."""
    return preset.write("x", Listing("noul", "x", preset.words.sides, (None, None), ("A", "B")))


def _is_qwen(backend: Any) -> bool:
    """The split patterns for which a cut after `Question:` is proven."""
    splitter = backend.pre_tokenizer
    patterns = [] if splitter is None else [CLASS_PATTERN, FILE_PATTERN]
    state = b"" if splitter is None else splitter.__getstate__()
    return any(_json_text(pattern) in state for pattern in patterns)


def _json_text(text: str) -> bytes:
    import json

    return json.dumps(text, ensure_ascii=False).encode()


def _is_causal(directory: Path) -> bool:
    """By the configuration's architectures; a model that names none is taken at its word."""
    try:
        names = read_object(directory / "config.json").get("architectures") or []
    except ConfigError:
        return False
    return not names or any(
        str(n).endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")) for n in names
    )


def _source(directory: Path, text: CausalLmText) -> Source:
    config = directory / "config.json"
    digest = hashlib.sha256(config.read_bytes())
    for path in sorted(directory.iterdir()):
        if path.is_file() and path.suffix in (".safetensors", ".bin", ".json"):
            digest.update(f"{path.name}:{path.stat().st_size}\n".encode())
    return Source(
        name=directory.resolve().name,
        revision=f"files.sha256.{digest.hexdigest()[:16]}",
        release_date=time.strftime("%Y-%m-%d", time.gmtime(config.stat().st_mtime)),
        architecture=text.architecture,
        max_positions=text.max_positions or MAX_TOKENS,
    )


def _place(settings: ModelSettings) -> tuple[torch.device, torch.dtype]:
    device = device_of(settings.device)
    return device, dtype_of(settings.dtype, device)
