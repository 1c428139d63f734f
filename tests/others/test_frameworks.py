"""Agents of other frameworks on a model of ours, with the instrumentations that there are: what their spans say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from tests.others.frameworks.table import FRAMEWORKS, Case, describe, find_keys
from tests.others.venv import ROOT, Venv

DOCUMENT: Final = ROOT / "docs" / "interop.md"
HEAD: Final = """\
## Frameworks

What each framework says of the same agents in its spans, read off runs of {day} with a model on loopback: an agent with
a tool, one that hands over to another, two calls of a tool at once, a stream that its reader closes early, a model that
refuses twice, a tool that raises. `make test-others FILES=tests/others/test_frameworks.py` runs them again, with the
newest versions, and writes these tables. Keys are of the span's attributes; `a:b` is the key `b` in JSON that is the
text of `a`.

Four of these runs, as a watch shows them: each has the agents, the tools and the tokens that the server sent.

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="pictures/frameworks-dark.png">
  <img alt="LangGraph, pydantic-ai, OpenAI Agents SDK, crewAI: runs as bars" src="pictures/frameworks-light.png">
</picture>

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="pictures/framework-graphs-dark.png">
  <img alt="The same four runs as graphs of their tasks" src="pictures/framework-graphs-light.png">
</picture>
"""
TOLD: Final = 5
"""So many columns say where something stands."""
TRIED: Final = [(name, each) for name, framework in FRAMEWORKS.items() for each in framework.instruments]

SPANS: Final = ROOT / "tests" / "fixtures" / "framework_spans.json"
"""What the pictures of docs/interop.md are drawn of."""
PICTURED: Final = {
    ("langgraph", "openinference"): "LangGraph",
    ("pydantic-ai", "own"): "pydantic-ai",
    ("openai-agents", "openinference"): "OpenAI Agents SDK",
    ("crewai", "openinference"): "crewAI",
}

_spans: dict[str, list[dict[str, Any]]] = {}
_rows: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}


@pytest.fixture(scope="module", autouse=True)
def write_table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Write what was found into the document where that was asked for."""
    yield
    if request.config.getoption("--write-document") and len(_rows) == len(TRIED):
        SPANS.write_text(json.dumps({each: _spans[each] for each in PICTURED.values()}, indent=1) + "\n")
        before, _, after = DOCUMENT.read_text().partition("## Frameworks\n")
        rest = re.search(r"^## ", after, re.MULTILINE)
        DOCUMENT.write_text(before + write_section() + (f"\n{after[rest.start() :]}" if rest else ""))


def strip(span: Mapping[str, Any]) -> dict[str, Any]:
    """A span without what tells of this machine, and without what no picture shows."""
    kept = {key: each for key, each in span["attributes"].items() if len(str(each)) < 2000 and key != "server.port"}
    return {**span, "attributes": kept, "events": [], "resource": {}}


def write_section() -> str:
    """What is told, and where; then what happens."""
    rows = [_rows[each] for each in TRIED]  # tests come in any order
    names = list(rows[0][1])
    parts = [HEAD.format(day=datetime.now(UTC).date().isoformat())]
    for columns in (names[:TOLD], names[TOLD:]):
        lines = [["spans of", *columns], ["---"] * (len(columns) + 1)]
        lines += [[title, *(row[name] for name in columns)] for title, row in rows]
        parts.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(parts)


@pytest.fixture(scope="module", params=TRIED, ids="-".join)
def told(request: pytest.FixtureRequest, make_venv: Callable[..., Venv]) -> Mapping[str, Any]:
    """All cases of one framework with one of its instrumentations."""
    name, instrument = request.param
    framework = FRAMEWORKS[name]
    venv = make_venv(f"watched-{name}", *framework.packages)
    module = f"tests.others.frameworks.{framework.module}"
    written = venv.run("python", "-m", module, instrument, cwd=ROOT, **framework.environment)
    cases: Mapping[str, Any] = json.loads(written.splitlines()[-1])  # some log to stdout before it
    first, *others = dict.fromkeys([framework.packages[0].partition("[")[0], *framework.instruments[instrument]])
    title = " with ".join(
        [f"{first} {venv.versions[first]}", *(f"{each} {venv.versions[each]}" for each in others)][:2]
    )
    title += "".join(f" and {each} {venv.versions[each]}" for each in others[1:])
    _rows[request.param] = title, describe(cases)
    if shown := PICTURED.get(request.param):
        _spans[shown] = [strip(each) for each in cases["handover"]["spans"]]
    return cases


def test_all_cases_come_to_their_ends(told: Mapping[str, Any]) -> None:
    assert {name: each["requests"] for name, each in told.items() if name != "raises"} == {
        "tool": [200, 200],
        "handover": [200] * len(told["handover"]["requests"]),
        "parallel": [200, 200],
        "closed": [200],
        "retry": [429, 500, 200],
    }


def test_tokens_of_model_calls_are_those_that_the_server_sent(told: Mapping[str, Any]) -> None:
    for name in ("tool", "handover", "parallel", "retry"):
        case = Case(told[name])
        assert case.count_tokens(case.of("llm"))[0] == case.told["served"]


def test_what_was_asked_and_said_is_there(told: Mapping[str, Any]) -> None:
    attributes = [json.dumps(each["attributes"]) for each in told["tool"]["spans"]]
    for text in (told["tool"]["question"], "It is 18 degrees.", "18 degrees in Paris"):
        assert any(text in each for each in attributes)


def test_spans_of_threads_are_below_what_began_them(told: Mapping[str, Any]) -> None:
    case = Case(told["parallel"])
    tools = [each for each in case.of("tool") if find_keys(each, "weather") or "weather" in each["name"]]
    assert len(tools) == 2
    assert all(case.parents(each) for each in tools)


def test_a_watched_run_has_the_tokens_that_the_server_sent(told: Mapping[str, Any]) -> None:
    for name in ("tool", "handover", "parallel"):
        (run,) = told[name]["runs"]
        assert run["tokens"] == told[name]["served"]
        assert run["status"] == "completed"
        assert run["orphans"] == 0


def test_a_watched_run_has_its_agents_and_what_they_said(told: Mapping[str, Any]) -> None:
    (run,) = told["handover"]["runs"]
    assert len(run["agents"]) == 2
    assert "Forecaster" in run["agents"]
    for text in (told["handover"]["question"], "It is 18 degrees."):
        assert any(text in each for each in run["messages"])


def test_a_run_after_one_that_was_left_open_is_a_run_of_its_own(told: Mapping[str, Any]) -> None:
    assert all(each["runs"] for each in told.values())
    assert told["raises"]["runs"][-1]["tools"]
