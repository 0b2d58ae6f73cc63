"""The Kev dialect's two extra routes: one question under several option orders, and every question
in a request of its own. Both are ordinary requests to the engine, sent together.
"""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from systone.protocol import kev_permute, systemone
from systone.protocol.types import Decision, Usage
from systone.server.service import JSON, Service

__all__ = ["kev_routes"]


def kev_routes(service: Service) -> list[Route]:
    """The routes over a service."""
    routes = _KevRoutes(service)
    return [
        Route("/v1/systemone/permute", routes.permute, methods=["POST"]),
        Route("/v1/systemone/separate", routes.separate, methods=["POST"]),
    ]


class _KevRoutes:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def permute(self, http: HttpRequest) -> Response:
        call = await self._service.parsed(http, kev_permute.parse)
        decisions = await self._service.decide(http, call.requests)
        return Response(kev_permute.render(call, decisions), media_type=JSON)

    async def separate(self, http: HttpRequest) -> Response:
        request = await self._service.parsed(http, systemone.parse)
        alone = [
            replace(request, questions={name: question})
            for name, question in request.questions.items()
        ]
        decisions = await self._service.decide(http, alone)
        return self._service.reply(http, _joined(decisions), request.model)


def _joined(decisions: list[Decision]) -> Decision:
    """One reply: usage adds up, the state counted each time; the longest batch's time is shown."""
    first = decisions[0]
    metadata = dict(first.metadata)
    if "latency_ms" in metadata:
        metadata["latency_ms"] = max(d.metadata["latency_ms"] for d in decisions)
    return Decision(
        model=first.model,
        answers={name: answer for d in decisions for name, answer in d.answers.items()},
        usage=Usage(
            sum(d.usage.input_tokens for d in decisions),
            sum(d.usage.output_tokens for d in decisions),
        ),
        metadata=metadata,
        extras={"separate": [dict(d.extras) for d in decisions]},
    )
