"""What a server said beside a refusal, in whatever form, reaches everybody who is told of the error (E14)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ensemble_notebook import (
    Agent,
    Ensemble,
    Event,
    Reply,
    ScoringError,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ToolUse,
)
from ensemble_notebook.cell.cell_reader import read_cell
from tests.support.openai_server import Answer, OpenAIServer

WORDS = "temperature must be below 2"
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz"
INNER = json.dumps({"error": {"message": WORDS}})
FORMS = {
    "as OpenAI": {"error": {"message": WORDS, "type": "invalid_request_error"}},
    "detail": {"detail": WORDS},
    "details of fields": {"detail": [{"loc": ["body", "temperature"], "msg": WORDS, "input": "a long prompt"}]},
    "an error that is a text": {"error": WORDS},
    "in a list": [{"error": {"code": 400, "message": WORDS, "status": "INVALID_ARGUMENT"}}],
    "a message": {"object": "error", "message": WORDS, "code": 400},
    "errors": {"errors": [{"message": WORDS}]},
    "an upstream server's": {"error": {"message": "Provider returned error", "metadata": {"raw": INNER}}},
    "an upstream server's text": {"error": {"message": "Provider returned error", "metadata": {"raw": WORDS}}},
    "a text": f"{WORDS}\n",
    "a page": f"<html><head><style>a > b {{}}</style></head><body><h1>{WORDS}</h1></body></html>",
    "another form": {"fault": {"faultstring": WORDS}},
    "cut JSON": '{"error": {"message": "' + WORDS,
}


def refuse(form: Any, status: int = 400) -> Answer:
    raw = form if isinstance(form, str) else json.dumps(form)
    kind = "text/html" if raw.startswith("<") else "application/json"
    return Answer.status(status, raw=raw.encode(), content_type=kind)


def ask(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Ask {n}", name="ask", max_retries=0)], llm=llm, **fields)


class Watcher:
    """Has replies streamed."""

    wants_tokens = True

    def on_event(self, event: Event) -> None:
        """Look at it."""


def run_cell(llm: str) -> None:
    cell = read_cell(f"llm: {llm}\ntasks:\n- {{name: ask, description: Ask, max_retries: 0}}\n", {})
    cell.build({}).run(cell.inputs)


def make_model(llm: str) -> ChatOpenAI:
    return ChatOpenAI(model="test-model", base_url=llm.partition("@")[2], api_key=SecretStr("k"), max_retries=0)


DOORS: dict[str, Callable[[str], object]] = {
    "run": lambda llm: ask(llm).run({"n": 1}),
    "stream": lambda llm: ask(llm, listeners=[Watcher()]).run({"n": 1}),
    "nested": lambda llm: Ensemble(tasks=[Task.of("All", ensemble=ask(llm), inputs={"n": 1})]).run(),
    "cell": run_cell,
    "a model object": lambda llm: ask(make_model(llm)).run({"n": 1}),
    "a model object's stream": lambda llm: ask(make_model(llm), listeners=[Watcher()]).run({"n": 1}),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_server_s_own_reason_stands_in_the_error_its_frame_and_the_log(
    server: OpenAIServer, llm: str, caplog: pytest.LogCaptureFixture, door: Callable[[str], object], form: Any
) -> None:
    server.default = refuse(form)
    with pytest.raises(TaskExecutionError) as caught:
        door(llm)
    said = str(caught.value)
    assert "400. The server says: " in said
    assert said.endswith("The server did not accept the request.")
    assert WORDS in said
    assert "a long prompt" not in said
    assert caught.value.output is not None
    assert all(WORDS in message for message in caught.value.output.frames.errors["error_message"])
    assert WORDS in caplog.text


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_and_in_the_table_of_a_map(server: OpenAIServer, llm: str, form: Any) -> None:
    server.default = refuse(form)
    (error,) = ask(llm).map([{"n": 1}]).frame["error"]
    assert WORDS in error


@pytest.mark.parametrize("form", [FORMS["detail"], FORMS["an upstream server's"]])
def test_and_in_a_replay(server: OpenAIServer, llm: str, tmp_path: Path, form: Any) -> None:
    server.default = refuse(form)
    file = tmp_path / "run.jsonl"
    with pytest.raises(TaskExecutionError) as live:
        ask(llm).run({"n": 1}, record=file)
    server.clear()
    with pytest.raises(TaskExecutionError) as replayed:
        ask(llm).run({"n": 1}, replay=file)
    assert (str(replayed.value), server.requests) == (str(live.value), [])
    assert WORDS in str(live.value)


def test_a_fallback_s_log_says_why_it_took_over(
    server: OpenAIServer, llm: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.default = refuse(FORMS["detail"])
    fallback = {"role": "Editor", "goal": "Check", "llm": ScriptedChatModel(replies=["Done."])}
    task = Task.of("Ask", name="ask", fallback=fallback, max_retries=0)
    assert Ensemble(tasks=[task], llm=llm).run().raw == "Done."
    assert WORDS in caplog.text


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_log_of_an_attempt_that_is_made_again_says_why(
    server: OpenAIServer, llm: str, caplog: pytest.LogCaptureFixture, form: Any
) -> None:
    refusal = refuse(form, 503)
    server.script(dataclasses.replace(refusal, retry_after=0), "Fine.")
    assert Ensemble(tasks=[Task.of("Ask", name="ask", max_retries=1)], llm=llm).run().raw == "Fine."
    (line,) = [each for each in caplog.messages if "again in" in each]
    assert WORDS in line
    assert "\n" not in line


@pytest.mark.parametrize("form", [{"detail": f"The key {KEY} is wrong"}, f"The key {KEY} is wrong"])
def test_keys_in_them_are_masked(server: OpenAIServer, llm: str, caplog: pytest.LogCaptureFixture, form: Any) -> None:
    server.default = refuse(form, 401)
    with pytest.raises(TaskExecutionError, match=r"The server says: 'The key \*\*\* is wrong'") as caught:
        ask(llm).run({"n": 1})
    assert caught.value.output is not None
    frame = caught.value.output.frames.errors
    assert KEY not in str(caught.value) + caplog.text + frame.to_csv()


def test_long_words_are_cut(server: OpenAIServer, llm: str) -> None:
    server.default = refuse({"detail": "no " * 10_000})
    with pytest.raises(TaskExecutionError) as caught:
        ask(llm).run({"n": 1})
    assert str(caught.value).endswith("no no ...'. The server did not accept the request.")
    assert len(str(caught.value)) < 500


def test_no_words_are_none(server: OpenAIServer, llm: str) -> None:
    server.default = refuse("")
    with pytest.raises(TaskExecutionError, match=r"400\. The server did not accept the request\.$"):
        ask(llm).run({"n": 1})


def test_an_error_in_a_stream_says_its_words(server: OpenAIServer, llm: str) -> None:
    error = {"error": {"message": WORDS, "code": "bad_value"}}
    server.default = Answer(raw=json.dumps(error).encode())
    with pytest.raises(TaskExecutionError, match=WORDS):
        ask(llm, listeners=[Watcher()]).run({"n": 1})
    with pytest.raises(TaskExecutionError, match=WORDS):
        ask(llm).run({"n": 1})


def test_a_limit_that_is_over_soon_is_no_empty_account_though_its_words_name_the_billing(
    server: OpenAIServer, llm: str
) -> None:
    raw = json.dumps({"error": {"message": "See your plan and billing. Please retry in 34.1s.", "code": 429}})
    server.default = refuse({"error": {"message": "Provider returned error", "metadata": {"raw": raw}}}, 429)
    with pytest.raises(TaskExecutionError, match="The server limits the rate"):
        ask(llm).run({"n": 1})


@pytest.mark.parametrize("form", [FORMS["detail"], FORMS["a page"]])
def test_a_judge_s_server_is_heard_by_who_scores(
    server: OpenAIServer, llm: str, caplog: pytest.LogCaptureFixture, form: Any
) -> None:
    server.default = refuse(form)
    grade = Task.of("Judge {output}", name="grade", max_retries=0, output_type={"score": "float"})
    judge = Ensemble(name="judge", tasks=[grade], llm=llm)
    made = Ensemble(tasks=[Task.of("Ask {n}", name="ask")], llm="scripted")
    with pytest.raises(ScoringError, match=rf"{WORDS}'\. The server did not accept the request\.$"):
        made.run({"n": 1}).score(judge)
    with pytest.raises(ScoringError, match=rf"{WORDS}'\. The server did not accept the request\. The runs are done"):
        made.map([{"n": 1}], score=judge)
    assert WORDS in caplog.text


@pytest.mark.parametrize("form", [FORMS["detail"], FORMS["a page"]])
def test_an_agent_hears_what_the_server_of_its_tool_said(server: OpenAIServer, llm: str, form: Any) -> None:
    server.default = refuse(form)
    tool = Ensemble(tasks=[Task.of("Ask", name="ask", max_retries=0)], llm=llm).as_tool("other", "Asks another one")
    model = ScriptedChatModel(replies=[Reply(calls=[ToolUse("other", {})]), "Done."])
    output = Ensemble(tasks=[Task.of("Do", agent=Agent(role="Boss", goal="Do", llm=model, tools=[tool]))]).run()
    assert WORDS in output.frames.tool_calls["result"].iloc[0]
    assert WORDS in output.frames.errors.to_csv()
