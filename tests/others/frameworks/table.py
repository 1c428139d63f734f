"""What the spans of each framework say, as a row of a table: every word of it is read off a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Span = Mapping[str, Any]


@dataclass(frozen=True)
class Framework:
    """How one is run: an environment, and one row for each of its instrumentations."""

    module: str
    """Of this package."""
    packages: Sequence[str]
    instruments: Mapping[str, Sequence[str]]
    """What `main` calls it -> the packages that make its spans."""
    environment: Mapping[str, str] = field(default_factory=dict)


_SDK: Final = "opentelemetry-sdk"
_NAMES: Final = ["gen_ai.agent.name", "agent.name", "graph.node.id", "metadata:lc_agent_name"]
_TOKENS: Final = (
    ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
    ("llm.token_count.prompt", "llm.token_count.completion"),
)

FRAMEWORKS: Final = {
    "pydantic-ai": Framework("pydantic_ai", ["pydantic-ai-slim[openai]", _SDK], {"own": ["pydantic-ai-slim"]}),
    "langgraph": Framework(
        "langgraph",
        [
            "langgraph",
            "langchain",
            "langchain-openai",
            "openinference-instrumentation-langchain",
            "opentelemetry-instrumentation-genai-langchain",
            _SDK,
        ],
        {
            "openinference": ["openinference-instrumentation-langchain"],
            "opentelemetry": ["opentelemetry-instrumentation-genai-langchain"],
        },
    ),
    "openai-agents": Framework(
        "openai_agents",
        [
            "openai-agents",
            "openinference-instrumentation-openai-agents",
            "opentelemetry-instrumentation-genai-openai-agents",
            "opentelemetry-instrumentation-genai-openai",
            _SDK,
        ],
        {
            "openinference": ["openinference-instrumentation-openai-agents"],
            "opentelemetry": [
                "opentelemetry-instrumentation-genai-openai-agents",
                "opentelemetry-instrumentation-genai-openai",
            ],
        },
    ),
    "crewai": Framework(
        "crewai",
        ["crewai", "openinference-instrumentation-crewai", "openinference-instrumentation-openai", _SDK],
        {"openinference": ["openinference-instrumentation-crewai", "openinference-instrumentation-openai"]},
        {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"},
    ),
    "agno": Framework(
        "agno",
        ["agno", "openai", "sqlalchemy", "openinference-instrumentation-agno", _SDK],
        {"openinference": ["openinference-instrumentation-agno"]},
    ),
    "smolagents": Framework(
        "smolagents",
        ["smolagents[openai]", "openinference-instrumentation-smolagents", _SDK],
        {"openinference": ["openinference-instrumentation-smolagents"]},
    ),
}


# --- One span ---------------------------------------------------------------------------------------------------------


def kind_of(span: Span) -> str:
    """`agent`, `llm`, `tool` or something else, by the two vocabularies."""
    attributes = span["attributes"]
    found = attributes.get("openinference.span.kind") or attributes.get("gen_ai.operation.name", "")
    return {"invoke_agent": "agent", "chat": "llm", "execute_tool": "tool"}.get(found, found.lower())


def list_values(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Where a value stands: by its key, and inside of texts that are JSON, by the keys on the way."""
    for key, value in attributes.items():
        yield key, value
        if isinstance(value, str) and value[:1] in "{[":
            try:
                yield from _list_inner(f"{key}:", json.loads(value))
            except ValueError:
                continue


