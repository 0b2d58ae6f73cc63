"""Kev packages on disk: recognised, proven, loaded with a base beside or named, exported."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from systone.config import ModelSettings
from systone.errors import ConfigError
from systone.models import registry
from systone.models.kev import load as kev_load
from systone.models.kev.load import recognises, serve_weights
from systone.models.qwen_tokens import load_tokenizer
from systone.weights.export import export
from systone.weights.families import by_name
from systone.weights.kev_export import kev_head_fields
from systone.weights.manifest import MANIFEST_NAME
from systone.weights.merge import merge
from systone.weights.package import KEV_FILES, read_info
from systone.weights.pin import pin
from systone.weights.served import load_served, open_package
from systone.weights.synth import synthesize, synthesize_served
from systone.weights.synth.specs import find
from systone.weights.verify import verify_package
from tests.unit.models_kev.test_serving import QUESTIONS, decide, logits

SEED = 1


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return synthesize("kev-4b", "tiny", SEED, tmp_path_factory.mktemp("kev") / "D")


@pytest.fixture
def package(directory, tmp_path) -> Path:
    """A copy of the package to break, without a manifest of ours."""
    copy = tmp_path / "package"
    shutil.copytree(directory / "package", copy)
    (copy / MANIFEST_NAME).unlink()
    return copy


def rewrite_head(package: Path, **changes) -> None:
    held = torch.load(package / "head.pt", weights_only=True)
    torch.save(held | changes, package / "head.pt")


def test_a_package_on_disk_is_what_its_weights_in_memory_are(directory):
    ours = load_served(directory)
    drawn = synthesize_served("kev-4b", "tiny", SEED)
    assert torch.equal(ours.head_weight, drawn.head_weight)
    assert torch.equal(ours.head_bias, drawn.head_bias)
    assert ours.tensors.keys() == drawn.tensors.keys()
    assert all(torch.equal(ours.tensors[n], drawn.tensors[n]) for n in ours.tensors)
    assert ours.provenance.merge["rule"] == "single-rounding"
    assert (ours.temperature, ours.max_length) == (2.406050072164233, 73_728)
    assert ours.tokenizer == directory / "base"
    assert tuple(ours.head_weight.shape) == (512, 128)


def test_every_pair_is_merged_with_one_rounding(directory):
    opened = open_package(directory)
    served = load_served(directory)
    assert len(opened.adapter.pairs) == 8 * 3 + 6 * 5 + 2 * 4  # MLPs, GDN layers, attention
    once = twice = total = 0  # values that are not the exact merge, rounded once
    for name, (a, b) in opened.adapter.pairs.items():
        stored = opened.base.tensor(name)
        exact = (stored.double() + 2 * (b.double() @ a.double())).to(torch.bfloat16)
        once += int((served.tensors[name] != exact).sum())
        twice += int((merge(stored, a, b, 2.0, "double-rounding") != exact).sum())
        total += exact.numel()
    assert once <= total / 20_000  # the order of an FP32 sum decides about one in 100,000
    assert twice >= total / 100


def test_the_published_counts_of_trainable_parameters():
    from systone.nn.config import TextConfig

    for name, millions in {"0.8b": 11.3, "4b": 33.8, "9b": 45.4, "27b": 119.3}.items():
        recipe = find(f"kev-{name}", "full")
        config = TextConfig.from_json(recipe.backbone.config())
        adapted = recipe.family.adapted(config).values()
        lora = sum(16 * sum(expected.shape) for expected in adapted)
        assert round((lora + 512 * (config.hidden_size + 1)) / 1e6, 1) == millions


def test_each_layout_is_recognised_by_its_own_family(directory, tmp_path, monkeypatch):
    assert recognises(directory)
    assert recognises(directory / "package")
    assert not recognises(directory / "base")
    asked = []
    monkeypatch.setattr(kev_load, "load_directory", lambda path, settings: asked.append(path))
    registry.load(str(directory), ModelSettings(source=str(directory)))
    assert asked == [directory]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no family recognises"):
        registry.load(str(tmp_path / "empty"), ModelSettings())


def test_a_package_takes_a_base_from_elsewhere(directory):
    apart = load_served(directory / "package", base=directory / "base")
    assert apart.provenance.verified == "package by its manifest; base by its manifest"
    with pytest.raises(ConfigError, match="needs its base"):
        load_served(directory / "package")


def test_a_package_on_another_base_is_refused(directory, package):
    rewrite_head(package, base_revision="f" * 40)
    pin(package, "c" * 40)
    with pytest.raises(ConfigError, match="trained on ffff"):
        load_served(package, base=directory / "base")


def test_a_package_that_nothing_proves_is_refused(directory, package):
    rewrite_head(package, base_revision=by_name("kev-4b").pins.base_revision)
    with pytest.raises(ConfigError, match="no digests of jaredpalmer/kev-4b are known"):
        load_served(package, base=directory / "base")


def test_a_pinned_package_is_proven_again_at_each_load(directory, package):
    made = pin(package, "c" * 40)
    assert (made.kind, made.model, made.max_length) == ("package", "kev-4b", 73_728)
    assert set(KEV_FILES) <= set(made.files)
    load_served(package, base=directory / "base")
    with (package / "adapter_model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x00")
    with pytest.raises(ConfigError, match="SHA-256 differs"):
        load_served(package, base=directory / "base")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora": 8}, "lora is 8, not 16"),
        ({"head_dim": 128}, "head_dim is 128, not 256"),
        ({"option_isolation": True}, "option_isolation is set"),
        ({"special_embeddings": True}, "special_embeddings is set"),
        ({"weights_dtype": "fp8"}, "weights_dtype is 'fp8'"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"temperature": True}, "temperature is True"),
        ({"base": "Qwen/Qwen3-8B"}, "'Qwen/Qwen3-8B' is the base of no known package"),
    ],
)
def test_a_head_file_that_cant_be_served_names_its_field(package, changes, message):
    rewrite_head(package, **changes)
    with pytest.raises(ConfigError, match=message):
        read_info(package)


def test_missing_fields_take_the_contracts_defaults(package):
    held = torch.load(package / "head.pt", weights_only=True)
    kept = {name: held[name] for name in ("base", "head", "lora")}
    torch.save(kept, package / "head.pt")
    info = read_info(package)
    assert info.temperature == 1.0
    assert info.base_revision == by_name("kev-4b").pins.base_revision


def test_a_pickle_that_runs_code_is_refused(package):
    torch.save({"base": Path("x")}, package / "head.pt")
    with pytest.raises(ConfigError, match="refused"):
        read_info(package)


@pytest.mark.parametrize("broken", ["missing", "misshapen", "surplus", "half"])
def test_a_head_that_is_not_two_projections_is_refused(directory, package, broken):
    held = torch.load(package / "head.pt", weights_only=True)
    head = dict(held["head"])
    if broken == "missing":
        del head["k.bias"]
    elif broken == "misshapen":
        head["q.weight"] = head["q.weight"][:, 1:]
    elif broken == "surplus":
        head["v.weight"] = head["k.weight"]
    else:
        head["q.weight"] = head["q.weight"].half()
    rewrite_head(package, head=head)
    pin(package, "c" * 40)
    with pytest.raises(ConfigError, match="head"):
        load_served(package, base=directory / "base")


def test_an_export_serves_the_same_weights(directory, tmp_path):
    made = export(directory, tmp_path / "merged")
    assert made.manifest.merge["rule"] == "single-rounding"
    assert recognises(tmp_path / "merged")
    ours, theirs = load_served(tmp_path / "merged"), load_served(directory)
    assert all(torch.equal(ours.tensors[n], theirs.tensors[n]) for n in theirs.tensors)
    assert torch.equal(ours.head_weight, theirs.head_weight)
    assert ours.temperature == theirs.temperature
    assert ours.provenance.checkpoint_revision == theirs.provenance.checkpoint_revision


def test_the_settings_of_truncation_reach_the_adapter(serve):
    assert serve(truncation="keep-head").adapter.limits.truncate is True
    assert serve(truncation="refuse").adapter.limits.truncate is False
    with pytest.raises(ConfigError, match="keep-tail"):
        serve(truncation="keep-tail")


def test_the_fields_of_a_head_file_are_the_packages(directory):
    held = torch.load(directory / "package" / "head.pt", weights_only=True)
    family, drawn = by_name("kev-4b"), synthesize_served("kev-4b", "tiny", SEED)
    fields = kev_head_fields(
        family,
        replace(open_package(directory).head, weight=drawn.head_weight, bias=drawn.head_bias),
        held["base_revision"],
        held["temperature"],
    )
    assert held.keys() == fields.keys()


@pytest.mark.slow
def test_a_directory_is_served_as_its_weights_in_memory(directory, loaded):
    settings = ModelSettings(source="D", device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("systone.models.kev.load.load_tokenizer", load_tokenizer)
        made = registry.load(str(directory), settings)
    made.executor.start()
    from systone.protocol.types import Request

    (ours,), (theirs,) = (decide(m, Request("s", QUESTIONS)) for m in (made, loaded))
    assert logits(ours).tolist() == logits(theirs).tolist()
    assert made.adapter.card.revision == loaded.adapter.card.revision
    assert serve_weights is kev_load.serve_weights


def downloaded(package: Path, revision: str) -> Path:
    """What a hub's client leaves beside the files of a local download."""
    metadata = package / ".cache" / "huggingface" / "download"
    metadata.mkdir(parents=True)
    for name in KEV_FILES:
        content = (package / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if name.endswith(".json"):
            digest = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        (metadata / f"{name}.metadata").write_text(f"{revision}\n{digest}\n1700000000.0\n")
    return package


def test_a_hub_clients_record_proves_a_package_and_names_its_revision(package):
    pins = by_name("kev-4b").pins
    rewrite_head(package, base_revision=pins.base_revision)
    downloaded(package, pins.checkpoint_revision)
    verdict = verify_package(package, read_info(package))
    assert verdict.revision == pins.checkpoint_revision
    assert verdict.how == "package by the hub's digests (3 files)"
    assert verdict.synthetic is False
    rewrite_head(package, temperature=2.0)
    with pytest.raises(ConfigError, match=r"head\.pt: differs from the digest"):
        verify_package(package, read_info(package))


def test_a_weight_file_beside_a_downloaded_package_is_refused(package):
    pins = by_name("kev-4b").pins
    rewrite_head(package, base_revision=pins.base_revision)
    downloaded(package, pins.checkpoint_revision)
    (package / "model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match="nothing lists"):
        verify_package(package, read_info(package))
