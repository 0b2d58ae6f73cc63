"""Tables of passes whose structure came before: one request alone, in lengths seen lately.

Everything in a pass's tables but its token ids follows from the lengths, parents and read-outs of
its segments. A caller who asks the same questions of states of a few hundred lengths meets every
structure again. Bounded; used by one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import fields

from systone.plan.build import build_tables
from systone.plan.passes import Part
from systone.plan.tables import I32, PassTables
from systone.plan.trie import Trie

__all__ = ["TablesMemo"]

MAX_STRUCTURES = 256
MAX_TOKENS = 4096  # of a kept structure: all of them are at most about 30 MB

Structure = tuple[bytes, ...]
_TOKENS, *_STRUCTURAL = (field.name for field in fields(PassTables))
assert _TOKENS == "token_ids"


class TablesMemo:
    """`of` is `build_tables`. Arrays of kept tables are read-only, and the same objects each time:
    who finds a read-only `seg_start` again knows that nothing but `token_ids` is new."""

    def __init__(self, max_structures: int = MAX_STRUCTURES) -> None:
        self._max_structures = max_structures
        # what a structure's tables hold beside token ids, in the order of their fields
        self._kept: OrderedDict[Structure, tuple[I32, ...]] = OrderedDict()

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
            return PassTables(trie.token_ids, *known)
        made = build_tables(parts)
        if made.num_tokens <= MAX_TOKENS:
            self._keep(structure, made)
        return made

    def _keep(self, structure: Structure, made: PassTables) -> None:
        arrays = tuple(getattr(made, name) for name in _STRUCTURAL)
        for array in arrays:
            array.setflags(write=False)
        self._kept[structure] = arrays
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
