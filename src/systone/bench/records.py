"""The raw record of one request, as a line of JSON. Every figure is computed from these alone."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from systone.bench.plan import WARMUP_ROUND

__all__ = ["Record", "from_lines", "to_lines"]


@dataclass(frozen=True, slots=True)
class Record:
    """`target`: a, b, or null (the client alone). `round` -1: a warm-up, in no figure but the list
    of failures. `place`: its number within the block.

    `begin_ns` counts from the block's first send, `due_ns` likewise (open loop only); `wall_ns` is
    the latency. `request` and `answers` are digests; `expected`: the digest of the answers it was
    to give, if there was something to compare with.
    """

    target: str
    level: str
    round: int
    part: int
    place: int
    variant: int
    item: str
    begin_ns: int
    wall_ns: int
    due_ns: int | None
    status: int | None
    failure: str | None
    input_tokens: int | None
    request: str
    answers: str | None
    expected: str | None
    server_ms: dict[str, float] | None
    sent_bytes: int
    received_bytes: int

    @property
    def warmup(self) -> bool:
        return self.round == WARMUP_ROUND

    @property
    def end_ns(self) -> int:
        return (self.begin_ns if self.due_ns is None else self.due_ns) + self.wall_ns

    @property
    def device_ms(self) -> float | None:
        """What the server says the device took, its own batch's other requests included."""
        return None if self.server_ms is None else self.server_ms.get("device")


# Its window of 4 MiB finds the digests of a text that was asked in an earlier round.
_PRESET = 4
_FIELDS = tuple(f.name for f in fields(Record))


def to_lines(records: Iterable[Record]) -> bytes:
    """Compressed JSON lines; the same records give the same bytes."""
    lines = (
        json.dumps(asdict(record), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for record in records
    )
    return lzma.compress(b"".join(lines), preset=_PRESET)


def from_lines(data: bytes) -> list[Record]:
    """Raises ValueError for anything but whole records."""
    try:
        lines = lzma.decompress(data).splitlines()
    except (EOFError, lzma.LZMAError) as error:
        raise ValueError(f"not readable: {error}") from None
    if not lines:
        raise ValueError("not one record")
    return [_record(json.loads(line)) for line in lines]


def _record(value: dict[str, Any]) -> Record:
    if not isinstance(value, dict) or tuple(value) != _FIELDS:
        raise ValueError("a line is not a record")
    return Record(**value)
