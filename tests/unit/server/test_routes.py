import asyncio
import gzip
import json
import re
from typing import Any

import pytest
import zstandard

from systone.errors import EngineDownError, EngineFaultError
from tests.fakes import fake_noul

ROUTES = [
    ("GET", "/v1/models"),
    ("GET", "/health"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
]


async def post(client: Any, body: Any, path: str = "/v1/systemone", **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(path, json=body, headers=names)


async def raw(client: Any, data: bytes, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/v1/systemone", content=data, headers=names)


async def test_systemone_answers(client, body) -> None:
    reply = await post(client, body)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-systone-model"] == "fake@r1"
    assert reply.json() == {
        "model": "fake",
        "answers": {"wet": {"type": "noul", "noul": fake_noul(body["state"], "?")}},
        "usage": {"input_tokens": 10, "output_tokens": 0},
    }


async def test_decisions_speaks_both_forms(client, body) -> None:
    asked = {"input": "x", "questions": [{"type": "predicate", "name": "p", "instructions": "?"}]}
    reply = await post(client, {"model": "fake", **asked}, "/v1/decisions")
    assert reply.status_code == 200, reply.text
    (answer,) = reply.json()["answers"]
    assert (answer["type"], answer["name"]) == ("predicate", "p")
    same = await post(client, body, "/v1/decisions")
    assert same.json()["answers"]["wet"]["type"] == "noul"


async def test_errors_of_decisions_take_the_form_of_their_body(client, body) -> None:
    openai = await post(client, {"model": "fake", "input": "x", "questions": []}, "/v1/decisions")
    assert openai.status_code == 400
    assert openai.json()["error"]["message"]
    ours = await post(client, {**body, "questions": {}}, "/v1/decisions")
    assert ours.status_code == 422
    assert ours.json()["detail"]


async def test_models_lists_what_is_served(client) -> None:
    listing = (await client.get("/v1/models")).json()
    assert listing["models"][0]["name"] == listing["data"][0]["id"] == "fake"
    assert listing["models"][0]["calibrated"] is False
    assert "demo-grade" in listing["models"][0]["description"]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_reply_carries_ids_and_timing(client, method, path) -> None:
    reply = await client.request(method, path)
    assert reply.status_code == 200
    assert re.fullmatch(r"req_[0-9a-f]{24}", reply.headers["x-request-id"])
    assert reply.headers["x-typesafe-request-id"] == reply.headers["x-request-id"]
    assert re.search(r"total;dur=\d+\.\d{3}", reply.headers["server-timing"])


async def test_server_timing_names_the_steps(client, body) -> None:
    timing = (await post(client, body)).headers["server-timing"]
    steps = [part.split(";")[0] for part in timing.split(", ")]
    assert steps == ["parse", "prepare", "queue", "device", "finish", "total"]


@pytest.mark.parametrize(
    ("sent", "kept"), [("trace-7:a.b_c", True), ("bad id\twith blanks", False), ("x" * 129, False)]
)
async def test_a_sane_request_id_is_echoed_and_another_replaced(client, body, sent, kept) -> None:
    reply = await post(client, body, x_request_id=sent)
    assert (reply.headers["x-request-id"] == sent) == kept
    assert reply.headers["x-typesafe-request-id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nope", "/v1/systemone/", "/v1/chat/completions"])
async def test_unknown_routes_are_404_in_json(client, path) -> None:
    reply = await client.get(path)
    assert reply.status_code == 404
    assert "/v1/systemone" in reply.text
    assert reply.json()
    assert reply.headers["x-request-id"]


async def test_wrong_methods_are_405_in_json_with_allow(client) -> None:
    for path in ("/v1/systemone", "/v1/decisions"):
        reply = await client.get(path)
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
        assert reply.json()
    reply = await client.delete("/v1/models")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD")
    assert (await client.head("/health/live")).status_code == 200
    head = await client.head("/v1/systemone")
    assert (head.status_code, head.content) == (405, b"")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=UTF-8", 200),
        (None, 200),
        ("application/json; charset=latin-1", 415),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
    ],
)
async def test_content_types(client, body, content_type, status) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    reply = await raw(client, json.dumps(body).encode(), **headers)
    assert reply.status_code == status
    assert reply.json()


async def test_compressed_bodies_are_read(client, body) -> None:
    plain = json.dumps(body).encode()
    for encoding, data in (
        ("gzip", gzip.compress(plain)),
        ("zstd", zstandard.compress(plain)),
        ("identity", plain),
    ):
        reply = await raw(client, data, content_encoding=encoding)
        assert reply.status_code == 200, (encoding, reply.text)
    assert (await raw(client, plain, content_encoding="br")).status_code == 415
    assert (await raw(client, plain, content_encoding="gzip")).status_code == 400


async def test_multipart_bodies_are_read(client, body) -> None:
    part = (None, json.dumps(body), "application/json")
    reply = await client.post("/v1/systemone", files={"request": part})
    assert reply.status_code == 200, reply.text


