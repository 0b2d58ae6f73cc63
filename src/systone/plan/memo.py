"""Tables of passes whose structure came before: one request alone, in lengths seen lately.

Everything in a pass's tables but its token ids follows from the lengths, parents and read-outs of
its segments. A caller who asks the same questions of states of a few hundred lengths meets every
structure again. Bounded; used by one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import fields, replace

from systone.plan.build import build_tables
from systone.plan.passes import Part
from systone.plan.tables import PassTables
from systone.plan.trie import Trie

__all__ = ["TablesMemo"]

MAX_STRUCTURES = 256
MAX_TOKENS = 4096  # of a kept structure: all of them are at most about 30 MB

Structure = tuple[bytes, ...]


class TablesMemo:
    """`of` is `build_tables`. Arrays of kept tables are read-only, and the same objects each time:
    who finds a read-only `seg_start` again knows that nothing but `token_ids` is new."""

    def __init__(self, max_structures: int = MAX_STRUCTURES) -> None:
        self._max_structures = max_structures
        self._kept: OrderedDict[Structure, PassTables] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, parts: Sequence[Part]) -> PassTables:
        """Tables of one pass."""
        if len(parts) != 1 or not parts[0].trie.shared:
            return build_tables(parts)
        trie = parts[0].trie
        structure = _structure(parts[0], trie)
        known = self._kept.get(structure)
        if known is not None:
            self._kept.move_to_end(structure)
            return replace(known, token_ids=trie.token_ids)
        made = build_tables(parts)
        if made.num_tokens <= MAX_TOKENS:
            self._keep(structure, made)
        return made

    def _keep(self, structure: Structure, made: PassTables) -> None:
        for field in fields(made):
            if field.name != "token_ids":
                getattr(made, field.name).setflags(write=False)
        self._kept[structure] = made
        if len(self._kept) > self._max_structures:
            self._kept.popitem(last=False)


def _structure(part: Part, trie: Trie) -> Structure:
    """Depths, positions and ancestors follow from these."""
    return (
        trie.node_len.tobytes(),
        trie.node_parent.tobytes(),
        trie.row_node.tobytes(),
        trie.row_readouts.tobytes(),
        trie.readout_offset.tobytes(),
        part.rows.tobytes(),
    )
