"""The largest pass a device is set up for: run at start, whole and in groups of layers, compared.

It is the worst case for memory, so everything a pass may take is taken before the device is called
ready. Tokens of a pass; seconds of the device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import Tensor

from systone.execute.buckets import token_buckets
from systone.execute.gpu_pace import one_row, seconds_of
from systone.execute.graph_long import Long
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.execute.graph_stage import PassStage
from systone.execute.selfcheck import Bits
from systone.plan import PassTables

__all__ = ["beyond", "long_passes", "mixed_launch"]

log = logging.getLogger(__name__)

TIMED = 4096  # tokens of the pass that the time of a token is measured with

Run = Callable[[GraphedPasses, PassTables], Bits]


def long_passes(
    whole: GraphedPasses, bits: Run, mixed: Run, times: tuple[float, float] | None
) -> tuple[GraphedPasses, bool | None]:
    """Eager passes as they are to be served, after the largest one has run; whether groups of
    layers gave its bits, None where no pass is long enough for groups.

    `times`: (`StartSettings.whole_s`, `group_s`), None for no groups. `mixed` runs other passes
    between the groups."""
    vocabulary, room = whole.split.config.vocab_size, whole.split.arena.room
    largest = one_row(room.tokens, vocabulary)
    wanted = bits(whole, largest)
    if times is None:
        return whole, None
    whole_s, group_s = times
    timed = min(TIMED, room.tokens)
    token_s = seconds_of(whole, one_row(timed, vocabulary)) / timed
    most = beyond(whole_s / token_s, room.tokens)
    if most >= room.tokens:
        return whole, None
    stage = PassStage(whole.stage.room, whole.split.arena.states.device, whole.stage.stream)
    long = Long(whole.split, stage, most, token_s, group_s)
    short = replace(whole.split, arena=whole.split.arena.beside(most))
    apart = GraphedPasses(short, whole.stage, GraphSettings(), None, whole.sample, long)
    if np.array_equal(mixed(apart, largest), wanted):
        return apart, True
    log.error("self-check: groups of layers change bits on this device; long passes run whole")
    return whole, False


def beyond(tokens: float, room: int) -> int:
    """The largest token bucket of at most `tokens`, the smallest one if there is none."""
    buckets = token_buckets(room)
    return max((bucket for bucket in buckets if bucket <= tokens), default=buckets[0])


def mixed_launch(passes: GraphedPasses, tables: PassTables) -> Tensor:
    """Launch a pass with a small one between any two of its parts; its scores."""
    scores = None
    for scores in passes.parts(tables):
        if scores is None:
            passes.launch(passes.sample(2))
    assert scores is not None
    return scores
