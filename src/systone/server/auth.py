"""Bearer keys. With none configured, every caller is let in, whatever the header says.

Comparison takes the same time for every wrong key: all configured keys are compared, by digest.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from systone.errors import RequestError
from systone.protocol.refusals import unauthenticated
from systone.protocol.types import Dialect

__all__ = ["KeyCheck"]


class KeyCheck:
    """`keys`: those accepted. The hosted API answers a missing key with 403, we with 401 except
    in its exact dialect."""

    def __init__(self, keys: Iterable[str], dialect: Dialect) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]
        self._missing_status = 403 if dialect == "jev-exact" else 401

    def require(self, authorization: str | None) -> None:
        """Raises RequestError (401 or 403) unless the header carries an accepted key."""
        if not self._digests:
            return
        scheme, _, key = (authorization or "").strip().partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            refusal = unauthenticated(missing=True)
            raise RequestError(refusal.faults, status=self._missing_status, code=refusal.code)
        raw = key.encode("latin-1")  # starlette decodes header bytes so; keys are sent as UTF-8
        digest = hashlib.sha256(raw).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            raise unauthenticated(missing=False)
