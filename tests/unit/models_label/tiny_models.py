"""A toy tokenizer and tiny random models in the directory layouts that are served."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from string import ascii_uppercase

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import Gemma2Config, LlamaConfig

from systone.models.qwen_tokens import FILE_PATTERN
from systone.weights.synth.write import write_recipe
from tests.unit.weights.micro import SEED, micro

VOCABULARY = 1792
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}"
    "{% if not enable_thinking %}{{ '\n</think>\n\n' }}{% endif %}{% endif %}"
)


def toy_tokenizer(*, without: frozenset[str] = frozenset(), bos: bool = False) -> Tokenizer:
    """Bytes, every pair of capitals, both also after a space; split as Qwen3.5 splits.

    `without`: pairs that are two tokens; `bos`: the tokenizer starts texts with <|endoftext|>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [a + b for a, b in product(ascii_uppercase, repeat=2) if a + b not in without]
    words = [*pairs, *("Ġ" + c for c in ascii_uppercase), *("Ġ" + p for p in pairs), "No", "Ye"]
    vocabulary = {token: i for i, token in enumerate([*alphabet, *words, "Yes", ":("])}
    merges = [(p[0], p[1]) for p in pairs]
    merges += [("Ġ", c) for c in ascii_uppercase]
    merges += [("Ġ", pair) for pair in pairs]
    merges += [("N", "o"), ("Y", "e"), ("Ye", "s"), (":", "(")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(FILE_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(t, special=not t.endswith("think>"), normalized=False) for t in CONTROLS]
    tokenizer.add_tokens(special)
    if bos:
        from tokenizers.processors import TemplateProcessing

        start = CONTROLS[0]
        tokenizer.post_processor = TemplateProcessing(
            single=f"{start} $A",
            pair=f"{start} $A {start} $B",
            special_tokens=[(start, tokenizer.token_to_id(start))],
        )
    assert tokenizer.get_vocab_size() <= VOCABULARY
    return tokenizer


def write_tokenizer(directory: Path, tokenizer: Tokenizer, template: str | None = CHATML) -> None:
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    if template is not None:
        config["chat_template"] = template
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def write_llama(directory: Path, *, template: str | None = CHATML, bos: bool = False) -> Path:
    """A random Llama of two layers with grouped heads."""
    from transformers import LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        initializer_range=0.5,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    write_tokenizer(directory, toy_tokenizer(bos=bos), template)
    return directory


def write_gemma(directory: Path, *, soft_cap: float | None) -> Path:
    """A random Gemma 2 with alternating sliding windows; the same weights whatever the cap."""
    from transformers import Gemma2ForCausalLM

    torch.manual_seed(5)
    config = Gemma2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=16,
        final_logit_softcapping=soft_cap,
        initializer_range=0.5,
    )
    Gemma2ForCausalLM(config).save_pretrained(directory)
    write_tokenizer(directory, toy_tokenizer(bos=True), None)
    return directory


def write_qwen(out: Path, *, template: str | None = CHATML) -> Path:
    """A micro Qwen3.5 base in the official layout, lm_head included, with the toy tokenizer."""
    recipe = micro("open-jev-9b")
    recipe = replace(recipe, backbone=replace(recipe.backbone, vocab=VOCABULARY))
    write_recipe(recipe, SEED, out)
    write_tokenizer(out / "base", toy_tokenizer(), template)
    return out / "base"