async def test_bodies_over_the_limit_are_413_however_they_come(connect, body) -> None:
    client = connect(max_body_bytes=2000)
    large = json.dumps({**body, "state": "x" * 2000}).encode()

    async def chunks():
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    declared = await raw(client, large)
    streamed = await raw(client, chunks())
    inflated = await raw(client, gzip.compress(large), content_encoding="gzip")
    for reply in (declared, streamed, inflated):
        assert reply.status_code == 413
        assert "2000" in reply.json()["detail"]["message"]
    assert (await post(client, body)).status_code == 200


async def test_a_body_without_a_length_is_read_no_further_than_the_limit(connect) -> None:
    taken = 0

    async def endless():
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 1000

    reply = await raw(connect(max_body_bytes=4000), endless())
    assert reply.status_code == 413
    assert taken <= 6


async def test_large_bodies_are_parsed_off_the_event_loop(client, body, monkeypatch) -> None:
    import threading

    from systone.protocol import systemone

    threads = []
    parse = systemone.parse

    def spy(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread().name)
        return parse(*args, **kwargs)

    monkeypatch.setattr(systemone, "parse", spy)
    await post(client, body)
    await post(client, {**body, "state": "x" * 40_000})
    assert threads[0] == "MainThread"
    assert threads[1].startswith("systone-parse")


async def test_bad_requests_list_their_faults(client) -> None:
    reply = await post(client, {"state": 3, "questions": {}})
    assert reply.status_code == 422
    assert {tuple(f["loc"][:2]) for f in reply.json()["detail"]} == {
        ("body", "state"),
        ("body", "questions"),
    }


async def test_the_exact_dialect_words_errors_as_the_hosted_api(connect, body) -> None:
    reply = await post(connect(dialect="jev-exact"), {**body, "model": "nope"})
    assert reply.status_code == 400
    assert reply.json() == {
        "detail": {"error_type": "api_usage_error", "message": "Unknown model: nope"}
    }


async def test_extras_are_sent_when_asked_for(connect, client, body) -> None:
    assert "x_systone" not in (await post(client, body)).json()
    assert "x_systone" in (await post(client, body, x_systone_extras="1")).json()
    assert "x_systone" in (await post(connect(extras=True), body)).json()


async def test_unknown_fields_are_ignored_unless_strict(connect, client, body) -> None:
    extra = {**body, "trace": 1}
    assert (await post(client, extra)).status_code == 200
    refused = await post(connect(strict=True), extra)
    assert refused.status_code == 422
    assert "trace" in refused.text
    assert (await post(connect(strict=True), extra, "/v1/decisions")).status_code == 422


async def test_any_bearer_is_accepted_without_keys(client, body) -> None:
    for header in ("Bearer ", "Bearer x", "Basic eA==", ""):
        assert (await post(client, body, authorization=header)).status_code == 200


async def test_keys_are_checked_when_there_are_any(connect, body) -> None:
    client = connect(api_key=("one", "zwei-ü"))
    for header in ("Bearer one", "bearer one", "Bearer  one "):
        assert (await post(client, body, authorization=header)).status_code == 200
    sent = {"authorization": "Bearer zwei-ü".encode()}
    assert (await client.post("/v1/systemone", json=body, headers=sent)).status_code == 200
    for header, word in (("Bearer wrong", "not valid"), ("Bearer ", "No API key"), ("x", "No API")):
        reply = await post(client, body, authorization=header)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.json()["detail"]["error_type"] == "authentication_error"
        assert word in reply.json()["detail"]["message"]
    assert (await client.get("/v1/models")).status_code == 401
    assert (await post(client, body, "/v1/decisions")).status_code == 401
    assert (await client.get("/health")).status_code == 200
    exact = connect(api_key=("one",), dialect="jev-exact")
    assert (await post(exact, body)).status_code == 403
    assert (await post(exact, body, authorization="Bearer wrong")).status_code == 401


@pytest.mark.parametrize("value", ["0", "-1", "soon", "1.5", "3600001", "٣", "9" * 5000])
async def test_a_deadline_that_is_no_number_is_refused(client, body, value) -> None:
    sent = {"x-systone-deadline-ms": value.encode()}
    reply = await client.post("/v1/systemone", json=body, headers=sent)
    assert reply.status_code == 400
    assert "x-systone-deadline-ms" in reply.text


@pytest.mark.parametrize("how", ["header", "setting"])
async def test_a_deadline_that_passes_in_the_queue_is_504(
    connect, body, engine, executor, how
) -> None:
    client = connect(deadline_s=0.1 if how == "setting" else None)
    headers = {"x_systone_deadline_ms": "100"} if how == "header" else {}
    executor.gate.clear()
    executor.entered.clear()
    holder = asyncio.create_task(post(client, body, x_systone_deadline_ms="9000"))
    await asyncio.to_thread(executor.entered.wait, 5)
    late = await post(client, body, **headers)
    assert late.status_code == 504
    assert late.json()["detail"]["error_type"] == "timeout_error"
    executor.gate.set()
    assert (await holder).status_code == 200


