from __future__ import annotations

from pathlib import Path

import pytest
import torch

from systone.errors import ConfigError
from systone.weights.merge import blas_merge, check_rule, compare, low_rank_product, merge
from systone.weights.synth.noise import normal


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
    monkeypatch.setattr("systone.weights.merge._BLOCK_CPU", 400)  # two rows at a time
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
