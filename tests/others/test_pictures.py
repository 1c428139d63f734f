"""A picture and a PDF through LangChain's classes of providers, against a server that says what it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ensemble_notebook.models.provider_spec import PROVIDERS
from tests.others.venv import ROOT, Venv

TRIED = ("azure_openai", "anthropic", "google_genai", "bedrock_converse", "mistralai", "groq")
TAKES_BOTH = TRIED[:4]


@pytest.fixture(scope="module")
def packages(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("pictures", "langchain", "pillow", *sorted({PROVIDERS[each].package for each in TRIED}))


@pytest.fixture(scope="module")
def found(packages: Venv) -> dict[str, Any]:
    """What each provider was sent."""
    ask = ("python", "-W", "ignore", "-m", "tests.others.show_pictures")
    return {each: json.loads(packages.run(*ask, each, cwd=ROOT).splitlines()[-1]) for each in TRIED}


@pytest.mark.parametrize("kind", ["picture", "PDF"])
@pytest.mark.parametrize("provider", TAKES_BOTH)
def test_bytes_are_sent_once_in_a_block_of_the_provider(found: dict[str, Any], provider: str, kind: str) -> None:
    said = found[provider][kind]
    assert (len(said["sent"]), said["requests"], said["fault"]) == (1, 1, ""), said


def test_what_each_provider_was_sent(found: dict[str, Any], add_figures: Callable[..., None]) -> None:
    for provider, kinds in found.items():
        row = {kind: ", ".join(*said["sent"]) or said["fault"] for kind, said in kinds.items()}
        assert all(row.values())
        add_figures(provider=provider, **row)
