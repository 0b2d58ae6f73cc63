import logging
import socket
import threading

import pytest

from systone.config import EngineConfig, ServerConfig
from systone.engine import Engine
from systone.errors import ConfigError
from systone.logs import set_up_logs
from systone.server.listener import bind, http_server, url_of
from tests.fakes import fake_model


def test_a_bound_socket_does_not_listen_yet() -> None:
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert url_of(sock) == f"http://127.0.0.1:{port}"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            bind("127.0.0.1", port)


def test_a_host_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--host 999\.1\.1\.1"):
        bind("999.1.1.1", 0)


def test_backlog_and_keep_alive_reach_the_http_server() -> None:
    config = http_server(object(), ServerConfig(backlog=16, keep_alive_s=5)).config
    assert (config.backlog, config.timeout_keep_alive) == (16, 5)


def test_the_log_level_decides_what_is_written(capsys) -> None:
    log = logging.getLogger("systone.test")
    root = logging.getLogger("systone")
    before = (root.handlers, root.level, root.propagate)
    try:
        set_up_logs("warning")
        log.info("too little")
        log.warning("enough")
    finally:
        root.handlers, root.level, root.propagate = before
    written = capsys.readouterr().err
    assert "enough" in written
    assert "too little" not in written


def test_workers_are_as_many_as_asked_for() -> None:
    with Engine([fake_model()], EngineConfig(workers=3)):
        names = {thread.name for thread in threading.enumerate()}
        assert {f"systone-prepare-{i}" for i in range(3)} <= names
        assert "systone-prepare-3" not in names
