"""Output rows of plain checkpoints, and GGUF files as directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from systone.errors import ConfigError
from systone.kernels.head.reference import label_head, scalar_head
from systone.weights.checkpoint import open_checkpoint
from systone.weights.plain import load_plain, output_rows


def single_file(base: Path, out: Path, *, drop: str | None = None) -> Path:
    """A copy with one weight file."""
    shutil.copytree(base, out)
    tensors = {}
    for path in sorted(out.glob("*.safetensors")):
        tensors |= {name: t.clone() for name, t in load_file(path).items() if name != drop}
        path.unlink()
    (out / "model.safetensors.index.json").unlink(missing_ok=True)
    save_file(tensors, out / "model.safetensors", {"format": "pt"})
    return out


def test_output_rows_are_those_of_the_output_matrix(qwen: Path, tmp_path: Path) -> None:
    whole = load_file(single_file(qwen, tmp_path / "one") / "model.safetensors")["lm_head.weight"]
    rows = output_rows(open_checkpoint(qwen), (7, 1700, 7))
    assert rows.dtype == torch.float32
    assert torch.equal(rows, whole[[7, 1700, 7]].float())


def test_tied_models_are_read_by_their_embedding(qwen: Path, tmp_path: Path) -> None:
    copy = single_file(qwen, tmp_path / "tied", drop="lm_head.weight")
    with pytest.raises(ConfigError, match=r"lm_head\.weight"):
        output_rows(open_checkpoint(copy), (7,))
    config = (copy / "config.json").read_text()
    (copy / "config.json").write_text(
        config.replace('"tie_word_embeddings": false', '"tie_word_embeddings": true')
    )
    checkpoint = open_checkpoint(copy)
    wanted = checkpoint.tensor("embed_tokens.weight")[[7]].float()
    assert torch.equal(output_rows(checkpoint, (7,)), wanted)


def test_tokens_beyond_the_vocabulary_are_refused(qwen: Path) -> None:
    with pytest.raises(ConfigError, match="token 1792"):
        output_rows(open_checkpoint(qwen), (1792,))


def test_plain_weights_are_copies_in_the_dtype_asked_for(qwen: Path) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        weights = load_plain(qwen, (1, 2), dtype=dtype)
        stored = open_checkpoint(qwen)
        assert {t.dtype for t in weights.tensors.values()} == {dtype}
        name = "layers.0.linear_attn.A_log"
        assert torch.equal(weights.tensors[name], stored.tensor(name).to(dtype))
        assert weights.tensors["norm.weight"].data_ptr() != stored.tensor("norm.weight").data_ptr()


def test_label_head_is_one_scalar_head_a_label() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(3, 1500), torch.randn(5, 1500)
    logits = label_head(x, weight)
    single = [scalar_head(x, weight[i : i + 1], torch.zeros(1)) for i in range(5)]
    assert torch.equal(logits, torch.cat(single, dim=1))
    assert label_head(x[:0], weight).shape == (0, 5)


@pytest.mark.slow
def test_a_gguf_directory_is_the_file_as_the_embedded_reader_has_it(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from systone.models.mini_plus.gguf import read_gguf
    from systone.models.mini_plus.llama import load_llama
    from systone.models.mini_plus.source import find_gguf
    from systone.models.mini_plus.tokens import TextTokens
    from systone.weights.gguf_directory import write_gguf_directory

    try:
        path = find_gguf()
    except ConfigError as missing:
        pytest.skip(str(missing))
    from transformers import AutoModelForCausalLM, AutoTokenizer

    directory = write_gguf_directory(path, tmp_path / "smollm2")
    file = read_gguf(path)
    llama, tokens = load_llama(file), TextTokens(file.metadata)
    text = "Twelve jars 2026: caf\u00e9\n\nQuestion: <x> 'tis"
    ids = tokens.encode(text)
    assert AutoTokenizer.from_pretrained(directory)(text)["input_ids"] == ids.tolist()
    hidden, _ = llama.forward(ids)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)[None]).logits[0, -1].numpy()
    assert np.abs(logits - hidden[-1] @ llama.head.T).max() < 1e-2
