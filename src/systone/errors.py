"""Every error systone raises, torch-free and transport-free.

Knows nothing of HTTP bodies: `protocol/errors.py` renders these per dialect, once, at the edge.
A fault of the caller is a `RequestError`; a fault of ours is an `EngineFault`; a fault of the
operator (settings, files) is a `ConfigError` and stops start-up with one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "CapacityError",
    "ConfigError",
    "DeadlineError",
    "EngineDownError",
    "EngineFaultError",
    "Fault",
    "RequestError",
    "SystoneError",
]

# How the hosted API words a fault in its 400 forms (`--dialect jev-exact`); None: a 422 list.
Exact = Literal["sentence", "api_usage_error", "max_tokens_exceeded"]


class SystoneError(Exception):
    """Base of every error of this package."""


class ConfigError(SystoneError):
    """A setting, file or checkpoint that can't be served; the message is one clear line."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a request.

    `loc` names the field from the body's root, without the leading "body" (pydantic's convention:
    the question's type follows its id, a union member closes a union slot).
    """

    loc: tuple[str | int, ...]
    type: str
    msg: str
    input: Any = None
    ctx: Mapping[str, Any] = field(default_factory=dict)
    exact: Exact | None = None


class RequestError(SystoneError):
    """The caller's request can't be answered as sent (4xx). Raised before any model work.

    `code` is the machine-readable class of the refusal (`invalid_request`, `unknown_model`,
    `max_tokens_exceeded`, `unsupported_kind`, `unsupported_media_type`, `body_too_large`, ...).
    """

    def __init__(
        self, faults: Sequence[Fault], *, status: int = 422, code: str = "invalid_request"
    ) -> None:
        if not faults:
            raise ValueError("a RequestError needs at least one fault")
        self.faults = tuple(faults)
        self.status = status
        self.code = code
        super().__init__("; ".join(f.msg for f in self.faults))

    @classmethod
    def at(
        cls,
        loc: tuple[str | int, ...],
        msg: str,
        *,
        type: str = "value_error",
        status: int = 422,
        code: str = "invalid_request",
        exact: Exact | None = None,
        **ctx: Any,
    ) -> RequestError:
        """A refusal for one field; keyword arguments beyond these become the fault's `ctx`."""
        return cls([Fault(loc, type, msg, ctx=ctx, exact=exact)], status=status, code=code)


class CapacityError(SystoneError):
    """The engine refuses work it can't start in time (429 or 503 with `Retry-After`)."""

    def __init__(self, message: str, *, retry_after_s: float, status: int = 429) -> None:
        self.retry_after_s = retry_after_s
        self.status = status
        super().__init__(message)


class DeadlineError(SystoneError):
    """An accepted request passed its deadline before it was dispatched (504)."""


class EngineFaultError(SystoneError):
    """A fault of ours that fails only its own request (500). `code` names the kind, for example
    `non_finite_output` or `inference_failed`."""

    def __init__(self, message: str, *, code: str = "inference_failed") -> None:
        self.code = code
        super().__init__(message)


class EngineDownError(SystoneError):
    """The executor is not ready, stopping, or lost (503)."""
