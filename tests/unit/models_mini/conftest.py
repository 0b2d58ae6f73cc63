"""One loaded and started model for the folder, and ways to ask it."""

import pytest

from systone.models import mini
from systone.models.mini.files import find_files
from systone.models.mini.pieces import WordPieces
from systone.protocol.types import Request


@pytest.fixture(scope="session")
def loaded():
    model = mini.load(threads=2)
    model.executor.start()
    yield model
    model.executor.close()


@pytest.fixture(scope="session")
def pieces():
    return WordPieces(find_files().tokenizer)


@pytest.fixture(scope="session")
def run(loaded):
    """Requests in one batch to their decisions."""

    def run(*requests, executor=loaded.executor):
        prepared = [loaded.adapter.prepare(request) for request in requests]
        readouts = executor.execute(prepared)
        for p, r in zip(prepared, readouts, strict=True):
            assert r.values.shape[0] == p.cost.rows  # the engine refuses anything else
        return [loaded.adapter.finish(p, r) for p, r in zip(prepared, readouts, strict=True)]

    return run


@pytest.fixture(scope="session")
def ask(run):
    """One question about one state to its answer."""

    def ask(state, question):
        (decision,) = run(Request(state, {"q": question}))
        return decision.answers["q"]

    return ask
