"""What a thinking model says beside its text goes back with its message while tools are called (E10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from ensemble_notebook import Agent, Ensemble, RunStatus, Task
from tests.support.openai_server import MODEL, Answer, OpenAIServer

SIGNED = {"google": {"thought_signature": "c2ln"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "tide"}'}}
DETAILS = [
    {"type": "reasoning.text", "text": "hm, tides", "signature": "c2ln", "index": 0},
    {"type": "reasoning.encrypted", "data": "eA==", "index": 1},
]
MESSAGES: dict[str, dict[str, Any]] = {
    "reasoning_content": {"content": None, "reasoning_content": "hm, tides", "tool_calls": [CALL]},
    "reasoning_details": {"content": "Wait.", "reasoning_details": DETAILS, "tool_calls": [CALL]},
    "extra_content": {"content": None, "tool_calls": [CALL | {"extra_content": SIGNED}]},
}
DELTAS: dict[str, list[dict[str, Any]]] = {
    "reasoning_content": [{"reasoning_content": "hm, "}, {"reasoning_content": "tides"}],
    "reasoning_details": [
        {"content": "Wait."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm, ", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "tides", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "c2ln", "index": 0}]},
        {"reasoning_details": DETAILS[1:]},
    ],
    "extra_content": [],
}


def answer(kind: str, *, streams: bool) -> Answer:
    """The first turn of a thinking model: it calls a tool."""
    if not streams:
        message = {"role": "assistant", **MESSAGES[kind]}
        return Answer(raw=json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode())
    calls = [{"index": 0, **each} for each in MESSAGES[kind]["tool_calls"]]
    deltas = [{"role": "assistant"}, *DELTAS[kind], {"tool_calls": calls}]
    chunks = [{"choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return Answer(raw="\n\ndata: ".join(map(json.dumps, chunks)).encode())


def list_sent(server: OpenAIServer, request: int) -> list[dict[str, Any]]:
    return [each for each in server.requests[request].messages if each["role"] == "assistant"]


@pytest.fixture(params=["spec", "object"])
def llm(request: pytest.FixtureRequest, server: OpenAIServer) -> Any:
    if request.param == "spec":
        return f"openai:{MODEL}@{server.url}"
    return ChatOpenAI(model=MODEL, base_url=server.url, api_key="none")  # type: ignore[arg-type]


def make_team(llm: Any, **fields: Any) -> Ensemble:
    @tool
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word}: water"

    agent = Agent(role="Reader", goal="Read", llm=llm, tools=[look_up])
    return Ensemble(tasks=[Task.of("Say {x}", agent=agent, name="say", **fields)], inputs={"x": "it"})


def run(team: Ensemble, *, streams: bool, **settings: Any) -> Any:
    if not streams:
        return team.run(**settings)
    return team.start(listeners=[lambda event: None], **settings).result()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", MESSAGES)
def test_e10_it_goes_back_in_the_tool_loop(
    server: OpenAIServer, llm: Any, kind: str, tmp_path: Path, streams: bool
) -> None:
    server.script(answer(kind, streams=streams), "Water.")
    team = make_team(llm)
    output = run(team, streams=streams, record=tmp_path / "a.yaml")
    assert (output.raw, output.status) == ("Water.", RunStatus.COMPLETED)
    assert server.requests[0].body.get("stream", False) is streams
    (sent,) = list_sent(server, 1)
    wanted = MESSAGES[kind]
    assert {name: value for name, value in sent.items() if name not in ("role", "content", "tool_calls")} == {
        name: value for name, value in wanted.items() if name not in ("content", "tool_calls")
    }
    assert sent["tool_calls"][0].get("extra_content") == wanted["tool_calls"][0].get("extra_content")
    assert (sent["content"] or None) == wanted["content"]
    assert run(team, streams=streams, replay=tmp_path / "a.yaml").raw == "Water."
    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", ["reasoning_content", "reasoning_details"])
def test_it_is_the_reasoning_of_the_turn(server: OpenAIServer, llm: Any, kind: str) -> None:
    server.script(answer(kind, streams=False), "Water.")
    assert list(make_team(llm).run().frames.messages.reasoning.dropna().unique()) == ["hm, tides"]


def test_it_is_not_sent_once_somebody_speaks_to_the_model(server: OpenAIServer, llm: Any) -> None:
    server.script(answer("reasoning_content", streams=False), "7", '{"n": 7}')
    assert make_team(llm, output_type={"n": "int"}).run().raw == '{"n": 7}'
    assert [each.get("reasoning_content") for each in list_sent(server, 1)] == ["hm, tides"]
    assert [each.get("reasoning_content") for each in list_sent(server, 2)] == [None, None]


@pytest.mark.usefixtures("store_path")
def test_a_resumed_run_sends_it_too(server: OpenAIServer, llm: Any) -> None:
    server.script(answer("reasoning_content", streams=False), Answer(status_code=400), "Water.")
    team = make_team(llm)
    with pytest.raises(Exception, match="400") as caught:
        team.run()
    output = team.run(resume=caught.value.output)  # type: ignore[attr-defined]
    assert output.raw == "Water."
    assert [each.get("reasoning_content") for each in list_sent(server, 2)] == ["hm, tides"]
