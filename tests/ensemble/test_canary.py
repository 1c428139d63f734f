"""Secrets planted everywhere, and looked for in everything that a run leaves behind, shows or writes (T7, E69)."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    JsonTraceExporter,
    SqliteMemory,
    Task,
    TaskExecutionError,
    TaskInput,
)
from ensemble_notebook.notebook.live.run_feed import find_feed
from ensemble_notebook.notebook.live.timeline_widget import make_timeline
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle
from tests.support.openai_server import Answer, OpenAIServer

# Each looks harmless by itself; what gives it away is where it stands, or what holds it.
CANARIES = {
    "variable that nobody uses": "canary-variable-17",
    "header of a model object": "canary-header-4711",
    "key of a model object": "canary-object-key-99",
    "user and password of an address": "canary:birdseed-42",
    "parameter of an address": "canaryparameter77",
    "password in a text": "canary!pass1",
    "input with a telling name": "quiet-input-canary-0123",
    "basic authorization": "Y2FuYXJ5OmJpcmRzZWVkLTQy",
    "bearer": "canarybearer0123456789",
    "cloud key": "AKIACANARYCANARYCANA",
    "cloud secret": "canary/Cloud+Secret/Access+Key0123456789",
    "key of a provider": "sk-canary0123456789canary",
}
TEXT = (
    f"password={CANARIES['password in a text']} Authorization: Basic {CANARIES['basic authorization']} "
    f"Authorization: Bearer {CANARIES['bearer']} {CANARIES['cloud key']} "
    f"aws_secret_access_key={CANARIES['cloud secret']} {CANARIES['variable that nobody uses']} "
    f"https://{CANARIES['user and password of an address']}@host/v1?key={CANARIES['parameter of an address']}&x=1 "
    f"{CANARIES['key of a provider']} {CANARIES['header of a model object']} "
    f"{CANARIES['key of a model object']}"
)


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTNER_SERVICE_PASSWORD", CANARIES["variable that nobody uses"])


def model(server: OpenAIServer, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="test-model",
        base_url=server.url,
        api_key=CANARIES["key of a model object"],
        default_headers={"X-Gateway": CANARIES["header of a model object"], "X-Title": "A quiet kitchen"},
        max_retries=0,
        **more,
    )


def tell(text: str) -> str:
    """Tell a secret."""
    return TEXT


def burn(text: str) -> str:
    """Fail with a secret."""
    raise ValueError(TEXT)


def make(server: OpenAIServer, folder: Path, **fields: Any) -> Ensemble:
    cook = Agent(role="Cook", goal=TEXT, background=TEXT, llm=model(server), tools=[tell, burn], verbose=True)
    soup = Task.of(TEXT, name="soup", agent=cook, memory=["kitchen"], expected_output=TEXT)
    serve = Task.of(f"Serve {TEXT}", name="serve", agent=cook, context=[soup])
    return Ensemble(
        tasks=[soup, serve],
        inputs={"api_key": "quiet-input-canary-0123", "note": TEXT},
        capture_mode="full",
        trace_exporter=JsonTraceExporter(folder / "traces"),
        memory=SqliteMemory(folder / "memory.db"),
        **fields,
    )


def found_in(text: str | bytes) -> list[str]:
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    return [name for name, value in CANARIES.items() if value in text or json.dumps(value)[1:-1] in text]


def shown_by(ensemble: Ensemble, output: EnsembleOutput) -> Iterator[tuple[str, str | bytes]]:
    """Everything that a run lets people or files see, by name."""
    for value in (ensemble, *ensemble.tasks, ensemble.tasks[0].agent, output, output.trace, output.plan, output.frames):
        yield f"repr of {type(value).__name__}", repr(value)
        if value is not output.frames:
            yield f"pickle of {type(value).__name__}", pickle.dumps(value)
    yield "plan", json.dumps(ensemble.plan().to_dict())
    yield "plan's picture", json.dumps(ensemble.plan()._repr_mimebundle_(), default=str)
    yield "repr of events", repr(output.events) + repr(output.trace.events)
    yield "texts of events", "".join(str(getattr(each, "text", "")) for each in output.events)
    yield "pickle of events", pickle.dumps(output.events)
    yield "repr of outputs", repr(output.task_outputs) + repr([each.trace for each in output])
    yield "pickle of outputs", pickle.dumps(output.task_outputs)
    yield "trace", json.dumps(output.trace.to_dict())
    yield "bundle", json.dumps(make_output_bundle(output))
    widget = make_timeline(output)
    feed = find_feed(widget.feed_id)
    yield (
        "widget",
        json.dumps(
            [
                feed.messages.make_snapshot(),
                repr(feed.messages.pack_snapshot()),
                feed.messages.make_delta(0),
                widget._repr_mimebundle_(),
            ],
            default=str,
        ),
    )
    frames = output.frames
    for name in ("spans", "tasks", "errors", "messages", "tool_calls", "llm_calls", "attempts", "events", "agents"):
        yield f"frame {name}", getattr(frames, name).to_csv()
    for failure in output.failures:
        yield "failure", repr(failure) + "".join(traceback.format_exception(failure.error))
        yield "pickle of failure", pickle.dumps(failure)


def test_no_secret_leaves_a_run_e69(server: OpenAIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server.script(
        Answer(None, calls=[("x", "tell", {"text": TEXT}), ("y", "burn", {"text": "?"})]), Answer(TEXT), Answer(TEXT)
    )
    ensemble = make(server, tmp_path)
    with caplog.at_level(logging.DEBUG, "ensemble_notebook"):
        output = ensemble.run(record=tmp_path / "recording.yaml")
    assert output.raw == TEXT
    seen = [*shown_by(ensemble, output), ("log", caplog.text)]
    seen += [(str(file), file.read_bytes()) for file in tmp_path.rglob("*") if file.is_file()]
    assert {name: found for name, text in seen if (found := found_in(text))} == {}


def test_no_secret_leaves_a_refusal_e69(server: OpenAIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server.script(Answer.status(401, message=f"Incorrect API key provided: {TEXT}"))
    ensemble = make(server, tmp_path)
    with caplog.at_level(logging.DEBUG, "ensemble_notebook"), pytest.raises(TaskExecutionError) as caught:
        ensemble.run(record=tmp_path / "recording.yaml")
    error = caught.value
    seen = list(shown_by(ensemble, error.output))
    seen += [("log", caplog.text), ("format_exception", "".join(traceback.format_exception(error)))]
    seen += [("cell", "\n".join([*error._render_traceback_(), *error._render_traceback_()])), ("str", str(error))]
    seen += [("pickle", pickle.dumps(error)), ("repr", repr(error) + repr(error.__cause__))]
    seen += [(str(file), file.read_bytes()) for file in tmp_path.rglob("*") if file.is_file()]
    assert {name: found for name, text in seen if (found := found_in(text))} == {}
    foreign = error.__cause__.__cause__
    assert (type(foreign).__name__, foreign.status_code) == ("OpenAIAuthenticationError", 401)


def test_no_secret_leaves_a_handler_that_fails_e69() -> None:
    def broken(given: TaskInput) -> str:
        try:
            raise KeyError(TEXT)
        except KeyError as error:
            error.add_note(TEXT)
            raise RuntimeError(f"no: {CANARIES['cloud key']}") from error

    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[Task.of("Break", handler=broken)]).run()
    told = "".join(traceback.format_exception(caught.value))
    assert "RuntimeError: no: ***" in told
    # Only a model object gives these away, and there is none.
    assert {*found_in(told)} <= {"header of a model object", "key of a model object"}


def test_a_variable_that_is_set_later_is_masked_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATE_API_TOKEN", "canary-late-token")
    assert "canary-late-token" not in repr(Agent(role="Cook", goal="Use canary-late-token"))


def test_an_address_with_user_and_password_works_and_is_masked_e69(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.url.replace("://", f"://{CANARIES['user and password of an address']}@")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    server.script(Answer("Soup."), Answer("More soup."))
    output = Ensemble(tasks=[Task.of("Cook")], llm="openai:test-model").run()
    again = Ensemble(tasks=[Task.of("Cook")], llm=ChatOpenAI(model="m", base_url=address, api_key="x")).run()
    assert (output.raw, again.raw) == ("Soup.", "More soup.")
    assert [each.headers["authorization"] for each in server.requests] == [
        f"Basic {CANARIES['basic authorization']}",
        f"Basic {CANARIES['basic authorization']}",
    ]
    assert found_in(pickle.dumps(output) + pickle.dumps(again)) == []
