"""Ready-made errors for what a server refuses before, or instead of, reading a request.

Owns the sentences for routes, methods, media types, sizes, keys and model names; how they look on
the wire is `errors.py`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence

from systone.errors import RequestError

__all__ = [
    "body_too_large",
    "method_not_allowed",
    "not_found",
    "unauthenticated",
    "unknown_model",
    "unsupported_media_type",
]

_GENERATIVE = ("/chat/completions", "/completions", "/responses", "/messages", "/generate")


def not_found(path: str) -> RequestError:
    """404 for an unknown route, with the likely cure where there is one."""
    shown = path if len(path) <= 200 else path[:200] + "…"
    sentence = f"No route {shown}."
    if path.startswith("/v1/v1/"):
        sentence += (
            " The base URL already ends in /v1 and the client appended it again:"
            " give this client the server's root, without /v1."
        )
    elif path.rstrip("/").endswith(_GENERATIVE):
        sentence += (
            " This server answers decisions and generates no text:"
            " POST /v1/systemone (System One) or /v1/decisions (OpenAI form)."
        )
    elif path.rstrip("/") in ("/systemone", "/decisions", "/models"):
        sentence += f" Did you mean /v1{path.rstrip('/')}? (OpenAI clients: base URL ROOT/v1.)"
    else:
        sentence += " Try POST /v1/systemone, POST /v1/decisions or GET /v1/models."
    return RequestError.at((), sentence, type="not_found", status=404, code="not_found")


def method_not_allowed(method: str, allow: Sequence[str]) -> RequestError:
    """405; `allow` becomes the `Allow` header."""
    allowed = ", ".join(allow)
    return RequestError.at(
        (),
        f"Method {method[:20]} is not allowed here; allowed: {allowed}.",
        type="method_not_allowed",
        status=405,
        code="method_not_allowed",
        allow=allowed,
    )


def unsupported_media_type(what: str) -> RequestError:
    """415; `what` is the whole sentence."""
    return RequestError.at(
        (),
        what,
        type="unsupported_media_type",
        status=415,
        code="unsupported_media_type",
    )


def body_too_large(max_bytes: int) -> RequestError:
    """413 for a body over `max_bytes`, compressed or not."""
    return RequestError.at(
        (),
        f"The request body is larger than {max_bytes} bytes.",
        type="body_too_large",
        status=413,
        code="body_too_large",
        max_bytes=max_bytes,
    )


def unauthenticated(*, missing: bool) -> RequestError:
    """401 for an absent or a wrong bearer key."""
    sentence = (
        "No API key was sent; use the header Authorization: Bearer KEY."
        if missing
        else "The API key is not valid."
    )
    return RequestError.at(
        (), sentence, type="authentication_error", status=401, code="invalid_api_key"
    )


def unknown_model(name: str, served: Sequence[str]) -> RequestError:
    """404 for a `model` that is not served, naming those that are."""
    shown = name if len(name) <= 200 else name[:200] + "…"
    return RequestError.at(
        ("model",),
        f"Unknown model: {shown}. This server serves: {', '.join(served)}.",
        type="unknown_model",
        status=404,
        code="unknown_model",
        exact="api_usage_error",
        model=shown,
        served=list(served),
    )