async def test_a_full_queue_is_429_with_retry_after(client, body, executor) -> None:
    executor.gate.clear()
    executor.entered.clear()
    holder = asyncio.create_task(post(client, body))
    await asyncio.to_thread(executor.entered.wait, 5)
    waiting = [asyncio.create_task(post(client, body)) for _ in range(4)]
    await asyncio.sleep(0.2)
    refused = await post(client, body)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["x-request-id"]
    executor.gate.set()
    replies = await asyncio.gather(holder, *waiting)
    assert [reply.status_code for reply in replies] == [200] * 5


async def test_health_is_503_once_the_device_is_lost(client, body, executor) -> None:
    assert (await client.get("/health")).json()["status"] == "ready"

    def lost(batch: Any) -> Any:
        raise EngineDownError("CUDA error")

    executor.fault = lost
    reply = await post(client, body)
    assert reply.status_code == 503
    assert reply.headers["retry-after"]
    for path in ("/health", "/health/ready", "/health/live"):
        health = await client.get(path)
        assert health.status_code == 503
        assert health.json()["status"] == "failed"
        assert "CUDA error" in health.json()["reason"]
    assert (await post(client, body)).status_code == 503
    assert (await client.get("/v1/models")).status_code == 200


async def test_health_tells_modes_and_depth(client, body) -> None:
    await post(client, body)
    health = (await client.get("/health")).json()
    (model,) = health["models"]
    assert model["modes"]["device"] == "fake"
    assert (model["queue_depth"], model["running"], model["calibrated"]) == (0, 0, False)
    assert health["max_queue"] == 4


async def test_draining_refuses_new_requests_but_lives(client, body, engine) -> None:
    assert engine.drain(1)
    assert (await client.get("/health/ready")).status_code == 503
    assert (await client.get("/health/live")).status_code == 200
    reply = await post(client, body)
    assert reply.status_code == 503
    assert reply.headers["retry-after"]


async def test_our_own_faults_are_500s_with_a_code(client, body, executor) -> None:
    executor.fault = lambda batch: [
        EngineFaultError("a score is not finite", code="non_finite_output") for _ in batch
    ]
    reply = await post(client, body)
    assert reply.status_code == 500
    assert reply.json()["detail"]["code"] == "non_finite_output"
    executor.fault = None
    assert (await post(client, body)).status_code == 200


async def test_a_bug_in_the_server_is_a_500_in_json(client, body, monkeypatch, caplog) -> None:
    from systone.protocol import systemone

    def broken(*args: Any, **kwargs: Any) -> bytes:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(systemone, "render", broken)
    reply = await post(client, body)
    assert reply.status_code == 500
    assert reply.json()["detail"]["code"] == "internal_error"
    assert "secret" not in reply.text
    assert reply.headers["x-request-id"] in caplog.text


async def test_metrics_count_requests_outcomes_and_device_work(client, body, executor) -> None:
    await post(client, body)
    await post(client, {**body, "state": "refuse"})
    await post(client, {"state": 1})
    await client.get("/secret/path")
    executor.fault = lambda batch: 1 // 0
    await post(client, body)
    text = (await client.get("/metrics")).text
    for line in (
        'systone_http_requests_total{route="/v1/systemone",status="200"} 1.0',
        'systone_http_requests_total{route="/v1/systemone",status="422"} 2.0',
        'systone_http_requests_total{route="/v1/systemone",status="500"} 1.0',
        'systone_http_requests_total{route="other",status="404"} 1.0',
        'systone_http_request_seconds_count{route="/v1/systemone"} 4.0',
        'systone_step_seconds_count{step="finish"} 1.0',
        "systone_ready 1.0",
        "systone_requests_admitted_total 3.0",
        'systone_requests_total{outcome="answered"} 1.0',
        'systone_requests_total{outcome="invalid"} 1.0',
        'systone_requests_total{outcome="inference_failed"} 1.0',
        'systone_queue_depth{model="fake"} 0.0',
        'systone_batches_total{model="fake"} 2.0',
        'systone_batch_tokens_total{model="fake"} 20.0',
    ):
        assert line in text.splitlines(), line
    assert "secret" not in text


async def test_requests_are_logged_on_demand_without_their_text(connect, body, caplog) -> None:
    caplog.set_level("INFO", logger="systone.access")
    await post(connect(), body)
    assert not [r for r in caplog.records if r.name == "systone.access"]
    reply = await post(connect(access_log=True), body)
    (record,) = [r for r in caplog.records if r.name == "systone.access"]
    line = record.getMessage()
    assert line.startswith("POST /v1/systemone 200 ")
    assert line.endswith(reply.headers["x-request-id"])
    assert "crate" not in line
