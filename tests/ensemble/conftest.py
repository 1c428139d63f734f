"""What runs of whole ensembles are tested against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ensemble_notebook import config
from tests.support.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A real HTTP server that speaks the OpenAI protocol."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def llm(server: OpenAIServer) -> str:
    """The spec of the server's model."""
    return f"openai:test-model@{server.url}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """The file of a run store, in which runs are remembered."""
    config.store = tmp_path / "runs.sqlite"
    yield tmp_path / "runs.sqlite"
    config.store = None
