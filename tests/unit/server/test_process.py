"""Real server processes over a fake model: sockets, disconnects, signals, start and stop."""

import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.within import within

BODY = json.dumps(
    {"state": "s", "questions": {"wet": {"type": "noul", "instructions": "?"}}}
).encode()


def head(length: int | None = len(BODY), **headers: str) -> bytes:
    lines = ["POST /v1/systemone HTTP/1.1", "host: x", "content-type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if length is not None:
        lines.append(f"content-length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read_reply(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = sock.recv(65536)
        assert chunk, data
        data += chunk
    top, _, rest = data.partition(b"\r\n\r\n")
    status, *lines = top.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
    while len(rest) < int(headers["content-length"]):
        rest += sock.recv(65536)
    return int(status.split()[1]), headers, rest


def get(url: str, **options: Any) -> httpx.Response:
    return httpx.get(url, verify=False, **options)  # plain HTTP: loading CAs is slow


def post(url: str, **options: Any) -> httpx.Response:
    return httpx.post(url, verify=False, **options)


def metric(url: str, line: str) -> float:
    text = get(url + "/metrics", timeout=10).text
    return sum(float(x.rsplit(" ", 1)[1]) for x in text.splitlines() if x.startswith(line))


def wait_for(condition: Any, limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_connections_are_kept_and_bodies_may_come_in_pieces(start) -> None:
    server = start(0)
    with server.connect() as sock:
        for _ in range(3):
            sock.sendall(head() + BODY)
            assert read_reply(sock)[0] == 200
        sock.sendall(head(None, transfer_encoding="chunked"))
        for i in range(0, len(BODY), 10):
            piece = BODY[i : i + 10]
            sock.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        sock.sendall(b"0\r\n\r\n")
        assert read_reply(sock)[0] == 200
        sock.sendall(head())
        for byte in BODY:
            sock.sendall(bytes([byte]))
        assert read_reply(sock)[0] == 200
        sock.sendall(head(3_000_000_000))  # refused by its length, before anything is sent
        assert read_reply(sock)[0] == 413


def test_what_is_not_http_is_refused_in_json(start) -> None:
    server = start(0)
    with server.connect() as sock:
        sock.sendall(b"NONSENSE\r\n\r\n")
        status, headers, body = read_reply(sock)
    assert (status, headers["content-type"]) == (400, "application/json")
    assert json.loads(body)["detail"]["code"] == "invalid_http"


def test_callers_that_leave_take_their_requests_out_of_the_queue(start) -> None:
    server = start(0.2, "--max-batch-requests", "1", "--max-queue", "100")
    leaving = []
    for _ in range(40):
        sock = server.connect()
        sock.sendall(head() + BODY)
        leaving.append(sock)
    wait_for(lambda: metric(server.url, "systone_queue_depth") >= 35)
    for sock in leaving:
        sock.close()
    wait_for(lambda: metric(server.url, "systone_queue_depth") == 0)
    began = time.monotonic()
    assert post(f"{server.url}/v1/systemone", content=BODY, timeout=10).status_code == 200
    assert time.monotonic() - began < 1.5  # at most one batch ahead, not eight seconds
    cancelled = metric(server.url, 'systone_requests_total{outcome="cancelled"}')
    answered = metric(server.url, 'systone_requests_total{outcome="answered"}')
    assert cancelled >= 30
    assert cancelled + answered == 41
    assert (
        metric(server.url, 'systone_http_requests_total{route="/v1/systemone",status="499"') == 40
    )


def test_a_caller_that_leaves_during_its_batch_disturbs_nobody(start) -> None:
    server = start(0.3)
    with server.connect() as leaving, server.connect() as staying:
        leaving.sendall(head() + BODY)
        time.sleep(0.1)
        leaving.close()
        staying.sendall(head() + BODY)
        assert read_reply(staying)[0] == 200


def test_stopping_while_idle_is_quick(start) -> None:
    def stop() -> float:
        server = start(0)
        with server.connect() as idle:
            idle.sendall(head() + BODY)
            read_reply(idle)  # a kept connection must not delay the end
            began = time.monotonic()
            server.terminate()
            assert server.popen.wait(30) == 0
            taken = time.monotonic() - began
        assert "Traceback" not in server.log.read_text()
        return taken

    within(1.5, stop)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_while_busy_finishes_accepted_requests_and_refuses_new_ones(
    start, number: int
) -> None:
    server = start(0.5, "--max-batch-requests", "1")
    with ThreadPoolExecutor(6) as pool:
        calls = [
            pool.submit(post, f"{server.url}/v1/systemone", content=BODY, timeout=20)
            for _ in range(6)
        ]
        wait_for(lambda: metric(server.url, "systone_requests_admitted_total") == 6)
        server.terminate(number)
        time.sleep(0.1)
        ready = get(f"{server.url}/health/ready", timeout=10)
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        refused = post(f"{server.url}/v1/systemone", content=BODY, timeout=10)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert [call.result().status_code for call in calls] == [200] * 6
    assert server.popen.wait(30) == 0
    assert "Traceback" not in server.log.read_text()


def test_what_the_drain_time_does_not_reach_is_refused_with_503(start) -> None:
    server = start(0.4, "--max-batch-requests", "1", "--drain-s", "1")
    with ThreadPoolExecutor(12) as pool:
        calls = [
            pool.submit(post, f"{server.url}/v1/systemone", content=BODY, timeout=20)
            for _ in range(12)
        ]
        wait_for(lambda: metric(server.url, "systone_requests_admitted_total") == 12)
        server.terminate()
        codes = [call.result().status_code for call in calls]
    assert set(codes) == {200, 503}
    assert server.popen.wait(30) == 0


def test_a_second_signal_ends_the_process_at_once(start) -> None:
    def end() -> float:
        server = start(30.0)
        with server.connect() as sock:
            sock.sendall(head() + BODY)
            time.sleep(0.3)
            server.terminate()
            time.sleep(0.2)
            assert server.popen.poll() is None
            began = time.monotonic()
            server.terminate()
            assert server.popen.wait(40) == 128 + signal.SIGTERM
            return time.monotonic() - began

    within(1.0, end)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_while_loading_ends_the_process(start, number: int, status: int) -> None:
    def end() -> float:
        server = start(30.0, "--warmup", "on", wait=False)  # its warm-up takes a minute
        wait_for(lambda: "loading" in server.log.read_text())
        time.sleep(0.2)
        with pytest.raises(ConnectionRefusedError):
            server.connect()  # nothing listens before it can answer
        began = time.monotonic()
        server.terminate(number)
        assert server.popen.wait(40) == status
        taken = time.monotonic() - began
        assert "while loading" in server.log.read_text()
        return taken

    within(2.0, end)


def test_overload_is_refused_quickly_and_passes(start) -> None:
    server = start(0.02, "--max-queue", "8", "--max-batch-requests", "1", "--deadline-s", "2")
    slow: list[float] = []
    codes: list[int] = []
    lock = threading.Lock()

    def client() -> None:
        with httpx.Client(base_url=server.url, timeout=20, verify=False) as connection:
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                began = time.monotonic()
                reply = connection.post("/v1/systemone", content=BODY)
                with lock:
                    codes.append(reply.status_code)
                    if reply.status_code != 200:
                        slow.append(time.monotonic() - began)
                        assert reply.headers["retry-after"]
                if reply.status_code != 200:
                    time.sleep(0.05)

    threads = [threading.Thread(target=client) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) == {200, 429}
    assert sorted(slow)[len(slow) // 2] < 0.05
    began = time.monotonic()
    assert post(f"{server.url}/v1/systemone", content=BODY, timeout=10).status_code == 200
    assert time.monotonic() - began < 1
