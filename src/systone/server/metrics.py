"""Prometheus metrics in a registry of their own: HTTP observed per request, the engine at scrape.

Counting the engine costs its hot path nothing: its own tally is read when someone asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from systone.engine import Engine
from systone.errors import EngineDownError

__all__ = ["Metrics"]

ROUTES = frozenset(
    (
        "/v1/systemone",
        "/v1/decisions",
        "/v1/models",
        "/health",
        "/health/live",
        "/health/ready",
        "/metrics",
    )
)
STEPS = ("parse", "prepare", "queue", "device", "finish")
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One per application."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "systone_http_requests",
            "HTTP requests by route and status; 499: the caller left first",
            ("route", "status"),
            registry=self._registry,
        )
        seconds = Histogram(
            "systone_http_request_seconds",
            "From the headers' arrival to the reply",
            ("route",),
            buckets=SECONDS,
            registry=self._registry,
        )
        steps = Histogram(
            "systone_step_seconds",
            "Time of a request in each step",
            ("step",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._counts: dict[tuple[str, int], Counter] = {}
        self._route_seconds = {r: seconds.labels(r) for r in (*ROUTES, "other")}
        self._step_seconds = {s: steps.labels(s) for s in STEPS}
        self._registry.register(_EngineCollector(engine))

    def observe(self, path: str, status: int, took_s: float, steps: Mapping[str, float]) -> None:
        """Count one finished HTTP request; unknown paths share one label."""
        route = path if path in ROUTES else "other"
        count = self._counts.get((route, status))
        if count is None:  # looking a child up costs more than counting
            count = self._counts[route, status] = self._requests.labels(route, str(status))
        count.inc()
        self._route_seconds[route].observe(took_s)
        for step, seconds in steps.items():
            self._step_seconds[step].observe(seconds)

    def page(self) -> bytes:
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    """The engine's own counts as metric families."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterable[Metric]:
        return []  # else registering would collect from an engine that hasn't started

    def collect(self) -> Iterable[Metric]:
        health = self._engine.health()
        yield GaugeMetricFamily(
            "systone_ready", "1 while the engine answers", value=float(health.ready)
        )
        waiting = _gauge("systone_queue_depth", "Accepted requests not yet on the device")
        running = _gauge("systone_running", "Requests on the device")
        for model in health.models:
            waiting.add_metric([model.name], model.undispatched)
            running.add_metric([model.name], model.running)
        yield waiting
        yield running
        try:
            tally = self._engine.tally()
        except EngineDownError:
            return  # still loading: nothing counted yet
        yield CounterMetricFamily(
            "systone_requests_admitted", "Requests accepted", value=tally.admitted
        )
        yield _counter(
            "systone_requests", "Accepted requests that ended", "outcome", tally.outcomes
        )
        yield _counter("systone_refused", "Requests refused at once", "reason", tally.refused)
        lanes = tally.lanes.items()
        yield _counter(
            "systone_batches", "Device batches", "model", {n: x.batches for n, x in lanes}
        )
        yield _counter(
            "systone_batch_requests", "Requests run", "model", {n: x.requests for n, x in lanes}
        )
        yield _counter(
            "systone_batch_tokens", "Tokens run", "model", {n: x.tokens for n, x in lanes}
        )
        yield _counter(
            "systone_device_seconds", "Device time", "model", {n: x.device_s for n, x in lanes}
        )


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["model"])


def _counter(name: str, text: str, label: str, values: Mapping[str, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
