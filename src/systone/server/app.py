"""The HTTP application: its routes, and nothing else.

POST /v1/systemone   POST /v1/decisions   GET /v1/models
GET /health   GET /health/live   GET /health/ready   GET /metrics
Kev dialect only: POST /v1/systemone/permute   POST /v1/systemone/separate, and pages of any origin
may ask (CORS), as its own server lets them
"""

from __future__ import annotations

import time

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from systone.config import ServerConfig
from systone.engine import Engine
from systone.server.edge import Edge
from systone.server.kev_routes import kev_routes
from systone.server.metrics import Metrics
from systone.server.routes import Routes
from systone.server.service import Service

__all__ = ["create_app"]


# What a page's script may read of a reply beside its body.
_EXPOSED = ("x-typesafe-request-id", "x-request-id", "server-timing", "retry-after")


def create_app(engine: Engine, config: ServerConfig) -> ASGIApp:
    """An ASGI application over a started engine."""
    metrics = Metrics(engine)
    service = Service(engine, config, metrics)
    kev = config.dialect == "kev"
    routes = Routes(
        get={
            "/v1/models": service.models,
            "/health": service.health,
            "/health/live": service.live,
            "/health/ready": service.ready,
            "/metrics": service.metrics,
        },
        post={
            "/v1/systemone": service.systemone,
            "/v1/decisions": service.decisions,
            **(kev_routes(service) if kev else {}),
        },
    )
    edge = Edge(
        routes,
        dialect=config.dialect,
        metrics=metrics,
        clock=time.monotonic,
        log_access=config.access_log,
        wrapped=kev,
    )
    if not kev:
        return edge
    return CORSMiddleware(
        edge,
        allow_origins=("*",),
        allow_methods=("*",),
        allow_headers=("*",),
        expose_headers=_EXPOSED,
    )
