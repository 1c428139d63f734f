"""What a model says in `refusal`, in place of an answer: told, paid for once, and a fallback's to take over (E14)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ensemble_notebook import (
    AgentExecutionError,
    Ensemble,
    Event,
    LlmCallCompleted,
    ModelRefusedError,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
)
from tests.support.openai_server import Answer, OpenAIServer, Request

WORDS = "I can't help with that, sorry."
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Watcher:
    """Has replies streamed."""

    wants_tokens = True

    def on_event(self, event: Event) -> None:
        """Look at it."""


def to_whole() -> bytes:
    message = {"role": "assistant", "content": None, "refusal": WORDS}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE}
    ).encode()


def to_stream() -> bytes:
    facts = {"id": "1", "object": "chat.completion.chunk", "model": "m"}
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": None}, None)]
    deltas += [({"refusal": f"{word} "}, None) for word in WORDS.split()]
    deltas += [({}, "stop")]
    chunks: list[dict[str, Any]] = [
        {**facts, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for delta, reason in deltas
    ]
    chunks.append({**facts, "choices": [], "usage": USAGE})
    lines = [*map(json.dumps, chunks), "[DONE]"]
    # The test's server writes what stands before the first and behind the last event.
    return "\n\ndata: ".join(lines).encode()


def refuse(request: Request) -> Answer:
    return Answer(raw=to_stream() if request.is_streamed else to_whole())


@pytest.fixture
def refusing(server: OpenAIServer) -> Iterator[OpenAIServer]:
    """A server that refuses everything."""
    server.choose = refuse
    return server


def make_model(llm: str) -> ChatOpenAI:
    return ChatOpenAI(
        model="m", base_url=llm.partition("@")[2], api_key=SecretStr("k"), max_retries=0, stream_usage=True
    )


def ask(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Ask {n}", name="ask", **fields)], llm=llm)


def nest(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("All {n}", name="all", ensemble=ask(llm, **fields), inputs={"n": "{n}"})])


MAKERS: dict[str, Callable[..., Ensemble]] = {
    "run": ask,
    "stream": lambda llm, **fields: ask(llm, **fields).replace(listeners=[Watcher()]),
    "nested": nest,
    "model object": lambda llm, **fields: ask(make_model(llm), **fields),
    "model object streamed": lambda llm, **fields: ask(make_model(llm), **fields).replace(listeners=[Watcher()]),
}


@pytest.mark.parametrize("fields", [{}, {"output_type": {"n": "int"}}], ids=["text", "typed"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_its_words_are_told_after_one_request(
    refusing: OpenAIServer, llm: str, make: Callable[..., Ensemble], fields: dict[str, Any]
) -> None:
    with pytest.raises(TaskExecutionError, match=WORDS.replace(".", r"\.")) as caught:
        make(llm, **fields).run({"n": 1})
    cause: BaseException | None = caught.value
    while cause is not None and not isinstance(cause, AgentExecutionError):
        cause = cause.__cause__
    assert isinstance(cause, ModelRefusedError)
    assert len(refusing.requests) == 1
    assert caught.value.output is not None
    assert (caught.value.output.metrics.input_tokens, caught.value.output.metrics.output_tokens) == (11, 7)


def test_its_words_are_the_text_of_the_reply(refusing: OpenAIServer, llm: str) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        ask(llm).run({"n": 1})
    assert caught.value.output is not None
    (reply,) = [each for each in caught.value.output.events if isinstance(each, LlmCallCompleted)]
    assert (reply.text, reply.finish_reason) == (WORDS, "refused by the model")


def test_a_map_and_a_replay_tell_them(refusing: OpenAIServer, llm: str, tmp_path: Path) -> None:
    frame = ask(llm).map([{"n": 1}]).frame
    assert WORDS in frame["error"][0]
    file = tmp_path / "run.jsonl"
    with pytest.raises(TaskExecutionError) as live:
        ask(llm).run({"n": 1}, record=file)
    refusing.clear()
    with pytest.raises(TaskExecutionError) as replayed:
        ask(llm).run({"n": 1}, replay=file)
    assert (str(replayed.value), refusing.requests) == (str(live.value), [])


def test_a_fallback_takes_over(refusing: OpenAIServer, llm: str) -> None:
    fallback = {"role": "Editor", "goal": "Check", "llm": ScriptedChatModel(replies=["Done."])}
    output = ask(llm, fallback=fallback).run({"n": 1})
    assert (output.raw, len(refusing.requests)) == ("Done.", 1)


def test_an_empty_refusal_is_none(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(raw=to_whole().replace(json.dumps(WORDS).encode(), b'""').replace(b"null", b'"Yes."'))
    assert ask(llm).run({"n": 1}).raw == "Yes."


def test_what_it_said_before_stands_apart_from_its_refusal(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(raw=to_whole().replace(b'"content": null', b'"content": "A first step."'))
    with pytest.raises(TaskExecutionError, match=f"A first step. {WORDS[:-1]}"):
        ask(llm).run({"n": 1})
