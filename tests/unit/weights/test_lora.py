from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from systone.errors import ConfigError
from systone.weights.lora import blas_merge, check_rule, compare, low_rank_product, merge
from systone.weights.synth.noise import normal
from tests.unit.weights.micro import Tensors, edit


def parts(out: int = 300, fan_in: int = 200, rank: int = 8) -> tuple[torch.Tensor, ...]:
    def draw(name: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return normal(shape, seed=3, name=name, std=0.3, dtype=dtype)

    return (
        draw("w", out, fan_in, dtype=torch.bfloat16),
        draw("a", rank, fan_in),
        draw("b", out, rank),
    )


def test_the_product_is_a_rounded_sum_over_rising_ranks() -> None:
    _, a, b = parts(out=5, fan_in=4)
    found = low_rank_product(a, b)
    for i in range(5):
        for j in range(4):
            total = torch.tensor(0.0)
            for r in range(8):
                total = total + (b[i, r] * a[r, j])  # two roundings a term
            assert found[i, j] == total


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rule", ["double-rounding", "single-rounding", "unrounded"])
def test_merging_gives_the_same_bits_with_any_thread_count(rule: str, threads: int) -> None:
    w, a, b = parts(out=2000, fan_in=700)
    torch.set_num_threads(3)
    first = merge(w, a, b, 2.0, check_rule(rule))
    torch.set_num_threads(threads)
    again = merge(w, a, b, 2.0, check_rule(rule))
    assert torch.equal(first, again)


def test_rows_merged_together_or_alone_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    w, a, b = parts()
    whole = merge(w, a, b, 2.0, "double-rounding")
    monkeypatch.setattr("systone.weights.lora._BLOCK_CPU", 400)  # two rows at a time
    assert torch.equal(merge(w, a, b, 2.0, "double-rounding"), whole)


def test_the_rules_round_where_their_names_say() -> None:
    w, a, b = parts()
    exact = w.double() + 2.0 * low_rank_product(a, b).double()
    unrounded = merge(w, a, b, 2.0, "unrounded")
    single = merge(w, a, b, 2.0, "single-rounding")
    double = merge(w, a, b, 2.0, "double-rounding")
    assert torch.equal(unrounded, exact.float())
    assert torch.equal(single, unrounded.bfloat16())
    delta = (2.0 * low_rank_product(a, b)).bfloat16()
    assert torch.equal(double, w + delta)
    assert not torch.equal(single, double)


@pytest.mark.slow
def test_double_rounding_is_peft_safe_merge_but_for_its_product(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    w, a, b = parts(out=256, fan_in=128)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj = torch.nn.Linear(128, 256, bias=False, dtype=torch.bfloat16)

    net = Net()
    net.proj.weight.data = w.clone()
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=["proj"])
    wrapped = peft.get_peft_model(net, config, autocast_adapter_dtype=True)
    lora = wrapped.base_model.model.proj
    lora.lora_A["default"].weight.data = a.clone()
    lora.lora_B["default"].weight.data = b.clone()
    theirs = wrapped.merge_and_unload(safe_merge=True).proj.weight.detach()
    assert torch.equal(blas_merge(w, a, b, 2.0), theirs)
    found = compare(merge(w, a, b, 2.0, "double-rounding"), theirs)
    assert found.differing <= found.total // 1000
    assert compare(merge(w, a, b, 2.0, "single-rounding"), theirs).differing > found.differing


def test_compare_counts_steps_on_the_number_line() -> None:
    ours = torch.tensor([1.0, -1.0, 0.0, 2.0], dtype=torch.bfloat16)
    theirs = torch.tensor([1.0078125, -1.0, -0.0, 1.984375], dtype=torch.bfloat16)
    found = compare(ours, theirs)
    assert (found.differing, found.total, found.max_ulp) == (2, 4, 2)
    across = compare(ours[2:3] - 1e-40, torch.tensor([1e-40], dtype=torch.bfloat16))
    assert across.max_ulp == 2  # the smallest numbers on either side of zero
    assert (found + across).total == 5


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="none of: double-rounding, single-rounding, unrounded"):
        check_rule("exact")


# --- reading adapters ---------------------------------------------------------------------------

NAME = "base_model.model.layers.0.linear_attn.in_proj_qkv.lora_A.weight"


def read(copy: Path) -> Any:
    from systone.nn.config import TextConfig
    from systone.weights.families import by_name
    from systone.weights.lora import read_adapter

    config = TextConfig.from_json(json.loads((copy / "base" / "config.json").read_bytes()))
    family = by_name("open-jev-9b")
    return read_adapter(adapter(copy), family.adapted(config), family.rank, family.alpha)


def adapter(copy: Path) -> Path:
    return copy / "package" / "checkpoint" / "adapter"


def test_every_pair_is_read(micro_9b: Path) -> None:
    found = read(micro_9b)
    # three linear layers with two targets each, one attention layer with four
    assert len(found.pairs) == 3 * 2 + 4
    assert found.scale == 2.0
    assert not any("in_proj_z" in name or "mlp" in name for name in found.pairs)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t.pop(NAME), "lora_A of 'layers.0.linear_attn.in_proj_qkv.weight' is missing"),
        (
            lambda t: t.update({NAME.replace("lora_A", "lora_C"): t[NAME].clone()}),
            "adapts no target",
        ),
        (lambda t: t.update({NAME.replace("qkv", "z"): t[NAME].clone()}), "adapts no target"),
        (lambda t: t.update({NAME.replace(".0.", ".9."): t[NAME].clone()}), "adapts no target"),
        (lambda t: t.update({NAME: t[NAME][:4].clone()}), "has shape [4, 32], not [8, 32]"),
        (lambda t: t.update({NAME: t[NAME].bfloat16()}), "has dtype BF16, not F32"),
        (lambda t: t[NAME].view(-1)[3:4].fill_(float("nan")), "not finite"),
        (
            lambda t: t.update({NAME.replace("base_model.model.", ""): t[NAME].clone()}),
            "under two names",
        ),
    ],
)
def test_a_bent_adapter_is_refused(
    copy_9b: Path, change: Callable[[Tensors], None], complaint: str
) -> None:
    path = adapter(copy_9b) / "adapter_model.safetensors"
    edit(path, change)
    with pytest.raises(ConfigError) as refused:
        read(copy_9b)
    assert str(refused.value).startswith(f"{path}: ")
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("r", 16),
        ("lora_alpha", 8),
        ("bias", "all"),
        ("peft_type", "LOHA"),
        ("use_dora", True),
        ("use_rslora", True),
        ("rank_pattern", {"q_proj": 4}),
        ("modules_to_save", ["norm"]),
        ("trainable_token_indices", [1]),
        ("target_modules", ["q_proj"]),
        ("target_modules", None),
    ],
)
def test_another_kind_of_adapter_is_refused(copy_9b: Path, field: str, value: object) -> None:
    path = adapter(copy_9b) / "adapter_config.json"
    config = json.loads(path.read_bytes())
    config[field] = value
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=str(path)):
        read(copy_9b)
