from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from systone.errors import ConfigError
from systone.weights.checkpoint import open_checkpoint
from systone.weights.shapes import text_tensors
from systone.weights.synth import SynthSource
from systone.weights.writer import INDEX_NAME
from tests.unit.weights.micro import SEED, TEXT, Tensors, as_single_file, edit, micro, shard_of

Q_PROJ = f"{TEXT}layers.3.self_attn.q_proj.weight"
A_LOG = f"{TEXT}layers.0.linear_attn.A_log"


def refusal(base: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        open_checkpoint(base)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_gives_every_text_tensor_under_its_canonical_name(micro_9b: Path) -> None:
    checkpoint = open_checkpoint(micro_9b / "base")
    source = SynthSource(micro("open-jev-9b"), SEED, "cpu")
    assert list(checkpoint.names) == list(text_tensors(checkpoint.config))
    for name in checkpoint.names:
        assert torch.equal(checkpoint.tensor(name), source.tensor(name))


def test_skips_vision_mtp_and_lm_head(micro_9b: Path) -> None:
    checkpoint = open_checkpoint(micro_9b / "base")
    skipped = set(checkpoint.stored) - set(checkpoint.names.values())
    assert {name.split(".")[0] for name in skipped} == {"model", "mtp", "lm_head"}
    assert all(not name.startswith(TEXT) for name in skipped)


def test_the_35_series_stores_its_gates_wide(micro_9b: Path) -> None:
    checkpoint = open_checkpoint(micro_9b / "base")
    assert checkpoint.tensor("layers.0.linear_attn.A_log").dtype == torch.float32
    assert checkpoint.tensor("layers.0.linear_attn.norm.weight").dtype == torch.float32
    assert checkpoint.tensor("layers.0.linear_attn.dt_bias").dtype == torch.bfloat16


def test_accepts_narrow_gates(copy_9b: Path) -> None:
    def narrow(tensors: Tensors) -> None:
        tensors[A_LOG] = tensors[A_LOG].to(torch.bfloat16)

    edit(shard_of(copy_9b / "base", A_LOG), narrow)
    checkpoint = open_checkpoint(copy_9b / "base")
    assert checkpoint.tensor("layers.0.linear_attn.A_log").dtype == torch.bfloat16


@pytest.mark.parametrize("prefix", ["model.language_model.", "model.", ""])
def test_reads_a_single_file_under_every_known_prefix(copy_9b: Path, prefix: str) -> None:
    base = copy_9b / "base"
    as_single_file(base, lambda name: name.replace(TEXT, prefix))
    source = SynthSource(micro("open-jev-9b"), SEED, "cpu")
    checkpoint = open_checkpoint(base)
    for name in checkpoint.names:
        assert torch.equal(checkpoint.tensor(name), source.tensor(name))


def test_refuses_one_tensor_under_two_prefixes(copy_9b: Path) -> None:
    base = copy_9b / "base"
    as_single_file(base, lambda name: name)
    stored = f"{TEXT}norm.weight"
    edit(base / "model.safetensors", lambda t: t.update({"norm.weight": t[stored].clone()}))
    assert "also stored as" in refusal(base)


def test_refuses_a_missing_tensor(copy_9b: Path) -> None:
    as_single_file(copy_9b / "base", lambda name: None if name == Q_PROJ else name)
    assert refusal(copy_9b / "base").endswith(
        "base: tensor 'layers.3.self_attn.q_proj.weight' is missing"
    )


def test_refuses_an_unexpected_tensor(copy_9b: Path) -> None:
    path = copy_9b / "base" / "model.safetensors"
    as_single_file(copy_9b / "base", lambda name: name)
    edit(path, lambda t: t.update({f"{TEXT}layers.0.surprise.weight": torch.zeros(1)}))
    assert refusal(copy_9b / "base").startswith(f"{path}: unexpected tensor")


def test_refuses_a_layer_too_many(copy_9b: Path) -> None:
    def more(tensors: Tensors) -> None:
        tensors[Q_PROJ.replace("layers.3", "layers.7")] = tensors[Q_PROJ].clone()

    as_single_file(copy_9b / "base", lambda name: name)
    edit(copy_9b / "base" / "model.safetensors", more)
    assert "unexpected tensor" in refusal(copy_9b / "base")


def test_refuses_a_wrong_shape(copy_9b: Path) -> None:
    path = shard_of(copy_9b / "base", Q_PROJ)
    edit(path, lambda t: t.update({Q_PROJ: t[Q_PROJ][:-1].contiguous()}))
    complaint = refusal(copy_9b / "base")
    assert complaint.startswith(f"{path}: tensor '{Q_PROJ}' has shape [")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_refuses_a_wrong_dtype(copy_9b: Path, dtype: torch.dtype) -> None:
    path = shard_of(copy_9b / "base", Q_PROJ)
    edit(path, lambda t: t.update({Q_PROJ: t[Q_PROJ].to(dtype)}))
    assert refusal(copy_9b / "base").startswith(f"{path}: tensor '{Q_PROJ}' has dtype F")


def test_refuses_a_tensor_stored_in_two_shards(copy_9b: Path) -> None:
    base = copy_9b / "base"
    first, *_ = sorted(base.glob("*.safetensors"))
    index = json.loads((base / INDEX_NAME).read_bytes())
    tensors = load_file(first)
    save_file({"norm.weight": torch.zeros(2), Q_PROJ: tensors[Q_PROJ]}, base / "z.safetensors")
    index["weight_map"]["norm.weight"] = "z.safetensors"
    (base / INDEX_NAME).write_text(json.dumps(index))
    assert refusal(base).endswith(f"z.safetensors: tensor '{Q_PROJ}' is also in {first.name}")


@pytest.mark.parametrize(
    "name", ["extra.safetensors", "pytorch_model.bin", "x.pt", "model.gguf", "other.index.json"]
)
def test_refuses_weight_files_nothing_lists(copy_9b: Path, name: str) -> None:
    (copy_9b / "base" / name).write_bytes(b"")
    assert refusal(copy_9b / "base").startswith(f"{copy_9b / 'base' / name}: a weight file")


def test_refuses_a_single_file_beside_an_index(copy_9b: Path) -> None:
    save_file({"norm.weight": torch.zeros(2)}, copy_9b / "base" / "model.safetensors")
    assert "model.safetensors: a weight file" in refusal(copy_9b / "base")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: m.update({Q_PROJ: "../other.safetensors"}), "is not a file name"),
        (lambda m: m.update({Q_PROJ: 3}), "is not a file name"),
        (lambda m: m.update({"ghost": m[Q_PROJ]}), "tensor 'ghost' is not in"),
        (lambda m: m.pop(Q_PROJ), f"tensor '{Q_PROJ}' is not in {INDEX_NAME}"),
        (lambda m: m.clear(), "no weight_map"),
        (lambda m: m.update({"x": "gone.safetensors"}), "gone.safetensors: can't be read"),
    ],
)
def test_refuses_an_index_that_disagrees_with_its_shards(
    copy_9b: Path, change: object, complaint: str
) -> None:
    path = copy_9b / "base" / INDEX_NAME
    index = json.loads(path.read_bytes())
    change(index["weight_map"])  # type: ignore[operator]
    path.write_text(json.dumps(index))
    assert complaint in refusal(copy_9b / "base")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff"])
def test_refuses_a_config_that_is_no_object(copy_9b: Path, content: bytes) -> None:
    (copy_9b / "base" / "config.json").write_bytes(content)
    assert refusal(copy_9b / "base").startswith(str(copy_9b / "base" / "config.json"))
