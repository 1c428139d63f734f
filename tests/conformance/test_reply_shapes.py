"""Thinking models with tools, and replies in the shapes that servers really send (E10, E84)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook import Agent, CostConfiguration, Ensemble, EnsembleOutput, Task
from tests.conformance.scene import run, run_cell
from tests.support.openai_server import Answer, OpenAIServer

SIGNATURE = {"google": {"thought_signature": "s" * 40}}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"what": "soup"}'},
    "extra_content": SIGNATURE,
}
DETAILS = [
    {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1", "text": "It is hot.", "signature": "abc"},
    {"type": "reasoning.text", "index": 1, "text": "Look it up."},
    {"type": "reasoning.encrypted", "index": 1, "data": "xyz", "id": "c1"},
]
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "It is hot."}]}
# What a whole message has, the deltas that a stream has of it, and how it goes back.
KINDS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = {
    "DeepSeek": (
        {"reasoning_content": "It is hot."},
        [{"reasoning_content": "It is "}, {"reasoning_content": "hot."}, {"reasoning_content": None, "content": ""}],
        {"reasoning_content": "It is hot."},
    ),
    "DeepSeek, no thought": ({"reasoning_content": ""}, [{"reasoning_content": ""}], {"reasoning_content": ""}),
    "vLLM": (
        {"reasoning": "It is hot."},
        [{"reasoning": "It is "}, {"reasoning": "hot."}],
        {"reasoning": "It is hot."},
    ),
    "OpenRouter": (
        {"reasoning": "It is hot.", "reasoning_details": DETAILS},
        [
            {"reasoning": "It is ", "reasoning_details": [DETAILS[0] | {"text": "It is ", "signature": None}]},
            {"reasoning": "hot.", "reasoning_details": [DETAILS[0] | {"text": "hot.", "signature": None}]},
            {"reasoning": "", "reasoning_details": [DETAILS[0] | {"text": "", "signature": "abc"}]},
            {"reasoning_details": [DETAILS[1] | {"text": "Look "}]},
            {"reasoning_details": [DETAILS[1] | {"text": "it up."}, DETAILS[2]]},
        ],
        {"reasoning": "It is hot.", "reasoning_details": DETAILS},
    ),
    "LiteLLM": (
        {"thinking_blocks": [{"type": "thinking", "thinking": "It is hot.", "signature": "abc"}]},
        [
            {"thinking_blocks": [{"type": "thinking", "thinking": "It is ", "signature": ""}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "hot.", "signature": ""}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "abc"}]},
        ],
        {"thinking_blocks": [{"type": "thinking", "thinking": "It is hot.", "signature": "abc"}]},
    ),
    "Mistral": (
        {"content": [THINKING, {"type": "text", "text": "Looking."}]},
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "It is "}]}]},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hot."}]}]},
            {"content": "Look"},
            {"content": [{"type": "text", "text": "ing."}]},
        ],
        {"content": [THINKING, {"type": "text", "text": "Looking."}]},
    ),
    "Gemini": (
        {"extra_content": SIGNATURE},
        [{"content": "", "extra_content": {"google": {"thought": True}}}, {"extra_content": SIGNATURE}],
        {"extra_content": SIGNATURE},
    ),
}


class Watcher:
    """A listener for whom replies are streamed."""

    wants_tokens = True

    def on_event(self, event: object) -> None:
        """Do nothing."""


def look_up(what: str) -> str:
    """Look up how long something takes."""
    return f"{what} takes 20 minutes"


def ask_for_tool(kind: str, *, streams: bool, call: Any = CALL) -> Answer:
    """A reply of a thinking model that asks for a tool."""
    message, deltas, _ = KINDS[kind]
    if not streams:
        whole = {"role": "assistant", "content": None, "tool_calls": [call]} | message
        return Answer(raw=json.dumps({"choices": [{"message": whole, "finish_reason": "tool_calls"}]}).encode())
    deltas = [{"role": "assistant", "content": None}, *deltas, {"tool_calls": [{"index": 0, **call}]}]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": each, "finish_reason": None} for each in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    return Answer(raw=b"\n\ndata: ".join(json.dumps({"choices": [each]}).encode() for each in choices))


def list_kept(server: OpenAIServer, number: int = -1) -> list[dict[str, Any]]:
    """What the assistant's messages of a request have beside the common fields, their calls included."""
    sent = [each for each in server.requests[number].messages if each["role"] == "assistant"]
    kept = []
    for each in sent:
        rest = {name: value for name, value in each.items() if name not in ("role", "content", "tool_calls")}
        if isinstance(each.get("content"), list):
            rest["content"] = each["content"]
        extras = [call["extra_content"] for call in each.get("tool_calls", ()) if "extra_content" in call]
        kept.append(rest | ({"calls": extras} if extras else {}))
    return kept


@pytest.fixture(params=["spec", "object"])
def model(request: pytest.FixtureRequest, server: OpenAIServer, llm: str) -> Any:
    """The same server, by a spec and by a user's object."""
    return llm if request.param == "spec" else ChatOpenAI(model="test-model", base_url=server.url, api_key="none")


