"""GGUF files are read exactly, and refused with one line when they can't be."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from systone.errors import ConfigError
from systone.models.mini_plus.gguf import read_gguf
from tests.unit.models_plus.tiny_gguf import metadata, pack_q4_1, pack_q8_0, tiny_tensors

Write = Callable[..., Path]


def test_metadata_comes_back_as_written(write_gguf: Write) -> None:
    values = {"text": "é\n", "count": 7, "rate": 0.5, "words": ["a", ""], "numbers": [1, 2, 3]}
    assert read_gguf(write_gguf(values, {})).metadata == values


def test_float_tensors_come_back_bit_for_bit(write_gguf: Write) -> None:
    full = np.arange(6, dtype=np.float32).reshape(2, 3) / 7
    half = full.astype(np.float16)
    tensors = {"full": ((2, 3), 0, full.tobytes()), "half": ((2, 3), 1, half.tobytes())}
    file = read_gguf(write_gguf({}, tensors))
    assert file.names == ("full", "half")
    assert np.array_equal(file.tensor("full"), full)
    assert np.array_equal(file.tensor("half"), half.astype(np.float32))


def test_quantised_weights_keep_their_places(write_gguf: Write) -> None:
    values = np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32)
    tensors = {
        "q8": ((4, 64), 8, pack_q8_0(values)),
        "q4": ((4, 64), 3, pack_q4_1(values)),
    }
    file = read_gguf(write_gguf({}, tensors))
    spread = values.max() - values.min()
    assert np.abs(file.tensor("q8") - values).max() < spread / 127
    assert np.abs(file.tensor("q4") - values).max() < spread / 15


def test_dequantisation_equals_the_gguf_package(write_gguf: Write) -> None:
    gguf = pytest.importorskip("gguf", reason="the gguf package is the oracle")
    tensors = tiny_tensors(tied=False)
    file = read_gguf(write_gguf(tensors=tensors))
    for name, (shape, kind, raw) in tensors.items():
        kind = gguf.GGMLQuantizationType(kind)
        data = np.frombuffer(raw, np.uint8)
        if kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
            data = data.view(np.float32 if kind == 0 else np.float16)
        expected = gguf.quants.dequantize(data, kind).astype(np.float32).reshape(shape)
        assert np.array_equal(file.tensor(name), expected), name


def test_tensors_outlive_the_file(write_gguf: Write) -> None:
    file = read_gguf(write_gguf())
    norm = file.tensor("output_norm.weight")
    kept = norm.copy()
    file.close()
    assert np.array_equal(norm, kept)


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.3, 0.7, 0.999])
def test_a_file_cut_short_is_refused(write_gguf: Write, share: float) -> None:
    path = write_gguf()
    whole = path.read_bytes()
    path.write_bytes(whole[: max(1, int(len(whole) * share))])
    with pytest.raises(ConfigError):
        read_gguf(path)


def test_another_format_is_refused(write_gguf: Write) -> None:
    path = write_gguf()
    path.write_bytes(b"ONNX" + path.read_bytes()[4:])
    with pytest.raises(ConfigError, match="not a GGUF file"):
        read_gguf(path)


def test_a_tensor_type_not_read_is_named(write_gguf: Write) -> None:
    file = read_gguf(write_gguf(metadata(), {"odd": ((32,), 14, b"\0" * 64)}))
    with pytest.raises(ConfigError, match="'odd' has the unsupported GGUF type 14"):
        file.tensor("odd")
    with pytest.raises(ConfigError, match="no tensor 'absent'"):
        file.tensor("absent")
