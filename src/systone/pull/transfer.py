"""Bytes over HTTP: JSON pages, and one file that resumes where it broke off.

Owns redirects, ranges, retries and the wording of HTTP faults; knows no hub and no digests. Sizes
are bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from systone import __version__
from systone.errors import ConfigError
from systone.pull.verification import RemoteFile
from systone.weights.progress import Report

__all__ = ["Client", "Page", "transfer"]

TRIES = 6  # without a byte of progress between them
FIRST_WAIT_S = 1.0  # doubled after every try
_CONNECT_S, _SILENCE_S = 20.0, 60.0
_BLOCK = 1 << 20
_REFUSALS = {
    401: "it needs an account: private, gated or not there",
    403: "it needs an account: private or gated",
    404: "no such repository, revision or file",
}
T = TypeVar("T")


class _BrokenError(Exception):
    """A call that may succeed later."""


@dataclass(frozen=True, slots=True)
class Page:
    """A JSON answer and the address of the following page, if there is one."""

    value: Any
    following: str | None


class Client:
    """One connection pool. Raises ConfigError, one line naming the address, for what fails."""

    def __init__(self) -> None:
        self._http = _library()
        self._pool = self._http.Client(
            follow_redirects=True,
            timeout=self._http.Timeout(_SILENCE_S, connect=_CONNECT_S),
            # Compressed answers would make byte ranges mean something else.
            headers={"User-Agent": f"systone/{__version__}", "Accept-Encoding": "identity"},
        )

    def close(self) -> None:
        self._pool.close()

    def json(self, url: str) -> Page:
        """GET one page."""

        def get() -> Page:
            try:
                response = self._pool.get(url)
            except self._http.RequestError as error:
                raise _BrokenError(_words(error)) from None
            except self._http.InvalidURL as error:
                raise ConfigError(f"{url}: {error}") from None
            _check(url, response.status_code)
            following = response.links.get("next", {}).get("url")
            try:
                return Page(response.json(), following)
            except ValueError:
                raise ConfigError(f"{url}: the answer is not JSON") from None

        return _tried(url, get)

    def append(self, url: str, part: Path, file: RemoteFile, report: Report) -> None:
        """GET the rest of a file onto the end of `part`.

        Raises _BrokenError when it ends early; what arrived is kept."""
        have = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        try:
            with self._pool.stream("GET", url, headers=headers) as response:
                if response.status_code == 416:
                    part.unlink()
                    raise _BrokenError("the hub has no such range")
                _check(url, response.status_code)
                start = _start(response, have)
                with part.open("r+b" if have else "wb") as out:
                    out.truncate(start)
                    out.seek(start)
                    # Unbuffered pieces: what came before a break is on disk.
                    for block in response.iter_raw(_BLOCK if file.size > 64 * _BLOCK else None):
                        out.write(block)
                        report(file.path, out.tell(), file.size)
        except self._http.RequestError as error:
            raise _BrokenError(_words(error)) from None


def transfer(client: Client, url: str, part: Path, file: RemoteFile, report: Report) -> None:
    """Fill `part` to the file's size, resuming what it holds. Raises ConfigError."""

    def size() -> int:
        return part.stat().st_size if part.exists() else 0

    if size() > file.size:
        part.unlink()
    if file.size == 0:
        part.touch()

    def once() -> None:
        if size() < file.size:
            client.append(url, part, file, report)
        if size() != file.size:
            raise _BrokenError(f"{size()} of {file.size} bytes came")

    _tried(url, once, progress=size)


def _tried(url: str, call: Callable[[], T], progress: Callable[[], int] = lambda: 0) -> T:
    """The call's result; it is tried again after growing waits, which start over on progress."""
    failures, before = 0, progress()
    while True:
        try:
            return call()
        except _BrokenError as broken:
            failures = 1 if progress() > before else failures + 1
            before = progress()
            if failures == TRIES:
                raise ConfigError(f"{url}: {broken}; gave up after {TRIES} tries") from None
        time.sleep(FIRST_WAIT_S * 2 ** (failures - 1))


def _check(url: str, status: int) -> None:
    if status in (200, 206):
        return
    if status in (408, 429) or status >= 500:
        raise _BrokenError(f"HTTP {status}")
    raise ConfigError(f"{url}: {_REFUSALS.get(status, f'HTTP {status}')}")


def _start(response: Any, have: int) -> int:
    """Where the body belongs in the file: its start when the range was ignored."""
    if response.status_code != 206:
        return 0
    given = str(response.headers.get("Content-Range", ""))
    if not given.startswith(f"bytes {have}-"):
        raise _BrokenError(f"asked for bytes from {have}, got {given or 'no range'}")
    return have


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _library() -> ModuleType:
    try:
        import httpx
    except ModuleNotFoundError:
        raise ConfigError("fetching models needs httpx: pip install 'systone[pull]'") from None
    return httpx
