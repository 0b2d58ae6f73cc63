"""On a GPU: packed rows keep their bits, FP32 agrees with the CPU, bf16 stays near it."""

import numpy as np
import pytest
import torch

from systone.models.base import Loaded
from systone.models.laya import load_directory
from tests.unit.models_laya.requests import RequestMaker, typed

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def on_cuda(checkpoint):
    from systone.config import ModelSettings

    started: list[Loaded] = []

    def load(dtype: str, **settings) -> Loaded:
        made = load_directory(checkpoint, ModelSettings(device="cuda", dtype=dtype, **settings))
        made.executor.start()
        started.append(made)
        return made

    yield load
    for made in started:
        made.executor.close()


@pytest.fixture(scope="module")
def requests() -> list:
    maker = RequestMaker(9)
    return [typed(maker.request()) for _ in range(12)]


def logits(model: Loaded, requests: list, together: bool = True) -> list[np.ndarray]:
    prepared = [model.adapter.prepare(request) for request in requests]
    if together:
        return [readout.values[:, 0] for readout in model.executor.execute(prepared)]
    return [model.executor.execute([one])[0].values[:, 0] for one in prepared]


def test_packed_rows_have_the_bits_of_rows_alone(on_cuda, requests) -> None:
    packed, alone = on_cuda("bfloat16"), on_cuda("bfloat16", pack=False)
    assert packed.executor.describe()["rows"] == "packed"
    assert alone.executor.describe()["rows"] == "one a forward"
    expected = logits(alone, requests, together=False)
    for order in (slice(None), slice(None, None, -1)):
        for one, other in zip(logits(packed, requests[order])[order], expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_fp32_agrees_with_the_cpu(on_cuda, model, requests) -> None:
    for ours, cpu in zip(
        logits(on_cuda("float32"), requests), logits(model, requests), strict=True
    ):
        np.testing.assert_allclose(ours, cpu, rtol=0, atol=1e-4)


def test_bf16_products_stay_near_fp32(on_cuda, model, requests) -> None:
    ours, cpu = logits(on_cuda("bfloat16"), requests), logits(model, requests)
    errors = np.concatenate(ours) - np.concatenate(cpu)
    assert np.sqrt(np.mean(errors**2)) < 0.02
