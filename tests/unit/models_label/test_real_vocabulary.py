"""The Qwen3.5 vocabulary: 255 labels under every format, and joined pieces equal whole prompts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from systone.execute.causal_lm_text import CausalLmText, open_text
from systone.models.label.labels import find_labels
from systone.models.label.load import _frame, _is_qwen, _sample
from systone.models.label.presets import PRESETS, Listing, Text
from systone.models.label.tokens import PromptTokens, control_tokens
from systone.weights.synth.specs import find
from systone.weights.synth.tokenizer_file import tokenizer_config, tokenizer_json
from tests.unit.models_label.tiny_models import CHATML
from tests.unit.models_open_jev.hostile import text as hostile_text

pytestmark = pytest.mark.slow

NUM_PROMPTS = 1500  # of each format


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> CausalLmText:
    directory: Path = tmp_path_factory.mktemp("qwen3.5")
    config = find("open-jev-9b", "tiny").backbone.config()
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer.json").write_bytes(tokenizer_json())
    told = tokenizer_config("Qwen2Tokenizer") | {"chat_template": CHATML}
    (directory / "tokenizer_config.json").write_text(json.dumps(told))
    return open_text(directory)


@pytest.fixture(scope="module")
def tokens(text: CausalLmText) -> PromptTokens:
    assert _is_qwen(text.backend)
    controls = control_tokens(text.backend, text.template)
    return PromptTokens(text.backend, controls=controls, safe_cuts=True)


@pytest.mark.parametrize("preset", list(PRESETS))
def test_255_labels_and_pieces_that_join(
    text: CausalLmText, tokens: PromptTokens, preset: str
) -> None:
    frame = _frame(PRESETS[preset], text, tokens)
    framed = tokens.framed(frame)
    context = framed.context(_sample(PRESETS[preset]))
    labels = find_labels(tokens.encode_real, context, PRESETS[preset])
    assert len(labels.letters) == 255
    rng = random.Random(11)
    rows = [_hostile(preset, tokens.controls, rng) for _ in range(NUM_PROMPTS)]
    paths = framed.rows(rows)
    whole = tokens.encode_real([frame.whole("".join(row.pieces)) for row in rows])
    for row, path, ids in zip(rows, paths, whole, strict=True):
        joined = [int(i) for segment in path for i in segment.tokens]
        assert row.apart or joined == ids, row.pieces


def _hostile(preset: str, controls: tuple[str, ...], rng: random.Random) -> Text:
    """A row of hostile texts that spell no control token: only then is the whole prompt's own
    tokenisation what is wanted."""
    state, question, option = (_without(hostile_text(rng), controls) for _ in range(3))
    listing = Listing("choice", question, ("a", "b"), (option, None), ("A", "B"))
    return PRESETS[preset].write(state, listing)


def _without(text: str, controls: tuple[str, ...]) -> str:
    while any(control in text for control in controls):
        for control in controls:
            text = text.replace(control, "")
    return text
