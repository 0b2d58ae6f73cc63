"""Verified loads: what they give, and every way of bending a package that they must refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from systone.errors import ConfigError
from systone.weights.families import FAMILIES
from systone.weights.manifest import MANIFEST_NAME, Manifest
from systone.weights.merge import merge
from systone.weights.served import load_served
from systone.weights.synth import SynthSource, serve_recipe
from systone.weights.synth.parts import draw_adapter
from tests.unit.weights.micro import SEED, TEXT, edit, micro, resign, shard_of

Q_PROJ = f"{TEXT}layers.3.self_attn.q_proj.weight"
LORA = "base_model.model.layers.0.linear_attn.in_proj_qkv.lora_A.weight"


def refusal(path: Path, **settings: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load_served(path, **settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def checkpoint(copy: Path) -> Path:
    return copy / "package" / "checkpoint"


@pytest.mark.parametrize("rule", ["double-rounding", "single-rounding", "unrounded"])
def test_files_and_memory_give_the_same_bits(micro_9b: Path, rule: str) -> None:
    loaded = load_served(micro_9b, merge=rule)
    drawn = serve_recipe(micro("open-jev-9b"), SEED, merge=rule)
    assert loaded.tensors.keys() == drawn.tensors.keys()
    for name, tensor in loaded.tensors.items():
        assert torch.equal(tensor, drawn.tensors[name])
    assert torch.equal(loaded.head_weight, drawn.head_weight)
    assert torch.equal(loaded.head_bias, drawn.head_bias)
    for field in ("config", "temperature", "max_length", "model_id", "base_revision"):
        assert getattr(loaded, field) == getattr(drawn, field)
    assert loaded.provenance.checkpoint_revision == drawn.provenance.checkpoint_revision


def test_adapted_weights_are_merged_and_the_others_cast(micro_9b: Path) -> None:
    loaded = load_served(micro_9b)
    source = SynthSource(micro("open-jev-9b"), SEED, "cpu")
    adapter = draw_adapter(micro("open-jev-9b"), SEED)
    for name, tensor in loaded.tensors.items():
        stored = source.tensor(name)
        assert tensor.dtype == torch.bfloat16
        if name in adapter.pairs:
            assert torch.equal(tensor, merge(stored, *adapter.pairs[name], 2.0, "double-rounding"))
            assert not torch.equal(tensor, stored)
        else:
            assert torch.equal(tensor, stored.bfloat16())


def test_unrounded_keeps_what_the_base_stores_wide(micro_9b: Path) -> None:
    loaded = load_served(micro_9b, merge="unrounded")
    source = SynthSource(micro("open-jev-9b"), SEED, "cpu")
    name = "layers.0.linear_attn.A_log"
    assert torch.equal(loaded.tensors[name], source.tensor(name))
    assert not torch.equal(loaded.tensors[name], source.tensor(name).bfloat16().float())


def test_tensors_do_not_change_when_the_files_do(copy_9b: Path) -> None:
    loaded = load_served(copy_9b)
    before = {name: tensor.clone() for name, tensor in loaded.tensors.items()}
    for path in (copy_9b / "base").glob("*.safetensors"):
        with path.open("r+b") as file:  # in place: a new file would leave the old map alone
            header = int.from_bytes(file.read(8), "little")
            file.seek(8 + header)
            file.write(bytes(path.stat().st_size - 8 - header))
    assert all(torch.equal(tensor, before[name]) for name, tensor in loaded.tensors.items())


def test_provenance_says_what_was_proven(micro_9b: Path) -> None:
    found = load_served(micro_9b).provenance
    assert found.synthetic
    assert found.verified == "package by its manifest; base by its manifest"
    assert found.merge["rule"] == "double-rounding"
    assert found.merge["device"] == "cpu"
    assert "rising order" in found.merge["accumulation"]
    assert found.merge["torch"] == torch.__version__


def test_progress_ends_at_the_total(micro_9b: Path) -> None:
    seen: dict[str, tuple[int, int]] = {}

    def report(step: str, done: int, total: int) -> None:
        seen[step] = (done, total)

    served = load_served(micro_9b, progress=report)
    assert seen["loading"] == (served.num_bytes, served.num_bytes)
    assert seen["verifying"][0] == seen["verifying"][1]


def test_a_package_alone_needs_its_base(micro_9b: Path) -> None:
    package = micro_9b / "package"
    assert "needs its base (--base DIR)" in refusal(package)
    served = load_served(package, base=micro_9b / "base")
    assert served.provenance.package == "open-jev-9b"
    assert served.tokenizer == micro_9b / "base"


@pytest.mark.parametrize("path", ["nowhere", "base"])
def test_a_directory_that_is_no_package_is_named(micro_9b: Path, path: str) -> None:
    assert str(micro_9b / path) in refusal(micro_9b / path)


# --- tampering, found by the manifest -----------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "base/model-00001-of-00001.safetensors",
        "base/config.json",
        "base/tokenizer.json",
        "package/checkpoint/head.pt",
        "package/checkpoint/adapter/adapter_model.safetensors",
        "package/checkpoint/adapter/adapter_config.json",
    ],
)
def test_one_flipped_bit_is_refused(copy_9b: Path, name: str) -> None:
    path = copy_9b / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert refusal(copy_9b) == f"{path}: SHA-256 differs from the manifest's"


def test_an_extra_shard_is_refused(copy_9b: Path) -> None:
    extra = copy_9b / "base" / "model-00002-of-00002.safetensors"
    shutil.copy(next((copy_9b / "base").glob("*.safetensors")), extra)
    assert refusal(copy_9b) == f"{extra}: not listed in the manifest"


def test_an_extra_adapter_is_refused(copy_9b: Path) -> None:
    extra = checkpoint(copy_9b) / "adapter" / "adapter_model.bin"
    extra.write_bytes(b"")
    assert refusal(copy_9b) == f"{extra}: not listed in the manifest"


def test_a_foreign_base_revision_is_refused(copy_9b: Path) -> None:
    manifest = Manifest.read(copy_9b / "base")
    replace(manifest, base_revision="f" * 40).write(copy_9b / "base")
    complaint = refusal(copy_9b)
    assert complaint.startswith(f"{copy_9b / 'base'}: base revision {'f' * 40}, but the package")


def test_a_base_of_another_seed_is_refused(copy_9b: Path, tmp_path: Path) -> None:
    from systone.weights.synth.write import write_recipe

    write_recipe(micro("open-jev-9b"), SEED + 1, tmp_path / "other")
    complaint = refusal(copy_9b / "package", base=tmp_path / "other" / "base")
    assert complaint.startswith(f"{tmp_path / 'other' / 'base'}: base revision")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 1.0),
        ("max_length", 16384),
        ("model", "open-jev-27b-v1.1"),
        ("base_revision", "e" * 40),
    ],
)
def test_a_manifest_that_contradicts_the_package_is_refused(
    copy_9b: Path, field: str, value: object
) -> None:
    manifest = Manifest.read(copy_9b / "package")
    replace(manifest, **{field: value}).write(copy_9b / "package")
    path = copy_9b / "package" / MANIFEST_NAME
    assert refusal(copy_9b).startswith(f"{path}: {field} is {value!r}")


def test_a_manifest_of_another_kind_is_refused(copy_9b: Path) -> None:
    shutil.copy(copy_9b / "base" / MANIFEST_NAME, copy_9b / "package" / MANIFEST_NAME)
    assert "is of a base, not of a package" in refusal(copy_9b)


# --- tampering with the manifest bent to agree --------------------------------------------------


def bend_model(field: str, value: object) -> Callable[[Path], None]:
    def bend(copy: Path) -> None:
        path = checkpoint(copy) / "model.json"
        fields = json.loads(path.read_bytes())
        fields[field] = value
        path.write_text(json.dumps(fields))

    return bend


def bend_temperature(text: str) -> Callable[[Path], None]:
    return lambda copy: (checkpoint(copy) / "temperature.json").write_text(text) and None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("bend", "file", "complaint"),
    [
        (bend_model("model_id", "someone/else"), "model.json", "base of no known package"),
        (bend_model("method", "other"), "model.json", "method is 'other'"),
        (bend_model("lora_rank", 4), "model.json", "lora_rank is 4"),
        (bend_model("revision", ""), "model.json", "revision is ''"),
        (bend_model("max_length", True), "model.json", "max_length is True"),
        (bend_model("max_length", 0), "model.json", "max_length is 0"),
        (bend_temperature("{}"), "temperature.json", "temperature is None"),
        (bend_temperature('{"temperature": 0}'), "temperature.json", "above zero"),
        (bend_temperature('{"temperature": NaN}'), "temperature.json", "above zero"),
        (bend_temperature('{"temperature": true}'), "temperature.json", "not a number"),
        (bend_temperature("["), "temperature.json", "not JSON"),
    ],
)
def test_a_bent_package_is_refused_whatever_its_manifest_says(
    copy_9b: Path, bend: Callable[[Path], None], file: str, complaint: str
) -> None:
    bend(copy_9b)
    resign(copy_9b / "package")
    found = refusal(copy_9b)
    assert found.startswith(str(checkpoint(copy_9b) / file))
    assert complaint in found


def test_a_missing_lora_half_is_refused(copy_9b: Path) -> None:
    path = checkpoint(copy_9b) / "adapter" / "adapter_model.safetensors"
    edit(path, lambda tensors: tensors.pop(LORA))
    resign(copy_9b / "package")
    assert refusal(copy_9b).startswith(f"{path}: lora_A of 'layers.0.linear_attn.in_proj_qkv")


def test_a_wrong_shape_is_refused(copy_9b: Path) -> None:
    path = shard_of(copy_9b / "base", Q_PROJ)
    edit(path, lambda t: t.update({Q_PROJ: t[Q_PROJ].view(-1, 64)}))
    resign(copy_9b / "base")
    assert refusal(copy_9b).startswith(f"{path}: tensor '{Q_PROJ}' has shape")


def test_a_wrong_dtype_is_refused(copy_9b: Path) -> None:
    path = shard_of(copy_9b / "base", Q_PROJ)
    edit(path, lambda t: t.update({Q_PROJ: t[Q_PROJ].half()}))
    resign(copy_9b / "base")
    assert refusal(copy_9b).startswith(f"{path}: tensor '{Q_PROJ}' has dtype F16")


def test_a_tensor_the_manifest_describes_otherwise_is_refused(copy_9b: Path) -> None:
    manifest = Manifest.read(copy_9b / "base")
    tensors = {**manifest.tensors, Q_PROJ: ("F32", manifest.tensors[Q_PROJ][1])}
    replace(manifest, tensors=tensors).write(copy_9b / "base")
    assert f"tensor '{Q_PROJ}' differs from the manifest's" in refusal(copy_9b)


# --- official pins ------------------------------------------------------------------------------


def official(copy: Path) -> Path:
    """The package relabelled as the official release, with no manifest of its own."""
    bend_model("revision", FAMILIES["open-jev-9b"].pins.base_revision)(copy)
    (copy / "package" / MANIFEST_NAME).unlink()
    return copy / "package"


def test_a_package_without_pins_or_official_revision_is_refused(copy_9b: Path) -> None:
    (copy_9b / "package" / MANIFEST_NAME).unlink()
    assert "is not the official c202236235762e1c" in refusal(copy_9b)


def test_files_that_are_not_the_official_ones_are_refused(copy_9b: Path) -> None:
    package = official(copy_9b)
    assert refusal(package, base=copy_9b / "base") == (
        f"{package / 'checkpoint/adapter/adapter_model.safetensors'}: "
        "SHA-256 differs from the official one"
    )


def test_a_weight_file_beside_official_ones_is_refused(copy_9b: Path) -> None:
    package = official(copy_9b)
    (package / "checkpoint" / "head.bin").write_bytes(b"")
    assert "head.bin: a weight file" in refusal(package, base=copy_9b / "base")


def test_another_temperature_than_the_official_one_is_refused(copy_9b: Path) -> None:
    package = official(copy_9b)
    bend_temperature('{"temperature": 2.0}')(copy_9b)
    assert "the official one 1.8969118766347646" in refusal(package, base=copy_9b / "base")


def test_a_manifest_cannot_pass_other_files_off_as_the_official_release(copy_9b: Path) -> None:
    pins = FAMILIES["open-jev-9b"].pins
    bend_model("revision", pins.base_revision)(copy_9b)
    resign(copy_9b / "package")
    manifest = Manifest.read(copy_9b / "package")
    replace(
        manifest,
        base_revision=pins.base_revision,
        checkpoint_revision=pins.checkpoint_revision,
        synthetic=False,
    ).write(copy_9b / "package")
    assert "differs from the official one" in refusal(copy_9b)


def test_a_base_without_proof_needs_the_operators_word(copy_9b: Path) -> None:
    base = copy_9b / "base"
    revision = Manifest.read(base).base_revision
    (base / MANIFEST_NAME).unlink()
    assert "nothing says which revision" in refusal(copy_9b)
    assert "but the package was trained on" in refusal(copy_9b, base_revision="d" * 40)
    served = load_served(copy_9b, base_revision=revision)
    assert served.provenance.verified.endswith("base on the operator's word")