def work(model: Any, *, streams: bool, **fields: Any) -> EnsembleOutput:
    """Run one task with a tool."""
    cook = Agent(role="Cook", goal="Feed people", llm=model, tools=[look_up])
    return run(Task.of("Cook", name="cook", agent=cook, **fields), listeners=[Watcher()] if streams else [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_e10_what_a_thinking_model_says_beside_its_calls_goes_back_with_them(
    server: OpenAIServer, model: Any, kind: str, streams: bool
) -> None:
    server.script(*(ask_for_tool(kind, streams=streams) for _ in range(3)), "Soup.")
    assert work(model, streams=streams)["cook"].raw == "Soup."
    expected = KINDS[kind][2] | {"calls": [SIGNATURE]}
    if kind == "Gemini" and streams:
        expected["extra_content"] = {"google": SIGNATURE["google"] | {"thought": True}}
    assert [list_kept(server, number) for number in range(4)] == [[expected] * number for number in range(4)]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_e10_parallel_calls_keep_what_is_theirs(server: OpenAIServer, model: Any, streams: bool) -> None:
    """Gemini signs the first of several calls."""
    second = {"id": "c2", "type": "function", "function": {"name": "look_up", "arguments": '{"what": "rice"}'}}
    if streams:
        deltas = [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate([CALL, second])]
        chunks = [{"choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})  # type: ignore[dict-item]
        server.script(Answer(raw=b"\n\ndata: ".join(json.dumps(each).encode() for each in chunks)))
    else:
        message = {"role": "assistant", "content": None, "tool_calls": [CALL, second]}
        choices = [{"message": message, "finish_reason": "tool_calls"}]
        server.script(Answer(raw=json.dumps({"choices": choices}).encode()))
    server.script("Soup.")
    work(model, streams=streams)
    (asked,) = [each for each in server.requests[-1].messages if each["role"] == "assistant"]
    assert [call.get("extra_content") for call in asked["tool_calls"]] == [SIGNATURE, None]
    assert [call["function"]["arguments"] for call in asked["tool_calls"]] == ['{"what": "soup"}', '{"what": "rice"}']


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_e10_nothing_of_it_is_sent_across_a_correction(server: OpenAIServer, model: Any, streams: bool) -> None:
    tool = ask_for_tool("OpenRouter", streams=streams)
    server.script(tool, "No JSON.", tool, '{"minutes": 20}')
    output = work(model, streams=streams, output_type={"minutes": "int"})
    assert output["cook"].raw == '{"minutes": 20}'
    kept = KINDS["OpenRouter"][2] | {"calls": [SIGNATURE]}
    assert [list_kept(server, number) for number in range(4)] == [[], [kept], [{}, {}], [{}, {}, kept]]


def test_e10_nothing_of_it_is_sent_to_the_next_turn_of_a_conversation(server: OpenAIServer, llm: str) -> None:
    server.script(ask_for_tool("DeepSeek", streams=False), "Soup.", "Rice.")
    cook = Agent(role="Cook", goal="Feed people", llm=llm, tools=[look_up])
    ensemble = Ensemble(tasks=[Task.of("Cook", name="cook", agent=cook)])
    first = ensemble.run()
    ensemble.run(continue_from=first)
    assert list_kept(server) == [{}, {}]


CELL = """
llm: %s
agents:
  Cook: {goal: Feed people, tools: [look_up]}
tasks:
  cook: {description: Cook, agent: Cook}
"""


def test_e10_a_cell_does_so_too(server: OpenAIServer, llm: str) -> None:
    server.script(ask_for_tool("DeepSeek", streams=False), "Soup.")
    assert run_cell(CELL % llm, look_up=look_up)["cook"].raw == "Soup."
    assert list_kept(server) == [{"reasoning_content": "It is hot.", "calls": [SIGNATURE]}]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_e84_what_goes_back_can_be_paired(server: OpenAIServer, model: Any, streams: bool) -> None:
    server.default = Answer("Soup.")
    # Each turn with the same id, as some servers have it.
    server.script(
        *(Answer(None, calls=[("c", "look_up", {"what": "soup"}), ("c", "look_up", {"what": "rice"})]) for _ in "ab")
    )
    work(model, streams=streams)
    messages = server.requests[-1].messages
    asked = [call["id"] for each in messages if each["role"] == "assistant" for call in each["tool_calls"]]
    assert asked == [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    assert len(set(asked)) == 4


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ["prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"])
def test_e84_what_was_read_from_a_cache_is_priced_so(
    server: OpenAIServer, model: Any, name: str, streams: bool
) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000, name: 900_000}
    server.default = Answer("Soup.", odd_usage=json.dumps(usage))
    rates = CostConfiguration(input_rate="0.00001", output_rate="0.00001", cached_input_rate="0.000001")
    cook = Agent(role="Cook", goal="Feed people", llm=model)
    listeners = [Watcher()] if streams else []
    output = run(Task.of("Cook", name="cook", agent=cook), cost=rates, listeners=listeners)
    assert float(output.metrics.cost) == pytest.approx(1.9)
