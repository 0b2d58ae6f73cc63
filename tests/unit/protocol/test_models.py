"""`/v1/models`: one body for both SDKs."""

from __future__ import annotations

import json
from typing import Any

from systone.models.base import Limits, ModelCard
from systone.protocol import models

CARD = ModelCard(
    name="systone-mini",
    description="Demo model.",
    release_date="2026-11-29",
    revision="1.0.0",
    kinds=frozenset({"score", "choice", "noul"}),
    calibrated=False,
    confidence="margin over chance",
    usage_rule="state once",
    limits=Limits(max_options=26, max_tokens=256),
    aliases=("jev-latest", "jev-preview"),
)
SIGHTED = ModelCard(
    name="seer",
    description="Reads images.",
    release_date="2026-01-02",
    revision="r",
    kinds=frozenset({"choice"}),
    calibrated=True,
    confidence="c",
    usage_rule="u",
    limits=Limits(max_images=4),
)


def listing(**options: Any) -> Any:
    return json.loads(models.render([CARD, SIGHTED], **options))


def test_both_clients_find_their_fields() -> None:
    body = listing()
    assert body["object"] == "list"
    for entry in body["data"]:
        assert isinstance(entry["id"], str)
        assert entry["object"] == "model"
        assert type(entry["created"]) is int
        assert isinstance(entry["owned_by"], str)
    for entry in body["models"]:
        assert all(isinstance(entry[k], str) for k in ("name", "description", "release_date"))


def test_models_come_first_then_their_aliases() -> None:
    body = listing()
    names = ["systone-mini", "seer", "jev-latest", "jev-preview"]
    assert [entry["name"] for entry in body["models"]] == names
    assert [entry["id"] for entry in body["data"]] == names
    assert body["models"][2]["alias_of"] == "systone-mini"
    assert "alias_of" not in body["models"][0]
    assert "Alias of systone-mini" in body["models"][2]["description"]


def test_what_a_caller_should_know_is_published() -> None:
    body = listing(max_body_bytes=4096)
    for entry in (body["data"][0], body["models"][0]):
        assert entry["kinds"] == ["choice", "noul", "score"]
        assert entry["calibrated"] is False
        assert entry["confidence"] == "margin over chance"
        assert entry["usage_rule"] == "state once"
        assert entry["revision"] == "1.0.0"
        assert entry["limits"] == {
            "max_options": 26,
            "min_levels": 1,
            "max_levels": 10,
            "max_questions": None,
            "max_tokens": 256,
            "max_images": 0,
            "max_body_bytes": 4096,
        }
        assert entry["architecture"] == {
            "input_modalities": ["text"],
            "output_modalities": ["decisions"],
        }
    assert body["data"][1]["architecture"]["input_modalities"] == ["text", "image"]
    assert "max_body_bytes" not in listing()["data"][0]["limits"]


def test_created_is_the_release_date_unless_given() -> None:
    assert listing()["data"][0]["created"] == 1795910400
    assert listing(created=7)["data"][0]["created"] == 7
