"""A model hub on this machine: lists, redirects to a file store, serves ranges, breaks off."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 4096  # bytes from which a file is kept in the file store, with its SHA-256


class FakeHub:
    """`files`: repository -> path -> content. `requests`: (method, path, range) as they came."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.branches = {"main": COMMIT}
        self.commits = {COMMIT}
        self.requests: list[tuple[str, str, str | None]] = []
        self.tokens: list[str] = []
        self.break_after: list[int] = []  # bytes after which the next answers break off
        self.busy = 0  # answers of 503 before the hub works
        self.corrupt: set[str] = set()
        self.ranged = True
        self.page = 1000  # entries of one page of a listing
        # The file store is another host, as with a public hub.
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), self._handler()) for _ in range(2)]
        ports = [server.server_address[1] for server in self.servers]
        self.url, self.store = f"http://127.0.0.1:{ports[0]}", f"http://localhost:{ports[1]}"
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def ranges(self, name: str) -> list[str | None]:
        """The ranges asked of the file store for a file."""
        return [r for method, path, r in self.requests if method == "GET" and path.endswith(name)
                and path.startswith("/store/")]  # fmt: skip

    def tree(self, repo: str) -> list[dict]:
        entries: list[dict] = [{"type": "directory", "path": "folder", "oid": "0" * 40, "size": 0}]
        for path, content in self.files[repo].items():
            entry = {"type": "file", "path": path, "size": len(content), "oid": git_blob(content)}
            if len(content) >= LARGE:
                oid = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 130}
            entries.append(entry)
        return entries

    def _handler(hub) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._answer()

            def do_GET(self) -> None:
                self._answer()

            def _answer(self) -> None:
                path = urlsplit(self.path).path
                hub.requests.append((self.command, path, self.headers.get("Range")))
                if token := self.headers.get("Authorization"):
                    hub.tokens.append(token)
                if hub.busy:
                    hub.busy -= 1
                    self._send(503, b"busy")
                elif path.startswith("/api/models/"):
                    self._api(path.removeprefix("/api/models/"))
                elif path.startswith("/store/"):
                    repo, name = path.removeprefix("/store/").split("/-/")
                    self._stored(repo, name)
                else:
                    self._resolve(path.removeprefix("/"))

            def _api(self, rest: str) -> None:
                owner, name, what, revision = rest.split("/", 3)
                repo, revision = f"{owner}/{name}", hub.branches.get(revision, revision)
                if repo not in hub.files:
                    self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
                elif revision not in hub.commits:
                    self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
                else:
                    info = {"id": repo, "sha": COMMIT, "siblings": []}
                    headers = {"Content-Type": "application/json"}
                    body: object = info
                    if what == "tree":
                        body, headers["Link"] = self._page(hub.tree(repo))
                    self._send(200, json.dumps(body).encode(), headers)

            def _page(self, entries: list[dict]) -> tuple[list[dict], str]:
                url = urlsplit(self.path)
                at = int(dict(parse_qsl(url.query)).get("cursor", "0"))
                end = at + hub.page
                more = f'<{hub.url}{url.path}?cursor={end}>; rel="next"'
                return entries[at:end], more if end < len(entries) else ""

            def _resolve(self, rest: str) -> None:
                repo, _, rest = rest.partition("/resolve/")
                name = rest.partition("/")[2]
                content = hub.files[repo][name]
                about = {"X-Repo-Commit": COMMIT, "ETag": f'"{git_blob(content)}"'}
                if len(content) < LARGE:
                    self._send(200, content, about)
                    return
                about["X-Linked-Etag"] = f'"{hashlib.sha256(content).hexdigest()}"'
                about["X-Linked-Size"] = str(len(content))
                about["Location"] = f"{hub.store}/store/{repo}/-/{name}"
                self._send(302, b"", about)

            def _stored(self, repo: str, name: str) -> None:
                content = hub.files[repo][name]
                if name in hub.corrupt:
                    content = content[:-1] + b"?"
                asked = self.headers.get("Range") if hub.ranged else None
                start = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
                about = {"Accept-Ranges": "bytes"}
                if asked:
                    size = len(content)
                    about["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
                self._send(206 if asked else 200, content[start:], about, breaks=True)

            def _send(
                self,
                status: int,
                body: bytes,
                headers: dict | None = None,
                *,
                breaks: bool = False,
            ) -> None:
                self.send_response(status)
                for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                if breaks and hub.break_after:
                    self.wfile.write(body[: hub.break_after.pop(0)])
                    self.wfile.flush()
                    self.close_connection = True
                    return
                self.wfile.write(body)

        return Handler


def git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    monkeypatch.setattr("systone.pull.transfer.FIRST_WAIT_S", 0.0)
    hub = FakeHub()
    yield hub
    hub.close()
