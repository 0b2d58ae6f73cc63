"""Synthetic weights remember: faults in state, attention or convolution change their read-outs.

transformers is the forward here, so that these facts don't rest on our own operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import softplus

from systone.weights.synth import serve_recipe
from systone.weights.synth.recipe import SLOWEST_DECAY, STEEPEST_DECAY
from systone.weights.synth.specs import Recipe, find

transformers = pytest.importorskip("transformers")
modeling = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")

NAMES = ("open-jev-9b", "open-jev-27b-v1.1")
TOKENS = 96


def recipe(name: str, **changes: int) -> Recipe:
    tiny = find(name, "tiny")
    sizes = {"hidden": 64, "intermediate": 192, "vocab": 512, **changes}
    return replace(tiny, backbone=replace(tiny.backbone, **sizes))  # type: ignore[arg-type]


def official(made: Recipe, *, default_init: bool = False) -> Any:
    """transformers' text model in FP32 with the recipe's weights, or with its own."""
    config = transformers.models.qwen3_5.configuration_qwen3_5.Qwen3_5TextConfig(
        **made.backbone.text_config()
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = modeling.Qwen3_5TextModel(config).float().eval()
    if not default_init:
        model.load_state_dict(serve_recipe(made, seed=1, merge="unrounded").tensors)
    return model


def ids(rows: int = 2) -> torch.Tensor:
    return torch.randint(0, 512, (rows, TOKENS), generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="module", params=NAMES)
def run(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """The model and a forward over random ids, with all that it shows."""
    model = official(recipe(request.param))
    with torch.no_grad():
        return model, model(ids(), output_hidden_states=True, output_attentions=True)


@pytest.mark.parametrize("name", NAMES)
def test_decay_spans_the_range_over_the_heads_of_every_layer(name: str) -> None:
    tensors = serve_recipe(recipe(name), seed=1).tensors
    layers = [n.removesuffix("A_log") for n in tensors if n.endswith("A_log")]
    assert len(layers) == 6
    for layer in layers:
        rate = tensors[f"{layer}A_log"].double().exp()
        decay = (-rate * softplus(tensors[f"{layer}dt_bias"].double())).exp()
        assert abs(decay.min() - STEEPEST_DECAY) < 0.01
        assert abs(decay.max() - SLOWEST_DECAY) < 0.0001
        rates = decay.log().abs().log().sort().values
        assert (rates.diff() > 0.5).all()  # spread over the range, not heaped at its ends


def test_conv_taps_and_gates_are_of_order_one(run: tuple[Any, Any]) -> None:
    model, _ = run
    seen: dict[str, list[torch.Tensor]] = {"z": [], "b": [], "a": []}

    def keep(kind: str) -> Callable[..., None]:
        return lambda module, args, out: seen[kind].append(out.detach())

    hooks = []
    for layer in model.layers:
        if hasattr(layer, "linear_attn"):
            taps = layer.linear_attn.conv1d.weight
            assert 0.4 < taps.std() < 0.8
            for kind in seen:
                projection = getattr(layer.linear_attn, f"in_proj_{kind}")
                hooks.append(projection.register_forward_hook(keep(kind)))
    with torch.no_grad():
        model(ids())
    for hook in hooks:
        hook.remove()
    for kind, low, high in (("z", 0.7, 1.4), ("b", 0.6, 1.6), ("a", 0.25, 0.8)):
        assert low < torch.cat([o.reshape(-1) for o in seen[kind]]).std() < high


def test_attention_is_far_from_uniform(run: tuple[Any, Any]) -> None:
    _, out = run
    shown = [weights for weights in out.attentions if weights is not None]
    assert len(shown) == 2
    for weights in shown:
        last = weights[:, :, -1].double()
        entropy = -(last * last.clamp_min(1e-30).log()).sum(-1)
        assert (entropy / math.log(TOKENS)).mean() < 0.9
        assert last.amax(-1).mean() > 4 / TOKENS


def test_activations_stay_sane(run: tuple[Any, Any]) -> None:
    _, out = run
    check_sane(out.hidden_states)


@pytest.mark.slow
def test_activations_stay_sane_through_64_layers() -> None:
    model = official(recipe("open-jev-27b-v1.1", layers=64, hidden=32, intermediate=96))
    with torch.no_grad():
        check_sane(model(ids(rows=1)[:, :48], output_hidden_states=True).hidden_states)


def check_sane(states: tuple[torch.Tensor, ...]) -> None:
    sizes = [state.square().mean().sqrt().item() for state in states]
    assert all(math.isfinite(size) for size in sizes)
    assert 0.8 < sizes[0] < 1.2
    assert all(0.7 < size < 4 for size in sizes)
    # Layers, not the embedding, decide the read-out.
    assert sizes[-2] > 1.5 * sizes[0]


def without_state(model: Any, tokens: torch.Tensor) -> float:
    """Relative change of the last hidden state when the first half's recurrent state is lost."""

    def last(drop: bool) -> torch.Tensor:
        first = model(tokens[:, : TOKENS // 2], use_cache=True)
        cache = first.past_key_values
        for layer in cache.layers:
            if drop and hasattr(layer, "recurrent_states"):
                layer.recurrent_states[0].zero_()
        # Token by token, which is how transformers continues from a state.
        for position in range(TOKENS // 2, TOKENS // 2 + 8):
            out = model(tokens[:, position : position + 1], past_key_values=cache, use_cache=True)
        return out.last_hidden_state[:, -1]

    with torch.no_grad():
        kept, dropped = last(drop=False), last(drop=True)
    return ((kept - dropped).norm() / kept.norm()).item()


@pytest.mark.parametrize("name", NAMES)
def test_losing_the_recurrent_state_moves_the_readout(name: str) -> None:
    assert without_state(official(recipe(name)), ids()) > 0.3


def test_default_weights_would_not_notice() -> None:
    assert without_state(official(recipe("open-jev-9b"), default_init=True), ids()) < 0.05


def test_the_first_token_reaches_the_last(run: tuple[Any, Any]) -> None:
    model, out = run
    other = ids()
    other[:, 0] = (other[:, 0] + 1) % 512
    with torch.no_grad():
        moved = model(other).last_hidden_state[:, -1]
    kept = out.last_hidden_state[:, -1]
    assert (kept - moved).norm() / kept.norm() > 0.02
