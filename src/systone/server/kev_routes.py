"""The Kev dialect's two extra routes: one question under several option orders, and every question
in a request of its own. Both are ordinary requests to the engine, sent together.
"""

from __future__ import annotations

from dataclasses import replace

from systone.protocol import kev_permute, systemone
from systone.protocol.types import Decision, Usage
from systone.server.call import Call, Reply
from systone.server.routes import Handler
from systone.server.service import Service

__all__ = ["kev_routes"]


def kev_routes(service: Service) -> dict[str, Handler]:
    """The handlers over a service, by path."""
    routes = _KevRoutes(service)
    return {
        "/v1/systemone/permute": routes.permute,
        "/v1/systemone/separate": routes.separate,
    }


class _KevRoutes:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def permute(self, call: Call) -> Reply:
        asked = await self._service.parsed(call, kev_permute.parse)
        decisions = await self._service.decide(call, asked.requests)
        return Reply(kev_permute.render(asked, decisions))

    async def separate(self, call: Call) -> Reply:
        request = await self._service.parsed(call, systemone.parse)
        alone = [
            replace(request, questions={name: question})
            for name, question in request.questions.items()
        ]
        decisions = await self._service.decide(call, alone)
        return self._service.reply(call, _joined(decisions), request.model)


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