def _list_inner(way: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield way.rstrip(":."), value
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _list_inner(f"{way}{key}.", each)
    elif isinstance(value, list):
        for each in value:
            yield from _list_inner(f"{way}N.", each)


def find_keys(span: Span, wanted: Any) -> list[str]:
    """The keys of a value, the shortest first."""
    return sorted(
        {key for key, value in list_values(span["attributes"]) if value == wanted}, key=lambda key: (len(key), key)
    )


# --- One case ---------------------------------------------------------------------------------------------------------


class Case:
    """The spans of one case, by what they are."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told
        self.spans: list[Span] = told["spans"]
        self.by_id = {each["span_id"]: each for each in self.spans}

    def of(self, kind: str) -> list[Span]:
        """In the order in which they began."""
        return [each for each in self.spans if kind_of(each) == kind]

    def parents(self, span: Span) -> list[Span]:
        """The innermost first, as far as they are of this case."""
        found: list[Span] = []
        while (parent := self.by_id.get(span["parent_id"])) is not None:
            found.append(parent)
            span = parent
        return found

    def count_tokens(self, spans: Sequence[Span]) -> tuple[list[int], str]:
        """Input and output tokens that they say, and the keys."""
        for pair in _TOKENS:
            if any(key in each["attributes"] for each in spans for key in pair):
                return [sum(each["attributes"].get(key, 0) for each in spans) for key in pair], pair[0].rpartition(".")[
                    0
                ]
        return [], ""


def code(text: str) -> str:
    """As code, in a table."""
    return f"`{text}`".replace("|", "\\|")


def describe_agents(case: Case) -> str:
    keys = {key for each in case.spans if kind_of(each) != "llm" for key in find_keys(each, "Forecaster")}
    named = [key for key in _NAMES if key in keys]
    if named:
        return code(named[0])
    return f"the span's name only, {code(next(each['name'] for each in case.spans if 'Forecaster' in each['name']))}"


def describe_tool(case: Case) -> str:
    tools = [each for each in case.of("tool") if "Paris" in str(each["attributes"])]
    if keys := find_keys(tools[0], {"city": "Paris"}):
        return code(keys[0])
    return f"without their names: {code(find_keys(tools[0], 'Paris')[0])} is {code('Paris')}"


def describe_messages(case: Case) -> str:
    first = case.of("llm")[0]
    keys = {
        key
        for key, value in list_values(first["attributes"])
        if isinstance(value, str) and case.told["question"] in value
    }
    short = sorted({re.sub(r"\d+", "N", key.partition(":")[0]) for key in keys} - {"input.value"})
    return code(short[0]) if short else "none"


def describe_tokens(case: Case) -> str:
    said, keys = case.count_tokens(case.of("llm"))
    if not keys:
        return "none"
    again, _ = case.count_tokens(case.of("agent"))
    right = "as served" if said == case.told["served"] else f"{said} of {case.told['served']}"
    return f"{code(keys)}, {right}" + ("; again on the agent's span" if again else "")


def describe_threads(case: Case) -> str:
    tools = [each for each in case.of("tool") if "weather" in str(each["attributes"])]
    kept = all(case.parents(each) for each in tools) and len({each["parent_id"] for each in case.spans} - {None}) > 0
    where = "one thread" if set(case.told["threads"]) == {"MainThread"} else "threads"
    overlap = tools[1]["start_ns"] < tools[0]["end_ns"]
    return f"{'kept' if kept else '**lost**'} ({where}, {'side by side' if overlap else 'one by one'})"


def describe_handing_over(case: Case) -> str:
    # the innermost span of each agent's name is its work
    named = [
        each
        for each in case.spans
        if kind_of(each) == "agent" or "lc_agent_name" in str(each["attributes"].get("metadata"))
    ]
    work = [each for each in named if each["name"].split(".")[0].split()[-1] == "Forecaster"][-1]
    desk = next(each for each in named if "workflow" not in each["name"])
    above = case.parents(work)
    if desk not in above:
        place = "beside the first"
    elif any(kind_of(each) == "tool" for each in above):
        place = "below the tool that asks it"
    else:
        place = "below the first"
    failed = [each["name"] for each in named if each["status"] == "error"]
    return place + (f"; the first is an **error**, {code(find_key_of_error(desk))}" if failed else "")


def find_key_of_error(span: Span) -> str:
    return str(span["attributes"].get("error.type", span["status_message"]))


def describe_end(span: Span) -> str:
    if span["end_ns"] is None:
        return "never ends"
    return "error" if span["status"] == "error" else "ends"


def describe_closed(case: Case) -> str:
    call = case.of("llm")[0]
    tokens, _ = case.count_tokens([call])
    said = "no tokens" if not tokens else "0 tokens" if not any(tokens) else f"{tokens[0]} and {tokens[1]} tokens"
    roots = [each for each in case.spans if not case.parents(each)]
    top = " and ".join(describe_end(each) for each in roots)
    return f"call {describe_end(call)}, {said}; run {top}"


def describe_retry(case: Case) -> str:
    calls = case.of("llm")
    again = any(re.search(r"\b429\b", str((each["events"], each["attributes"]))) for each in calls)
    return f"{len(calls)} span for {len(case.told['requests'])} requests" + ("" if again else ", refusals not said")


def describe_raising(case: Case) -> str:
    tool = next(each for each in case.of("tool") if "weather" in str(each["attributes"]))
    said = "no station" in str((tool["status_message"], tool["events"]))
    inside = "the run goes on" if len(case.told["requests"]) == 2 else "the run fails"
    return f"tool {describe_end(tool)}, {'reason said' if said else 'reason **not** said'}; {inside}"


def describe_next(cases: Mapping[str, Case]) -> str:
    """Whether any run begins below a span of a run before it."""
    for before, name in zip(list(cases)[:-1], list(cases)[1:], strict=True):
        first = cases[name].spans[0]
        if first["parent_id"] in cases[before].by_id:
            return f"no: after {code(before)} below that run's span, which has ended"
    return "yes"


def describe(told: Mapping[str, Any]) -> dict[str, str]:
    """A row of the table, of all cases."""
    cases = {name: Case(each) for name, each in told.items()}
    return {
        "agents' names": describe_agents(cases["handover"]),
        "tool arguments": describe_tool(cases["tool"]),
        "messages": describe_messages(cases["tool"]),
        "tokens": describe_tokens(cases["handover"]),
        "parents of tools at once": describe_threads(cases["parallel"]),
        "the agent handed over to": describe_handing_over(cases["handover"]),
        "a stream closed early": describe_closed(cases["closed"]),
        "429, then 500": describe_retry(cases["retry"]),
        "a tool that raises": describe_raising(cases["raises"]),
        "the next run has a root of its own": describe_next(cases),
    }
