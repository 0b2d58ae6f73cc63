"""The messages of the planner: rows as paths of segments, and the flat tables a pass is made of.

Torch-free and model-free; arrays, never per-token objects. Units are tokens.
Axes: T tokens of a pass, S its segments, C chunks, R read-outs, G inner depths, X ancestor entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]

ID_BYTES = 4  # of a token id

CHUNK = 64  # tokens of a full GDN chunk; a segment restarts the tiling
CONV_HISTORY = 3  # tokens a causal convolution of width 4 looks back
TILES = (16, 32, 64)  # what a segment's last (or only) chunk may be padded to


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A run of tokens that rows may share. `key` is its whole content: token ids, int32 in memory
    order. Equal keys under one parent are one trie node. Never empty."""

    key: bytes

    @classmethod
    def of(cls, ids: NDArray[np.int32] | list[int]) -> Segment:
        return cls.joined((np.asarray(ids, np.int32).tobytes(),))

    @classmethod
    def joined(cls, ids: Iterable[bytes]) -> Segment:
        """Of ids as `key` has them. Raises ValueError if there are none."""
        key = b"".join(ids)
        if not key:
            raise ValueError("an empty segment is never a node")
        return cls(key)

    @property
    def tokens(self) -> I32:
        """[L] read-only, L >= 1."""
        return np.frombuffer(self.key, np.int32)

    @property
    def size(self) -> int:
        """Its tokens."""
        return len(self.key) // ID_BYTES


@dataclass(frozen=True, slots=True)
class Row:
    """One scored row: its segments, root first, and the index of its question in the request.

    `readouts`: offsets of its read-outs in its last segment, rising; None: the last token."""

    path: tuple[Segment, ...]
    question: int
    readouts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PassTables:
    """Everything the operators read about one pass. Segments lie back to back in `token_ids`,
    parents before children; a segment is inner when another segment of the pass descends from it.

    A row's arithmetic is a function of its own path: chunks restart at every segment, and the
    tile of a segment's last chunk depends on that segment's length only.
    """

    token_ids: I32  # [T]
    positions: I32  # [T] position of each token on its path (text: equal on the M-RoPE axes)
    conv_prev: I32  # [T, 3] flat index of the tokens 1, 2, 3 before it on its path, -1 for none

    seg_start: I32  # [S] flat index of the first token
    seg_len: I32  # [S] >= 1
    seg_parent: I32  # [S] -1 for a root
    seg_depth: I32  # [S] 0 for a root
    start_position: I32  # [S, 3] per M-RoPE axis
    next_position: I32  # [S] position that a child starts from

    # ancestors of each segment in path order (root first, the segment itself left out), as CSR
    anc_ptr: I32  # [S + 1]
    anc_seg: I32  # [X]

    # GDN chunks, in segment order: CHUNK tokens each but the segment's last
    seg_chunk_ptr: I32  # [S + 1]
    chunk_seg: I32  # [C]
    chunk_start: I32  # [C] flat index
    chunk_len: I32  # [C] 1..CHUNK
    chunk_tile: I32  # [C] 16, 32 or 64, >= chunk_len

    # recurrent state: inner segments by depth (one launch each), then every leaf in one launch
    inner_ptr: I32  # [G + 1] into inner_seg
    inner_seg: I32  # [number of inner segments]
    leaf_seg: I32  # [number of leaves]
    state_slot: I32  # [S] slot an inner segment writes its final state to, -1 for a leaf
    parent_slot: I32  # [S] slot of the parent's state, -1 for a root (zero state)

    readout_token: I32  # [R] flat index
    readout_seg: I32  # [R]
    readout_request: I32  # [R] index of the request in the pass
    readout_row: I32  # [R] index of the row in its request; a row's read-outs are neighbours
    readout_query: I32  # [R] index of the last read-out of the same row

    @property
    def num_tokens(self) -> int:
        return int(self.token_ids.shape[0])

    @property
    def num_segments(self) -> int:
        return int(self.seg_start.shape[0])

    @property
    def num_states(self) -> int:
        return int(self.inner_seg.shape[0])
