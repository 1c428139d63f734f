"""Replies of which only a part came: asked for again, or told with the server's own word (E13, E30, E58)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ensemble_notebook import Agent, Ensemble, Event, LlmAttemptEnded, Task, TaskExecutionError
from tests.support.openai_server import Answer, OpenAIServer, Request

WORDS = "Salt the steak and rest it."
HALF = "Salt the st"


class Watcher:
    """Has replies streamed."""

    wants_tokens = True

    def on_event(self, event: Event) -> None:
        """Look at it."""


def write_stream(text: str, *rest: str) -> bytes:
    """Half of a stream, and what comes in place of its end."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    events = [json.dumps({"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}), *rest]
    return "".join(f"data: {each}\n\n" for each in events).encode()


BROKEN = {
    "no end": (),
    "only the announced end": ("[DONE]",),
    "an error": ('{"error": {"code": 503, "message": "Engine died."}}',),
    "an error of another form": ('{"object": "error", "message": "Engine died."}',),
    "details": ('{"detail": "Engine died."}',),
    "a page": ("<html>Bad gateway</html>",),
}


def make_model(llm: str) -> ChatOpenAI:
    return ChatOpenAI(
        model="m", base_url=llm.partition("@")[2], api_key=SecretStr("k"), max_retries=0, stream_usage=True
    )


MODELS: dict[str, Callable[[str], Any]] = {"spec": str, "object": make_model}


def make_ensemble(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Cook {n}", name="cook", **fields)], llm=llm, listeners=[Watcher()])


@pytest.mark.parametrize("rest", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_broken_stream_is_asked_for_again_and_its_usage_is_unknown(
    server: OpenAIServer, llm: str, make: Callable[[str], Any], rest: tuple[str, ...]
) -> None:
    server.script(Answer(stream=write_stream(HALF, *rest)), WORDS)
    output = make_ensemble(make(llm)).run({"n": 1})
    assert output.raw == WORDS
    first, second = [each for each in output.events if isinstance(each, LlmAttemptEnded)]
    assert (first.usage.input_tokens, first.usage.output_tokens) == (None, None)
    assert (second.usage.input_tokens, second.usage.output_tokens) == (11, 7)


@pytest.mark.parametrize("rest", BROKEN.values(), ids=BROKEN)
def test_a_stream_that_stays_broken_fails_the_task(server: OpenAIServer, llm: str, rest: tuple[str, ...]) -> None:
    server.default = Answer(stream=write_stream(HALF, *rest))
    agent = Agent(role="Cook", goal="Cook", max_retries=0)
    with pytest.raises(TaskExecutionError, match=r"Engine died|The connection was cut"):
        make_ensemble(llm, agent=agent).run({"n": 1})


def test_the_words_of_a_stream_are_those_of_the_whole_reply(server: OpenAIServer, llm: str) -> None:
    server.script(Answer(stream=write_stream(HALF, "[DONE]")), "Salt the steak.")

    async def read() -> tuple[str, str]:
        async with make_ensemble(llm).stream({"n": 1}) as run:
            said = "".join([each async for each in run.text()])
        assert run.output is not None
        return said, run.output.raw

    assert asyncio.run(read()) == ("Salt the steak.", "Salt the steak.")
    assert [each.is_streamed for each in server.requests] == [True, False]


def test_no_call_of_a_broken_stream_is_made_e58(server: OpenAIServer, llm: str) -> None:
    made: list[str] = []

    def delete(query: str) -> str:
        """Delete rows."""
        made.append(query)
        return "deleted"

    function = {"name": "delete", "arguments": '{"query": "all where id = 1"}'}
    delta = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    chunk = json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    server.script(Answer(stream=f"data: {chunk}\n\n".encode()), "No rows.")
    output = make_ensemble(llm, tools=[delete]).run({"n": 1})
    assert (output.raw, made) == ("No rows.", [])


GOOD = ("stop", "STOP", "tool_calls", "end_turn", "eos", "eos_token", "COMPLETE", "function_call", "FINISH_REASON_STOP")
BAD = (
    *("insufficient_system_resource", "network_error", "sensitive", "error", "abort", "content_filter: hate"),
    *("malformed_response", "OTHER", "cancelled", "time_limit", "a word of tomorrow"),
)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("reason", GOOD)
def test_a_good_end_says_nothing(server: OpenAIServer, llm: str, reason: str, is_streamed: bool) -> None:
    server.default = Answer(WORDS, finish_reason=reason)
    output = make_ensemble(llm).replace(listeners=[Watcher()] if is_streamed else []).run({"n": 1})
    assert (output.raw, list(output.warnings)) == (WORDS, [])


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("reason", BAD)
def test_any_other_end_is_told_in_the_word_of_the_server(
    server: OpenAIServer, llm: str, make: Callable[[str], Any], reason: str, is_streamed: bool
) -> None:
    server.default = Answer(HALF, finish_reason=reason)
    output = make_ensemble(make(llm)).replace(listeners=[Watcher()] if is_streamed else []).run({"n": 1})
    (warning,) = output.warnings
    assert output.raw == HALF
    assert "'cook'" in warning
    assert f"({reason})" in warning


@pytest.mark.parametrize("reason", ["network_error", "abort", "length"])
def test_no_call_of_a_reply_that_ended_badly_is_made_e58(server: OpenAIServer, llm: str, reason: str) -> None:
    made: list[str] = []

    def delete(query: str) -> str:
        """Delete rows."""
        made.append(query)
        return "deleted"

    server.script(Answer(None, calls=[("delete", {"query": "all where id = 1"})], finish_reason=reason), "No rows.")
    output = make_ensemble(llm, tools=[delete]).run({"n": 1})
    assert (output.raw, made) == ("No rows.", [])


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_rows_of_a_map_are_whole_where_the_server_cuts_each_stream_at_first(
    server: OpenAIServer, llm: str, make: Callable[[str], Any]
) -> None:
    """As llama_cpp.server does it: the next request ends the stream before, in good form."""
    seen: set[str] = set()

    def choose(request: Request) -> Answer:
        is_first = request.prompt not in seen
        seen.add(request.prompt)
        return Answer(stream=write_stream(HALF, "[DONE]")) if is_first and request.is_streamed else Answer(WORDS)

    server.choose = choose
    result = make_ensemble(make(llm)).map([{"n": 1}, {"n": 2}, {"n": 3}])
    assert [each.raw for each in result] == [WORDS] * 3
