"""One request timed: from the POST to the parsed, validated body. What failed is an outcome too."""

from __future__ import annotations

import time
from dataclasses import dataclass

import httptools

from systone.bench.replies import Expectation, InvalidReplyError, answers_digest
from systone.bench.wire import Connection

__all__ = ["Outcome", "ask", "timing_ms"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times are nanoseconds of the client's monotonic clock. `wall_ns` runs from `due_ns` where an
    arrival time was set (open loop), so that waiting for a free connection counts.

    `failure` says what went wrong; None: a valid answer. `server_ms`: the Server-Timing header.
    """

    begin_ns: int
    wall_ns: int
    due_ns: int | None = None
    status: int | None = None
    failure: str | None = None
    input_tokens: int | None = None
    answers: str | None = None  # digest
    server_ms: dict[str, float] | None = None
    received_bytes: int = 0


def ask(
    connection: Connection, request: bytes, expected: Expectation, due_ns: int | None = None
) -> Outcome:
    """Send one request and check its reply; never raises for what a server or network does."""
    status: int | None = None
    failure = read = None
    body, timing = b"", ""
    try:
        connection.open()
    except OSError as error:
        now = time.perf_counter_ns()
        start = now if due_ns is None else due_ns
        return Outcome(now, now - start, due_ns, failure=f"can't connect: {error}")
    begin = time.perf_counter_ns()
    try:
        status, reply = connection.ask(request)
        body, timing = reply.body, reply.timing
        if status == 200:
            read = expected.read(body)
        else:
            failure = f"status {status}: {body[:200].decode('utf-8', 'replace')}"
    except InvalidReplyError as error:
        failure = f"invalid reply: {error}"
    except TimeoutError:
        failure = "no reply in time"
    except (OSError, httptools.HttpParserError) as error:
        failure = f"{type(error).__name__}: {error}"
    end = time.perf_counter_ns()
    return Outcome(
        begin_ns=begin,
        wall_ns=end - (begin if due_ns is None else due_ns),
        due_ns=due_ns,
        status=status,
        failure=failure,
        input_tokens=read.input_tokens if read else None,
        answers=answers_digest(read.answers) if read else None,
        server_ms=timing_ms(timing),
        received_bytes=len(body),
    )


def timing_ms(header: str) -> dict[str, float] | None:
    """The durations of a Server-Timing header; None if it has none."""
    found = {}
    for part in header.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.lower() == "dur":
                try:
                    found[name] = float(value.strip('"'))
                except ValueError:
                    continue  # a peer's header may hold anything; a duration that is none is none
    return found or None
