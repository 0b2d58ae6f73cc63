"""A model hub over HTTP: which commit a revision is, which files it has, and fetching one.

Owns the hub's URL layout (`/api/models/{repo}/...`, `/{repo}/resolve/{commit}/{file}`) and the
record a load takes as proof of a revision. Redirects are followed; no credentials are sent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from systone.errors import ConfigError
from systone.pull.transfer import Client, transfer
from systone.pull.verification import RemoteFile, differs
from systone.weights.progress import Report

__all__ = ["PUBLIC_HUB", "Hub"]

PUBLIC_HUB = "https://huggingface.co"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Hub:
    """A hub at `url`; `close` it, or use it as a context manager."""

    def __init__(self, url: str = PUBLIC_HUB) -> None:
        """Raises ConfigError when the HTTP library isn't installed or `url` is no web address."""
        self.url = url.rstrip("/")
        if not re.match(r"https?://[^/]", self.url):
            raise ConfigError(f"{url!r} is not the address of a hub (http:// or https://)")
        self._client = Client()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def commit(self, repo: str, revision: str) -> str:
        """The commit that a branch or tag names now; a commit is itself. Raises ConfigError."""
        if _COMMIT.fullmatch(revision):
            return revision
        info = self._client.json(self._api(repo, "revision", revision)).value
        sha = info.get("sha") if isinstance(info, dict) else None
        if not isinstance(sha, str) or not _COMMIT.fullmatch(sha):
            raise ConfigError(f"{self.url}: {repo}@{revision} resolves to no commit")
        return sha

    def files(
        self, repo: str, commit: str, patterns: tuple[str, ...], pins: Mapping[str, str]
    ) -> list[RemoteFile]:
        """Files of a commit that match a pattern. Raises ConfigError for a path that leads out of
        the repository, and when a pinned file isn't there."""
        found = []
        for entry in self._listed(repo, commit):
            file = _remote(entry, pins)
            if file is None:
                raise ConfigError(f"{self.url}: {repo}@{commit} has an unreadable or unsafe entry")
            if entry["type"] == "file" and any(fnmatchcase(file.path, p) for p in patterns):
                found.append(file)
        for end in pins:
            if not any(f"/{file.path}".endswith(f"/{end}") for file in found):
                raise ConfigError(f"{self.url}: {repo}@{commit} has no {end}, which is pinned")
        return found

    def fetch(self, repo: str, commit: str, file: RemoteFile, out: Path, report: Report) -> None:
        """The file below `out`, whole and verified; what is there already isn't fetched again.

        It is written beside its place and renamed when it is proven; what a broken call left is
        resumed by the next. Raises ConfigError; a file that isn't the listed one is removed."""
        path = out / file.path
        if not path.is_file() or differs(path, file):
            # Named by its digest: what is left of another revision's file is not continued.
            part = path.with_name(f"{path.name}.{file.digest[:12]}.part")
            url = f"{self.url}/{repo}/resolve/{commit}/{quote(file.path)}"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                transfer(self._client, url, part, file, report)
                if fault := differs(part, file):
                    part.unlink()
                    raise ConfigError(f"{self.url}: {repo}: {file.path} {fault}; removed")
                part.replace(path)
            except OSError as error:
                raise ConfigError(f"{path}: can't be written ({error.strerror})") from None
        report(file.path, file.size, file.size)
        _record(out, file, commit)

    def _api(self, repo: str, what: str, revision: str) -> str:
        return f"{self.url}/api/models/{quote(repo)}/{what}/{quote(revision, safe='')}"

    def _listed(self, repo: str, commit: str) -> list[Any]:
        url: str | None = f"{self._api(repo, 'tree', commit)}?recursive=true"
        entries: list[Any] = []
        while url is not None:
            page = self._client.json(url)
            if not isinstance(page.value, list):
                raise ConfigError(f"{self.url}: {repo}@{commit} has no list of files")
            entries += page.value
            url = page.following
        return entries


def _remote(entry: Any, pins: Mapping[str, str]) -> RemoteFile | None:
    """One entry of a listing; None when it can't be read or its path could leave the directory."""
    try:
        path, size = entry["path"], entry["size"]
        digest = entry["lfs"]["oid"] if entry.get("lfs") else entry["oid"]
        kind = entry["type"]
    except (KeyError, TypeError, AttributeError):
        return None
    if not (isinstance(path, str) and type(size) is int and isinstance(digest, str)):
        return None
    unsafe = PurePosixPath(path).is_absolute() or {"..", ".", ""} & {*path.split("/")}
    if unsafe or "\\" in path or kind not in ("file", "directory") or not _DIGEST.fullmatch(digest):
        return None
    pin = next((p for end, p in pins.items() if f"/{path}".endswith(f"/{end}")), "")
    return RemoteFile(path, size, digest, pin)


def _record(out: Path, file: RemoteFile, commit: str) -> None:
    """Commit, digest and time, where a hub's own client leaves them (`weights.hub` reads them)."""
    path = out / ".cache" / "huggingface" / "download" / f"{file.path}.metadata"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{commit}\n{file.digest}\n{time.time()}\n", encoding="utf-8")
