"""The operators a text stack runs on, as one explicit argument.

Names the backend of every operator for logs and `/health`. Signatures are those of
`kernels/<op>/reference.py`; a backend replaces single fields with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from torch import Tensor

from systone.kernels.attention import reference as attention
from systone.kernels.conv import reference as conv
from systone.kernels.gather import reference as gather
from systone.kernels.gdn import reference as gdn
from systone.kernels.gemm import reference as gemm
from systone.kernels.head import reference as head
from systone.kernels.norm import reference as norm
from systone.kernels.rope import reference as rope
from systone.kernels.swiglu import reference as swiglu

Op = Callable[..., Tensor]
PairOp = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Ops:
    """One implementation per operator."""

    linear: Op
    rms_norm: Op
    add_rms_norm: PairOp
    gated_rms_norm: Op
    causal_conv_silu: Op
    gated_delta_rule: Op
    rotary_table: PairOp
    norm_rope: Op
    qk_norm_rope: PairOp
    trie_attention: Op
    readout_attention: Op
    swiglu: Op
    gather_rows: Op
    scalar_head: Op
    pointer_head: Op

    def describe(self) -> Mapping[str, str]:
        """The backend of each operator: the last part of the module that implements it."""
        made = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: op.__module__.rsplit(".", 1)[-1] for name, op in made.items()}


REFERENCE = Ops(
    linear=gemm.linear,
    rms_norm=norm.rms_norm,
    add_rms_norm=norm.add_rms_norm,
    gated_rms_norm=norm.gated_rms_norm,
    causal_conv_silu=conv.causal_conv_silu,
    gated_delta_rule=gdn.gated_delta_rule,
    rotary_table=rope.rotary_table,
    norm_rope=rope.norm_rope,
    qk_norm_rope=rope.qk_norm_rope,
    trie_attention=attention.trie_attention,
    readout_attention=attention.readout_attention,
    swiglu=swiglu.swiglu,
    gather_rows=gather.gather_rows,
    scalar_head=head.scalar_head,
    pointer_head=head.pointer_head,
)
