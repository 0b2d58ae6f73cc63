"""The bare GPU pass for checks: eager, without self-check, graphs or overlap. Any device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from systone.execute.buckets import Size, readout_bucket, row_bucket
from systone.execute.gpu_arena import Arena, Room
from systone.execute.gpu_gemm import Products, projections
from systone.execute.gpu_pass import GpuPass
from systone.execute.graph_stage import Capacity, PassStage, StageRoom
from systone.kernels.attention.triton import short_tile_tokens, tile_tokens
from systone.kernels.config import table_of
from systone.kernels.gemm.cublaslt import exact_blas
from systone.kernels.rope.triton import rotary_table
from systone.nn.decision import DecisionModel
from systone.plan.tables import PassTables


class EagerPasses:
    """A model over an arena of `room`. `fast`: every product through cuBLASLt, else canonical."""

    def __init__(self, model: DecisionModel, room: Room, *, fast: bool) -> None:
        config, device = model.stack.config, model.stack.device
        self.device = device
        self.arena = Arena(config, room, device)
        weights = projections(model.stack.weights, 2 * config.num_heads * config.head_dim)
        products = Products({(w.shape[0], w.shape[1]) for w in weights} if fast else set())
        angles = rotary_table(
            torch.arange(room.tokens, dtype=torch.int32, device=device), theta=config.rope_theta,
            rotary_dim=config.rotary_dim, sections=config.mrope_section, dtype=torch.bfloat16,
        )  # fmt: skip
        heads = (table_of(device)[0], config.num_heads, config.num_kv_heads)
        tiles = (tile_tokens(*heads), short_tile_tokens(*heads))
        stage = StageRoom(room.tokens, room.tokens, 4 * room.tokens, room.readouts, *tiles)
        self._stage = PassStage(stage, device)
        self._pass = GpuPass.of(model, self.arena, products, torch.cat(angles, dim=1))
        self._hidden = config.hidden_size

    def poison(self) -> None:
        poison(self.arena)

    def run(self, tables: PassTables) -> tuple[np.ndarray, Tensor]:
        """(scores [R, 1] on the host, final hidden states [R, h])."""
        rows = tables.readout_token.shape[0]
        capacity = Capacity.of_size(Size.of(tables), row_bucket(tables.num_tokens))
        readouts = readout_bucket(rows)
        with torch.inference_mode():
            if self.device.type == "cuda":
                with exact_blas():
                    scores = self._pass.launch(self._stage.load(tables, capacity, readouts))
            else:
                scores = self._pass.launch(self._stage.load(tables, capacity, readouts))
            hidden = self.arena.take("last_normed", readouts, self._hidden)[:rows].clone()
            return scores[:rows].cpu().numpy().copy(), hidden


def poison(arena: Arena) -> None:
    """NaN in every buffer a pass may read before it writes it, pad rows included."""
    scratch = arena.scratch(arena.room.tokens)
    with torch.inference_mode():
        for tensor in (
            *arena._flat.values(), arena.states, arena.scores,
            scratch.units, scratch.matrices, scratch.growth, scratch.blocks,
        ):  # fmt: skip
            tensor.fill_(float("nan"))
