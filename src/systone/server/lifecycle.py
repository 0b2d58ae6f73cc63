"""One life of a server process: bind, load, verify, warm up, listen, drain, stop.

signal while loading   nothing was accepted: leave at once (SIGTERM 0, SIGINT 130)
first signal           readiness 503 and new requests 503 at once; accepted ones finish, at
                       most `drain_s`; then exit 0 (1 if the engine had failed)
second signal          leave at once (128 + its number)
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType

import uvloop

from systone.config import Settings
from systone.engine import Engine, Source
from systone.errors import ConfigError
from systone.models.registry import check as check_source
from systone.server.app import create_app
from systone.server.listener import HttpServer, bind, http_server, url_of

__all__ = ["serve"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = logging.getLogger("systone.server")


def serve(settings: Settings, models: Sequence[Source] | None = None) -> int:
    """Serve until a signal; the process's exit status. Raises ConfigError before listening.

    `models`: what to serve instead of `settings.models` (already loaded ones)."""
    if models is None:
        for model in settings.models:
            check_source(model.source)
    sock = bind(settings.server.host, settings.server.port)
    engine = Engine(settings.models if models is None else models, settings.engine)
    for number in SIGNALS:
        signal.signal(number, _leave_while_loading)
    log.info("loading")
    engine.start()
    gc.collect()
    gc.freeze()  # what was loaded stays: the collector needn't walk it in the middle of a request
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_listen(engine, settings, sock))
        failed = engine.health().status == "failed"
    finally:
        engine.close()
    log.info("stopped")
    return 1 if failed else 0


async def _listen(engine: Engine, settings: Settings, sock: socket.socket) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, _on_signal, stop, number)
    server = http_server(create_app(engine, settings.server), settings.server)
    serving = loop.create_task(server.serve(sockets=[sock]))
    try:
        await _until_listening(server, serving)
    except OSError as error:
        raise ConfigError(f"can't listen on {url_of(sock)}: {error.strerror}") from None
    log.info("listening on %s", url_of(sock))
    stopping = loop.create_task(stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        log.info("stopping: finishing accepted requests, at most %g s", settings.engine.drain_s)
        if not await asyncio.to_thread(engine.drain, settings.engine.drain_s):
            log.warning("some accepted requests were refused: the drain time was over")
        server.should_exit = True
    await serving


async def _until_listening(server: HttpServer, serving: asyncio.Task[None]) -> None:
    while not server.started:
        if serving.done():
            await serving  # raises what stopped it
            raise OSError(0, "the HTTP server ended")
        await asyncio.sleep(0.001)


def _on_signal(stop: asyncio.Event, number: int) -> None:
    if stop.is_set():
        _leave(128 + number)
    stop.set()


def _leave_while_loading(number: int, _frame: FrameType | None) -> None:
    sys.stderr.write(f"systone: stopped by {signal.Signals(number).name} while loading\n")
    _leave(0 if number == signal.SIGTERM else 128 + number)


def _leave(status: int) -> None:
    """End the process now, whatever its threads are doing; the system frees its devices."""
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(status)
