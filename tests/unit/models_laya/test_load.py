"""Loading: every file and tensor accounted for, and what is refused at start."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from systone.errors import ConfigError
from systone.models.laya import recognises
from systone.weights.synth.laya import synthesize_laya


@pytest.fixture
def copy(checkpoint: Path, tmp_path: Path) -> Path:
    """The checkpoint without its manifest, to be bent."""
    out = tmp_path / "copy"
    shutil.copytree(checkpoint, out)
    (out / "systone_manifest.json").unlink()
    return out


def change_json(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_tensors(directory: Path, change: Callable[[dict], object]) -> None:
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


def test_the_layout_is_recognised_by_its_files(checkpoint, tmp_path) -> None:
    assert recognises(checkpoint)
    assert not recognises(tmp_path)


def test_the_card_says_what_is_served(load, checkpoint) -> None:
    card = load().adapter.card
    assert card.name == "laya-synthetic-tiny"
    assert not card.calibrated
    assert card.limits.max_tokens == 320
    assert card.limits.max_levels == 32
    assert card.limits.max_options == 78
    assert load(max_length=1200).adapter.card.limits.max_options == 255
    assert len(card.revision) == 40


def test_without_a_manifest_the_revision_is_the_hash_of_the_weights(load, copy) -> None:
    card = load(copy).adapter.card
    assert card.revision.startswith("sha256:")
    assert card.name == "copy"
    assert card.calibrated


def test_a_changed_file_is_refused_by_the_manifest(load, checkpoint, tmp_path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(checkpoint, out)
    change_json(out / "rl_agent_config.json", temperature=[1, 1, 1])
    with pytest.raises(ConfigError, match=r"rl_agent_config\.json: SHA-256 differs"):
        load(out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("scorer.3.bias"), "tensor 'scorer.3.bias' is missing"),
        (lambda t: t.pop("encoder.layers.3.mlp.Wo.weight"), "mlp.Wo.weight' is missing"),
        (lambda t: t.update(extra=torch.zeros(1)), "tensor 'extra' is not part of this model"),
        (
            lambda t: t.update({"encoder.layers.0.attn_norm.weight": torch.ones(128)}),
            "layers.0.attn_norm.weight' is not part",
        ),
        (lambda t: t.update({"type_emb.weight": torch.zeros(2, 128)}), "has shape"),
        (lambda t: t.update({"act_head.2.bias": torch.zeros(5)}), "act_head.2.bias' has shape"),
        (
            lambda t: t.update({"type_emb.weight": torch.zeros(3, 128, dtype=torch.int32)}),
            "dtype I32",
        ),
        (lambda t: t["scorer.3.bias"].fill_(torch.nan), "not finite"),
    ],
)
def test_weights_are_accounted_for_one_by_one(load, copy, change, message) -> None:
    change_tensors(copy, change)
    with pytest.raises(ConfigError, match=message):
        load(copy)


def test_the_act_head_may_be_absent(load, copy) -> None:
    change_tensors(
        copy, lambda t: [t.pop(n) for n in list(t) if n.startswith(("act_head", "temperature"))]
    )
    load(copy)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"option_layout": "parallel"}, "option_layout 'parallel' is not served"),
        ({"head_layers": -1}, "head_layers"),
        ({"encoder": None}, "encoder is None"),
        ({"temperature": [1.0, 2.0]}, "not 3 numbers"),
        ({"temperature": [1.0, 2.0, True]}, "temperature of noul is True"),
        ({"temperature_by_options": {"choice:4": 1.0}}, "KIND:BAND"),
        ({"max_len": 90}, "not between 100"),
        ({"max_len": 9000}, "and the body's 8192 positions"),
        ({"act_costs": [1]}, "act_costs"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused(load, copy, fields, message) -> None:
    change_json(copy / "rl_agent_config.json", **fields)
    with pytest.raises(ConfigError, match=message):
        load(copy)


def test_a_tokenizer_must_name_its_special_tokens_and_fit_the_body(load, copy) -> None:
    config = copy / "tokenizer" / "tokenizer_config.json"
    fields = json.loads(config.read_text())
    config.write_text(json.dumps({k: v for k, v in fields.items() if k != "mask_token"}))
    with pytest.raises(ConfigError, match="no file names the mask_token"):
        load(copy)
    config.write_text(json.dumps(fields | {"mask_token": {"content": "<mask>"}}))
    with pytest.raises(ConfigError, match="mask_token '<mask>' is not in"):
        load(copy)
    config.write_text(json.dumps(fields))
    change_json(copy / "encoder" / "config.json", vocab_size=10)
    with pytest.raises(ConfigError, match="the body 10"):
        load(copy)


def test_a_weight_file_nobody_lists_is_refused(load, copy) -> None:
    (copy / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"pytorch_model\.bin"):
        load(copy)


def test_max_length_lowers_a_row(load) -> None:
    assert load(max_length=128).adapter.card.limits.max_tokens == 128


def test_half_precision_weights_are_served_in_fp32(load, copy, model) -> None:
    change_tensors(copy, lambda t: t.update({n: x.half() for n, x in t.items()}))
    half = load(copy)
    half.executor.start()
    assert half.executor.describe()["dtype"] == "float32"
    (one,), (other,) = (m.executor.execute([m.adapter.prepare(m.warmup[0])]) for m in (half, model))
    half.executor.close()
    assert 0 < abs(one.values - other.values).max() < 0.05


def test_the_same_seed_writes_the_same_files(checkpoint, tmp_path) -> None:
    again = synthesize_laya("tiny", 3, tmp_path / "again")
    other = synthesize_laya("tiny", 4, tmp_path / "other")
    name = "model.safetensors"
    assert (again / name).read_bytes() == (checkpoint / name).read_bytes()
    assert (other / name).read_bytes() != (checkpoint / name).read_bytes()
