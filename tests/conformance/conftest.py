"""What rules are tested against: a real HTTP server that speaks the OpenAI protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """Running, on loopback."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def llm(server: OpenAIServer) -> str:
    """The spec of the server's model."""
    return f"openai:test-model@{server.url}"
