"""Packages of LangChain's providers, against a server that counts: one request for an attempt, on any event loop.

What `ibm:`, which takes https alone, and `upstage:` need does not go together with the others; `huggingface:` runs a
model in the process, and `google_vertexai:` speaks gRPC, which this server does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ensemble_notebook.models.provider_spec import PROVIDERS
from tests.others.venv import ROOT, Venv

APART = frozenset({"google_vertexai", "huggingface", "ibm", "upstage"})
TRIED = [provider for provider in PROVIDERS if provider not in APART]
REASONS = {"429", "500", "503"}


@pytest.fixture(scope="module")
def packages(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("providers", "langchain", *sorted({PROVIDERS[each].package for each in TRIED}))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What was found of each provider, once for all tests."""
    return {}


@pytest.fixture(params=TRIED)
def provider(request: pytest.FixtureRequest, packages: Venv, found: dict[str, Any]) -> Any:
    if request.param not in found:
        said = packages.run("python", "-W", "ignore", "-m", "tests.others.ask_provider", request.param, cwd=ROOT)
        found[request.param] = json.loads(said.splitlines()[-1])
    return found[request.param]


def test_refused_attempt_is_one_request(provider: Any) -> None:
    assert set(provider["refused"].values()) == {1}, provider["refused"]


def test_status_of_a_refusal_is_known(provider: Any) -> None:
    assert set(provider["reasons"]) >= REASONS


def test_nothing_warns_of_retries(provider: Any) -> None:
    assert provider["warnings"] == []


@pytest.mark.parametrize("by_object", [0, 1])
def test_every_loop_gets_its_replies_for_one_request_each(provider: Any, by_object: int) -> None:
    counts = {"replies in turns": 7, "requests in turns": 7, "replies at once": 16, "requests at once": 16}
    assert provider[f"object={by_object}"] == counts, provider["faults"]
