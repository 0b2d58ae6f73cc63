"""A Kev's questions run in every way, bit for bit as each of them alone: eager and unshared.

Rows: {name, questions, readouts, equal, seconds}.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from scripts.gpu_suite.kev_requests import exact_list, writer_of
from systone.execute.gpu_runner import GpuLimits, GpuRunner
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.execute.selfcheck_start import StartSettings
from systone.models.base import Loaded
from systone.nn.label_model import LabelModel
from systone.plan import PassBudget, Row, Sharing, Trie, build_tables, build_trie, cut_passes

PACK_OFF = PassBudget(4096, 1, 256)


class Bits:
    """Final hidden states and scores of every read-out, as integers, in request and row order."""

    def __init__(self, runner: GpuRunner) -> None:
        self.runner = runner

    def of(self, tries: list[Trie], budget: PassBudget, order: list[int] | None = None) -> Any:
        order = list(range(len(tries))) if order is None else order
        found: dict[tuple[int, int], list[np.ndarray]] = {}
        for parts in cut_passes([tries[i] for i in order], budget):
            tables = build_tables(parts)
            scores = self.runner.run(tables)
            hidden = self.runner.last_hidden(scores.shape[0]).view(torch.int16).cpu().numpy()
            both = np.concatenate([hidden.astype(np.int32), scores.view(np.int32)], axis=1)
            for part, row, value in zip(
                tables.readout_request, tables.readout_row, both, strict=True
            ):
                found.setdefault((order[parts[part].request], int(row)), []).append(value)
        return np.concatenate([np.stack(found[key]) for key in sorted(found)])


def exact_rows(loaded: Loaded, runner: GpuRunner) -> Iterator[dict[str, Any]]:
    """Every way to run the questions against each question alone, eager and unshared."""
    requests = [loaded.adapter.prepare(request) for request in exact_list(writer_of(loaded))]
    rows = [prepared.context.rows.rows for prepared in requests]
    questions = sum(map(len, rows))

    def tries(policy: str) -> list[Trie]:
        return [build_trie(list(own), Sharing(policy)) for own in rows]  # type: ignore[arg-type]

    bits, graphed = Bits(runner), runner._passes
    assert graphed is not None
    eager = GraphedPasses(
        graphed.split, graphed.stage, GraphSettings(), None, graphed.sample, graphed.long
    )
    single = [build_trie([row], Sharing("off")) for own in rows for row in own]
    roomy = PassBudget(1, 1, 1)  # what is over a budget runs alone
    runner._passes = eager
    truth = bits.of(single, roomy)
    yield {"name": "finite", "equal": bool(np.isfinite(truth[:, -1:].view(np.float32)).all())}
    runner._passes = graphed
    normal, narrow = PassBudget(4096, 1024, 256), PassBudget(1024, 300, 256)
    shuffled = random.Random(3).sample(range(len(rows)), len(rows))
    ways: dict[str, Callable[[], Any]] = {
        "alone, graphs": lambda: bits.of(single, roomy),
        **{f"policy {p}": lambda p=p: bits.of(tries(p), normal)
           for p in ("off", "default", "shared")},
        "permuted": lambda: bits.of(tries("default"), normal, shuffled),
        "passes of 1024 tokens": lambda: bits.of(tries("shared"), narrow),
        "pack off": lambda: bits.of(tries("off"), PACK_OFF),
    }  # fmt: skip
    for name, way in ways.items():
        began = time.perf_counter()
        same = np.array_equal(way(), truth)
        yield {"name": name, "questions": questions, "readouts": len(truth), "equal": same,
               "seconds": round(time.perf_counter() - began, 2)}  # fmt: skip
    runner._passes = eager
    same = np.array_equal(bits.of(tries("default"), normal), truth)
    yield {"name": "packed, eager", "questions": questions, "equal": same}
    runner._passes = graphed
    compiled = runner.describe()["compilations_since_ready"]
    yield {"name": "nothing compiled after ready", "equal": compiled == 0}


def label_rows(loaded: Loaded, runner: GpuRunner, width: int = 520) -> Iterator[dict[str, Any]]:
    """The same stack read by labels: every question's last token, `width` logits each."""
    assert runner._passes is not None
    stack = runner._passes.split.model.stack
    drawn = torch.randn(width, stack.config.hidden_size, device=stack.device)
    model = LabelModel(stack, drawn, drawn.new_zeros(width))
    limits = GpuLimits(tokens=4096, readouts=256)
    labels = GpuRunner(lambda _: model, stack.device, limits, StartSettings(None))
    labels.start()
    writer = writer_of(loaded)
    requests = [writer.request(state, 6, 30) for state in (1, 64, 65, 333)]
    paths = [
        [Row(row.path, row.question) for row in loaded.adapter.prepare(r).context.rows.rows]
        for r in requests
    ]
    bits = Bits(labels)
    together = bits.of([build_trie(rows, Sharing("shared")) for rows in paths], PassBudget())
    single = [build_trie([row], Sharing("off")) for rows in paths for row in rows]
    alone = bits.of(single, PassBudget(1, 1, 1))
    finite = bool(np.isfinite(alone[:, -width:].view(np.float32)).all())
    yield {"name": f"label head, {width} logits", "questions": len(single), "finite": finite,
           "equal": np.array_equal(together, alone),
           "refused": labels.describe()["selfcheck"]["refused"]}  # fmt: skip
    labels.close()
