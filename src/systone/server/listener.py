"""The listening side of the process: the socket, and uvicorn set up for this server.

The socket is bound before anything is loaded, so a port in use is found in the first second, and
listens only once the engine can answer: until then a connection is refused, never left hanging.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from systone.config import ServerConfig
from systone.errors import ConfigError
from systone.server.connection import Connection

__all__ = ["HttpServer", "bind", "http_server", "url_of"]

CLOSE_S = 5.0  # how long replies may still be written to slow callers once all are answered


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket that doesn't listen yet. Raises ConfigError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"--host {host}: {error.strerror or error}") from None
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise ConfigError(f"can't listen on {host} port {port}: {error.strerror}") from None
    return sock


def url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    """uvicorn, with signals left to the lifecycle (which drains before it stops listening)."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(app: ASGIApp, config: ServerConfig) -> HttpServer:
    return HttpServer(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=config.backlog,
            timeout_keep_alive=config.keep_alive_s,
            timeout_graceful_shutdown=int(CLOSE_S),
        )
    )
