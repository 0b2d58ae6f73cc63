"""A server without a model, in a process of its own: how much of a latency is the client's.

Answers every request with a reply made before, found by the item number that ends its
x-request-id. Threads and blocking sockets; what it measures is an upper bound of the client's time.
"""

from __future__ import annotations

import multiprocessing
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe

from systone.bench.wire import Address

__all__ = ["null_server"]

_LENGTH = re.compile(rb"content-length: (\d+)")
_ITEM = re.compile(rb"x-request-id: \S*?(\d+)\r\n")
_CHUNK = 256 * 1024


@contextmanager
def null_server(replies: list[bytes]) -> Iterator[Address]:
    """Serve the reply bodies until the block ends. `replies[i]` answers item i."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, replies), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Address("127.0.0.1", int(ours.recv()))
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Pipe, replies: list[bytes]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    sys.setswitchinterval(0.0002)
    whole = [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % len(body)
        + body
        for body in replies
    ]
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    pipe.send(listener.getsockname()[1])
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer, args=(sock, whole), daemon=True).start()


def _answer(sock: socket.socket, replies: list[bytes]) -> None:
    data = b""
    with sock:
        while True:
            end = data.find(b"\r\n\r\n")
            if end >= 0:
                length, item = _LENGTH.search(data, 0, end), _ITEM.search(data, 0, end + 2)
                if length is None or item is None:
                    return  # not our client
                total = end + 4 + int(length[1])
                if len(data) >= total:
                    data = data[total:]
                    sock.sendall(replies[int(item[1])])
                    continue
            try:
                more = sock.recv(_CHUNK)
            except ConnectionError:
                return
            if not more:
                return
            data += more
