"""What servers are sent beside what was asked for, as they take it: limits, usage of streams; and redirects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ensemble_notebook import (
    Budget,
    Ensemble,
    EnsembleOutput,
    Event,
    LlmAttemptEnded,
    LlmAttemptStarted,
    LlmCallRetried,
    Task,
    TaskExecutionError,
)
from ensemble_notebook.models.openai.request_fields import SentFields
from tests.support.openai_server import Answer, OpenAIServer, Request

UNKNOWN = "Unrecognized request argument supplied: "
EXTRA = "Extra inputs are not permitted"
FORMS = {
    "as OpenAI": lambda name: {"error": {"message": f"Unsupported parameter: '{name}'.", "param": name}},
    "as pydantic": lambda name: {"detail": [{"loc": ["body", name], "msg": EXTRA, "input": {"max_tokens": 1}}]},
    "a text": lambda name: {"error": f"{UNKNOWN}{name}"},
}


class Watcher:
    """Has replies streamed."""

    wants_tokens = True

    def on_event(self, event: Event) -> None:
        """Look at it."""


def make_spec(server: OpenAIServer) -> Any:
    return {"model": "m", "base_url": server.url, "max_tokens": 50}


def make_object(server: OpenAIServer) -> Any:
    return ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"), max_completion_tokens=50, max_retries=0)


def ask(llm: Any, *, streamed: bool = False, **fields: Any) -> EnsembleOutput:
    listeners = [Watcher()] if streamed else []
    return Ensemble(tasks=[Task.of("Ask", name="ask", max_retries=0)], llm=llm, listeners=listeners, **fields).run()


def refuse(server: OpenAIServer, *names: str, form: Any = FORMS["a text"], status: int = 400) -> None:
    """Have the server refuse requests with one of these fields."""

    def choose(request: Request) -> Answer | None:
        name = next((each for each in names if each in request.body), None)
        return None if name is None else Answer.status(status, raw=json.dumps(form(name)).encode())

    server.choose = choose


@pytest.mark.parametrize("make", [make_spec, make_object])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_is_sent_the_limit_under_both_of_its_names(server: OpenAIServer, make: Any, streamed: bool) -> None:
    ask(make(server), streamed=streamed)
    (request,) = server.requests
    assert (request.body["max_tokens"], request.body["max_completion_tokens"]) == (50, 50)


@pytest.mark.parametrize("make", [make_spec, make_object])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_name_that_is_refused_is_left_out_in_one_more_attempt_and_from_then_on(
    server: OpenAIServer, make: Any, streamed: bool, status: int, form: Any, name: str
) -> None:
    refuse(server, name, form=form, status=status)
    output = ask(make(server), streamed=streamed)
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[name]
    assert output.raw == "ok"
    assert [(name in each.body, each.body[other]) for each in server.requests] == [(True, 50), (False, 50)]
    events = output.trace.events
    assert [each.attempt for each in events if isinstance(each, LlmAttemptStarted)] == [1, 2]
    assert [each.delay_s for each in events if isinstance(each, LlmCallRetried)] == [0]
    server.clear()
    assert ask(make(server), streamed=streamed).raw == "ok"
    assert len(server.requests) == 1


@pytest.mark.parametrize("make", [make_spec, make_object])
def test_a_server_that_refuses_stream_options_is_asked_once_more_and_usage_is_unknown(
    server: OpenAIServer, make: Any
) -> None:
    refuse(server, "stream_options")
    output = ask(make(server), streamed=True)
    usage = [each.usage for each in output.trace.events if isinstance(each, LlmAttemptEnded)]
    assert (output.raw, usage[-1].input_tokens, usage[-1].output_tokens) == ("ok", None, None)
    assert ["stream_options" in each.body for each in server.requests] == [True, False]


def test_a_server_that_refuses_all_of_it_keeps_a_limit(server: OpenAIServer) -> None:
    refuse(server, "stream_options", "max_tokens", "max_completion_tokens")
    with pytest.raises(TaskExecutionError, match=r"max_completion_tokens"):
        ask(make_spec(server), streamed=True)
    assert all("max_tokens" in each.body or "max_completion_tokens" in each.body for each in server.requests)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "told",
    [
        "max_tokens is too large: 50; at most 8 are possible",
        "Invalid 'max_tokens': integer above maximum value. Expected a value <= 8",
        "Range of max_tokens should be [1, 8]",
        "max_tokens: out of range",
        "Invalid parameter: max_tokens must be at most 8",
        "Unsupported parameter value: max_tokens must be at most 8",
    ],
)
def test_a_limit_that_is_too_large_is_no_field_that_is_not_known(server: OpenAIServer, told: str) -> None:
    refuse(server, "max_tokens", form=lambda _: {"error": told})
    with pytest.raises(TaskExecutionError, match="max_tokens"):
        ask(make_spec(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "told",
    [
        "Unknown field max_tokens; must be one of messages, model",
        "property 'max_tokens' is unsupported, see the range of properties",
        "Unexpected keyword argument max_tokens: at most 3 fields are known",
    ],
)
def test_a_refusal_may_list_what_is_known_beside_the_field_that_is_not(server: OpenAIServer, told: str) -> None:
    refuse(server, "max_tokens", form=lambda _: {"error": told})
    assert ask(make_spec(server)).raw == "ok"
    assert [each.body.get("max_tokens") for each in server.requests] == [50, None]


def test_which_of_two_named_fields_is_refused_stands_first(server: OpenAIServer) -> None:
    told = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    refuse(server, "max_tokens", form=lambda _: {"error": {"message": told}})
    assert ask(make_spec(server)).raw == "ok"
    assert "max_completion_tokens" in server.requests[1].body


@pytest.mark.parametrize(
    "url, names",
    [
        ("https://api.openai.com/v1", {"max_completion_tokens"}),
        ("https://eu.api.openai.com/v1", {"max_completion_tokens"}),
        ("https://me.openai.azure.com/openai/v1", {"max_completion_tokens"}),
        ("https://openai.com.example.org/v1", {"max_completion_tokens", "max_tokens"}),
        ("http://gpu:8000/v1", {"max_completion_tokens", "max_tokens"}),
    ],
)
def test_openai_s_and_azure_s_own_addresses_are_sent_the_newer_name(url: str, names: set[str]) -> None:
    body: dict[str, Any] = {"max_completion_tokens": 5}
    SentFields(url).fit(body)
    assert body == dict.fromkeys(names, 5)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_that_passed_its_limit_is_told_with_both_numbers(server: OpenAIServer, streamed: bool) -> None:
    server.default = Answer("ok", usage=(11, 6010))
    output = ask(make_spec(server), streamed=streamed)
    assert any("took 6,010 tokens, though it was limited to 50" in each for each in output.warnings)
    server.default = Answer("ok", usage=(11, 6010))
    output = ask({"model": "m", "base_url": server.url}, streamed=streamed, budget=Budget(max_tokens=4000))
    assert any("took 6,010 tokens, though it was limited to" in each for each in output.warnings)


def test_a_budget_remembers_who_passes_limits_and_reserves_what_they_take(server: OpenAIServer) -> None:
    server.default = Answer("ok", usage=(11, 6010))
    tasks = [Task.of(f"Count {number}") for number in range(4)]
    output = Ensemble(tasks=tasks, llm=make_spec(server), budget=Budget(max_tokens=15_000)).run()
    assert "the next call may need 6," in output.skipped[0].reason
    assert len(server.requests) == 2  # a third one would have passed the budget


@pytest.mark.parametrize("make", [make_spec, make_object])
@pytest.mark.parametrize("streamed", [False, True])
def test_no_message_of_the_model_is_sent_empty(server: OpenAIServer, make: Any, streamed: bool) -> None:
    server.script(Answer(""), Answer('{"n": 1}'))
    task = Task.of("Count", name="count", output_type={"n": "int"})
    listeners = [Watcher()] if streamed else []
    Ensemble(tasks=[task], llm=make(server), listeners=listeners).run()
    roles = [(each["role"], each["content"]) for each in server.requests[1].messages]
    assert [role for role, _ in roles[-3:]] == ["user", "assistant", "user"]
    assert roles[-2][1] == "(empty reply)"


def test_no_message_of_an_earlier_conversation_is_sent_empty(server: OpenAIServer) -> None:
    chat = Ensemble(tasks=[Task.of("Go on", name="chat")], llm=make_spec(server))
    server.script(Answer(" \n"))
    chat.run(continue_from=chat.run())
    assert [each["content"] for each in server.requests[1].messages if each["role"] == "assistant"] == ["(empty reply)"]


def test_a_recording_has_the_attempt_that_a_server_refused(server: OpenAIServer, tmp_path: Path) -> None:
    refuse(server, "max_tokens")
    team = Ensemble(tasks=[Task.of("Ask", name="ask", max_retries=0)], llm=make_spec(server))
    team.run(record=tmp_path / "told.json")
    seen = len(server.requests)
    output = team.run(replay=tmp_path / "told.json")
    assert (output.raw, len(server.requests)) == ("ok", seen)
    assert len([each for each in output.trace.events if isinstance(each, LlmAttemptStarted)]) == 2


@pytest.mark.parametrize("make", [make_spec, make_object])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_told_with_its_place_and_not_followed(make: Any, streamed: bool, status: int) -> None:
    with OpenAIServer() as other, OpenAIServer() as server:
        server.default = Answer.status(status, location=f"{other.url}/chat/completions")
        with pytest.raises(TaskExecutionError) as caught:
            ask(make(server), streamed=streamed)
        assert "redirect" in str(caught.value)
        assert f"write it in place of the base URL: {other.url}" in str(caught.value)
        assert other.requests == []
        assert len(server.requests) == 1
