from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from systone.errors import ConfigError
from systone.weights.export import export
from systone.weights.export_file import EXPORT_NAME
from systone.weights.manifest import MANIFEST_NAME, Manifest
from systone.weights.pin import pin
from systone.weights.served import load_served
from tests.unit.weights.micro import edit, resign


@pytest.fixture(scope="module")
def exported(micro_9b: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "e"
    export(micro_9b, out, max_shard_bytes=100_000)
    return out


@pytest.fixture
def copy_export(exported: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(exported, tmp_path / "copy"))


def refusal(path: Path, **settings: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load_served(path, **settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_an_export_serves_the_bits_of_its_package(micro_9b: Path, exported: Path) -> None:
    package, merged = load_served(micro_9b), load_served(exported)
    assert package.tensors.keys() == merged.tensors.keys()
    for name, tensor in package.tensors.items():
        assert torch.equal(tensor, merged.tensors[name])
    assert torch.equal(package.head_weight, merged.head_weight)
    assert torch.equal(package.head_bias, merged.head_bias)
    for field in ("config", "temperature", "max_length", "model_id", "base_revision"):
        assert getattr(package, field) == getattr(merged, field)
    assert package.provenance.checkpoint_revision == merged.provenance.checkpoint_revision
    assert merged.provenance.synthetic
    assert merged.tokenizer == exported


def test_the_manifest_names_merge_and_tokenizer(exported: Path) -> None:
    manifest = Manifest.read(exported)
    assert manifest.kind == "export"
    assert manifest.merge["rule"] == "double-rounding"
    assert set(manifest.merge) == {"rule", "device", "accumulation", "torch", "systone"}
    assert manifest.tokenizer["class"] == "Qwen2Tokenizer"
    assert r"\p{L}+" in manifest.tokenizer["pattern"]
    assert manifest.files.keys() == {p.name for p in exported.iterdir()} - {MANIFEST_NAME}


def test_several_shards_are_written_and_all_bf16(exported: Path) -> None:
    shards = sorted(exported.glob("*.safetensors"))
    assert len(shards) > 2
    for shard in shards:
        assert {tensor.dtype for tensor in load_file(shard).values()} == {torch.bfloat16}


def test_exporting_twice_gives_the_same_files(
    micro_9b: Path, exported: Path, tmp_path: Path
) -> None:
    torch.set_num_threads(2)
    export(micro_9b, tmp_path / "again", max_shard_bytes=100_000)
    for path in exported.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_the_difference_to_peft_is_counted(micro_9b: Path, tmp_path: Path) -> None:
    made = export(micro_9b, tmp_path / "e")
    assert made.peft is not None
    assert made.peft.total > 0
    assert made.peft.differing < made.peft.total // 1000
    assert export(micro_9b, tmp_path / "s", merge="single-rounding").peft is None


def test_the_rules_give_different_weights(micro_9b: Path, exported: Path, tmp_path: Path) -> None:
    export(micro_9b, tmp_path / "s", merge="single-rounding")
    double, single = load_served(exported), load_served(tmp_path / "s")
    name = "layers.3.self_attn.q_proj.weight"
    assert not torch.equal(double.tensors[name], single.tensors[name])
    assert single.provenance.merge["rule"] == "single-rounding"


def test_a_filled_directory_is_left_alone(micro_9b: Path, tmp_path: Path) -> None:
    (tmp_path / "keep").write_text("mine")
    with pytest.raises(ConfigError, match="already there"):
        export(micro_9b, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["keep"]


def test_an_empty_directory_may_be_filled(micro_9b: Path, tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    export(micro_9b, tmp_path / "e")
    assert (tmp_path / "e" / EXPORT_NAME).exists()


def test_a_failure_leaves_nothing_behind(
    micro_9b: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("systone.weights.export.write_export", fail)
    with pytest.raises(ConfigError, match="No space left on device"):
        export(micro_9b, tmp_path / "e")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [({"merge": "unrounded"}, "exports are bf16"), ({"merge": "other"}, "none of")],
)
def test_a_rule_that_makes_no_export_is_refused(
    micro_9b: Path, tmp_path: Path, settings: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        export(micro_9b, tmp_path / "e", **settings)  # type: ignore[arg-type]


def test_an_export_is_not_exported_again(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="merged already"):
        export(exported, tmp_path / "e")


def test_an_export_takes_no_base(exported: Path, micro_9b: Path) -> None:
    assert "takes no base" in refusal(exported, base=micro_9b / "base")


@pytest.mark.parametrize("name", ["config.json", EXPORT_NAME, "tokenizer.json"])
def test_one_flipped_bit_is_refused(copy_export: Path, name: str) -> None:
    path = copy_export / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    assert str(path) in refusal(copy_export)


def test_an_unlisted_shard_is_refused(copy_export: Path) -> None:
    extra = copy_export / "model.safetensors"
    extra.write_bytes(b"")
    assert refusal(copy_export) == f"{extra}: not listed in the manifest"


def test_a_wide_tensor_in_an_export_is_refused(copy_export: Path) -> None:
    shard = next(copy_export.glob("*.safetensors"))
    edit(shard, lambda t: t.update({name: tensor.float() for name, tensor in t.items()}))
    resign(copy_export)
    assert f"{shard}: tensor" in refusal(copy_export)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "open-jev-text-merged/2"),
        ("chat_suffix", "<|im_end|>"),
        ("max_length", 0),
        ("head_weight", None),
        ("head_weight", [0.0] * 3),
        ("head_bias", float("inf")),
        ("head_bias", [0.0, 1.0]),
        ("temperature", -1),
        ("base_revision", None),
        ("model_id", "a/b"),
    ],
)
def test_a_bent_export_file_is_refused(copy_export: Path, field: str, value: object) -> None:
    path = copy_export / EXPORT_NAME
    fields = json.loads(path.read_bytes())
    fields[field] = value
    path.write_text(json.dumps(fields))
    resign(copy_export)
    assert refusal(copy_export).startswith(str(path))


def test_a_native_export_is_served_once_it_is_pinned(copy_export: Path, exported: Path) -> None:
    (copy_export / MANIFEST_NAME).unlink()
    assert "systone verify-weights --pin" in refusal(copy_export)
    assert pin(copy_export).kind == "export"
    served = load_served(copy_export)
    for name, tensor in load_served(exported).tensors.items():
        assert torch.equal(tensor, served.tensors[name])
    assert served.provenance.merge == {"rule": "not recorded"}
