"""Start, readiness, limits and stop of a real server process.

Each test is a public kind of fault restated (its name opens the docstring)."""

from __future__ import annotations

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from tests.within import seconds, within

QUESTION = {"q": {"type": "noul", "instructions": "Is there fog?"}}


def test_ready_means_the_first_request_is_as_fast_as_later_ones(start_server) -> None:
    """ready-after-warmup, first-request-jit"""

    def first() -> float:
        """Of a fresh server; what five steady requests take is taken off."""
        server = start_server()
        texts = ["Fog at the pier.", *(f"Fog at pier {i}." for i in range(20))]
        taken, *later = [seconds(partial(server.decide, text, QUESTION)) for text in texts]
        assert server.client.get("/health").json()["status"] == "ready"
        return taken - 5 * sorted(later)[10]

    within(0.05, first)  # to load a model here would take a second


def test_stop_while_idle_is_quick_and_clean(start_server) -> None:
    """graceful-stop"""

    def stop() -> float:
        server = start_server()
        begun = time.monotonic()
        assert server.stop() == 0
        return time.monotonic() - begun

    within(3.0, stop)


def test_stop_while_busy_finishes_what_was_accepted(start_server) -> None:
    """graceful-stop"""
    server = start_server()
    texts = [f"fog {i} " * 300 for i in range(24)]

    def call(text: str) -> int:
        try:
            with httpx.Client(base_url=server.url, timeout=60) as client:
                body = {"state": text, "questions": QUESTION}
                return client.post("/v1/systemone", json=body).status_code
        except httpx.ConnectError:
            return 0  # came after the listener closed: never accepted

    with ThreadPoolExecutor(24) as pool:
        calls = [pool.submit(call, text) for text in texts]
        end = time.monotonic() + 30
        while (accepted := server.admitted()) < 3:
            assert time.monotonic() < end
        server.process.send_signal(signal.SIGTERM)
        codes = [c.result() for c in calls]
    assert server.process.wait(30) == 0
    assert set(codes) <= {200, 503, 0}
    assert codes.count(200) >= accepted


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--model", "no-such-folder-or-name"], "no-such-folder-or-name"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--port", "notaport"], "port"),
    ],
)
def test_wrong_settings_stop_the_start_with_one_clear_line(start_server, args, word) -> None:
    """startup-failures"""

    def end() -> float:
        begun = time.monotonic()
        server = start_server(*args, wait=False)
        assert server.process.wait(60) == 2
        lines = server.log.read_text().strip().splitlines()
        assert word in lines[-1]
        assert "Traceback" not in "\n".join(lines)
        return time.monotonic() - begun

    within(6.0, end)


def test_a_port_in_use_is_found_before_anything_is_loaded(start_server) -> None:
    """startup-failures"""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        server = start_server("--port", str(port), wait=False)
        assert server.process.wait(60) == 2
    assert str(port) in server.log.read_text().strip().splitlines()[-1]


def test_an_unknown_environment_setting_is_refused(start_server) -> None:
    """startup-failures"""
    server = start_server(wait=False, env={"SYSTONE_NO_SUCH_SETTING": "1"})
    assert server.process.wait(60) == 2
    assert "SYSTONE_NO_SUCH_SETTING" in server.log.read_text()


def test_last_sentence_counts_below_the_limit_and_above_it_is_refused(server) -> None:
    """silent-truncation, char-limit-vs-token-limit"""
    card = server.client.get("/v1/models").json()["models"][0]
    limit = card["limits"]["max_tokens"]
    questions = {
        "q": {
            "type": "choice",
            "instructions": "What is said of the valve?",
            "criteria": {
                "open": "The valve is open.",
                "shut": "The valve is shut.",
                "parade": "A parade is planned.",
            },
        }
    }
    filler = "Gardens are green . " * ((limit - 40) // 4)
    answers = {
        word: server.decide(f"{filler} The valve is {word}.", questions)["q"]["probabilities"]
        for word in ("open", "shut")
    }
    assert answers["open"]["open"] > answers["shut"]["open"]
    for oversize in (limit + 50, 3 * limit):
        reply = server.post("/v1/systemone", {"state": "green " * oversize, "questions": questions})
        assert reply.status_code in (413, 422)
        assert str(limit) in reply.text
        assert "state" in reply.text
    spaces = server.post("/v1/systemone", {"state": " " * 200_000, "questions": questions})
    assert spaces.status_code == 200


def test_a_body_above_the_byte_limit_is_413_before_parsing(server) -> None:
    """char-limit-vs-token-limit"""
    huge = b'{"state":"' + b"x" * (64 << 20)  # not even valid JSON: it must not be read that far
    try:
        reply = server.client.post(
            "/v1/systemone", content=huge, headers={"content-type": "application/json"}
        )
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        pass  # the server closed the connection while we were still sending
    else:
        assert reply.status_code == 413
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/health").status_code == 200
