"""Which rows of one request may share segments, and what sharing saved.

Owns the policies' meaning and the accounting of a reply's `prefix_cache`. Nothing is ever shared
between requests, so this module knows one request at a time. Units are tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from systone.errors import ConfigError

Policy: TypeAlias = Literal["off", "fixed", "default", "shared", "auto"]
Scope: TypeAlias = Literal["none", "within_question", "across_questions"]

POLICIES: tuple[Policy, ...] = get_args(Policy)
AUTO_MIN_SAVED = 4096  # the references' `auto`: worth a shared prefix from here on ...
AUTO_MIN_SHARE = 3  # ... if it is also at least one third of the request's tokens


@dataclass(frozen=True, slots=True)
class Sharing:
    """A policy as a request is planned under it. All of them give the same bits.

    `default_shares`: whether the default path computes an equal leading segment once. Where it
    does, `auto` does the same work and only reports its name; where it does not, `auto` shares
    when the references' rule says it pays. An engine whose self-check refused sharing plans
    with `off`.
    """

    policy: Policy = "default"
    default_shares: bool = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ConfigError(f"policy must be one of {', '.join(POLICIES)}, not {self.policy!r}")

    def applies(self, saved: int, total: int) -> bool:
        """Whether a request of `total` tokens, row by row, shares segments that save `saved`."""
        if self.policy in ("off", "fixed"):
            return False
        if self.policy == "shared" or self.default_shares:
            return True
        return self.policy == "auto" and auto_pays(saved, total)


def auto_pays(saved: int, total: int) -> bool:
    """The references' rule: at least 4096 tokens and at least one third of the request saved."""
    return saved >= AUTO_MIN_SAVED and AUTO_MIN_SHARE * saved >= total


@dataclass(frozen=True, slots=True)
class Reuse:
    """What sharing did for one request: the four fields of `prefix_cache`.

    `saved_tokens` is the sum over executed nodes of (rows of the request through the node in that
    pass - 1) x its length; `enabled` is whether that is more than nothing.
    """

    policy: Policy
    scope: Scope = "none"
    saved_tokens: int = 0

    @property
    def enabled(self) -> bool:
        return self.saved_tokens > 0

    def plus(self, saved: int, *, crosses_questions: bool) -> Reuse:
        """The account after one more pass ran a part of the request."""
        if saved == 0:
            return self
        across = crosses_questions or self.scope == "across_questions"
        return Reuse(
            self.policy,
            "across_questions" if across else "within_question",
            self.saved_tokens + saved,
        )

    def report(self) -> Mapping[str, str | bool | int]:
        """Exactly `policy`, `enabled`, `scope`, `saved_tokens`, in this order."""
        return {
            "policy": self.policy,
            "enabled": self.enabled,
            "scope": self.scope,
            "saved_tokens": self.saved_tokens,
        }
