"""Whole runs, recorded with a real server and replayed when it is gone, without a key (E42)."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    Ensemble,
    ExecutionTrace,
    Fail,
    LlmToken,
    Noted,
    ReplayError,
    RunInterrupted,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
)
from ensemble_notebook.models.recording.recording_file import read_documents
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.openai_server import Answer, OpenAIServer

LLM = "openai:gpt-4o-mini"
KEY = "sk-" + "a1B2" * 8


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lesson.yaml"


@pytest.fixture
def online(monkeypatch):
    """A server in place of OpenAI, and a key, until `offline` is called."""

    class Online:
        def __enter__(self):
            self._server = OpenAIServer()
            server = self._server.__enter__()
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            return server

        def __exit__(self, *gone):
            monkeypatch.delenv("OPENAI_BASE_URL")
            monkeypatch.delenv("OPENAI_API_KEY")
            self._server.__exit__(*gone)

    for name in [each for each in os.environ if each.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    return Online()


def search(q: str) -> str:
    """Look it up."""
    return f"{q}: five minutes,\nwith the key {KEY}"


def lesson(description="Cook a steak", **fields):
    cook = Agent(role="Cook", goal="Cook", tools=[search])
    first = Task.of(description, agent=cook, name="cook")
    second = Task.of("Sum it up", agent=Agent(role="Editor", goal="Edit"), context=[first], name="edit")
    return Ensemble(tasks=[first, second], llm=LLM, **fields)


def recorded(online, path, *answers, ensemble=None, **settings):
    with online as server:
        server.script(*answers)
        return (ensemble or lesson()).run(record=path, **settings)


LESSON = (
    Answer.status(429, retry_after=0.01),
    Answer("Let me look.", calls=[("search", {"q": "steak"})], usage=(30, 5)),
    Answer("Rest it.\nFor five minutes.", usage=(60, 9)),
    Answer("Rest it.", usage=(40, 3)),
)


def facts(output):
    """All of a run but its times and ids."""
    calls = output.frames.llm_calls[["task", "model", "provider", "status", "input_tokens", "output_tokens"]]
    attempts = output.frames.attempts[["task", "status", "error_type", "error_message"]]
    texts = [each.raw for each in output.task_outputs]
    metrics = output.metrics
    sums = (metrics.total_tokens, metrics.llm_call_count, metrics.llm_attempt_count, metrics.tool_call_count)
    return texts, sums, metrics.cost, calls.to_dict("records"), attempts.to_dict("records")


def test_replayed_run_is_the_recorded_one_without_server_and_key(online, path):
    first = recorded(online, path, *LESSON)
    again = lesson().run(replay=path)
    assert facts(again) == facts(first)
    assert again.metrics.llm_attempt_count == 4
    assert [event.message for event in again.trace.events if isinstance(event, Noted)] == [
        "Replaying lesson.yaml: no model is asked."
    ]


def test_replayed_run_stays_labelled_everywhere_e42(online, path, tmp_path):
    assert recorded(online, path, *LESSON).frames.runs["replayed_from"].isna().all()
    again = lesson().run(replay=path)
    again.trace.save(tmp_path / "run.trace.json")
    loaded = ExecutionTrace.load(tmp_path / "run.trace.json")
    label = "replayed from lesson.yaml, no model asked"
    for trace in (again.trace, loaded):
        assert TimelineMessages(trace._fold).make_saved_view()["run"]["replayed_from"] == "lesson.yaml"
        assert trace.frames.runs["replayed_from"].tolist() == ["lesson.yaml"]
        assert label in make_chart(TimelineMessages(trace._fold).make_snapshot()).facts
    assert label in again._repr_mimebundle_()["text/plain"]


def test_recording_holds_no_key(online, path):
    recorded(online, path, *LESSON)
    assert KEY not in path.read_text()
    assert "with the key ***" in path.read_text()


def test_recording_can_be_replayed_again_and_again(online, path):
    recorded(online, path, *LESSON)
    ensemble = lesson()
    assert [ensemble.run(replay=path).raw for _ in range(3)] == ["Rest it."] * 3


def test_changed_task_is_refused_with_the_place(online, path):
    recorded(online, path, *LESSON)
    with pytest.raises(TaskExecutionError) as caught:
        lesson("Cook a steam").run(replay=path)
    root = caught.value.__cause__.__cause__
    assert isinstance(root, ReplayError)
    *_, then, now, mark, advice = str(root).splitlines()
    assert "Cook a steak" in then
    assert "Cook a steam" in now
    assert now[: mark.index("^") + 1].endswith("steam")
    assert advice == f"Record anew: run(record='{path}')."
    assert "Cook a steam" in "\n".join(caught.value._render_lines())


def test_recording_that_does_not_fit_is_no_reason_to_fall_back(path):
    def ensemble(description):
        cook = Agent(role="Cook", goal="Cook.", llm=ScriptedChatModel(replies=[Fail(400)]))
        chef = Agent(role="Chef", goal="Cook.", llm=ScriptedChatModel(replies=["Rest it."]))
        return Ensemble(tasks=[Task.of(description, agent=cook, fallback=chef)])

    assert ensemble("Cook a steak").run(record=path).raw == "Rest it."
    with pytest.raises(TaskExecutionError) as caught:
        ensemble("Cook a steam").run(replay=path)
    assert isinstance(caught.value.__cause__.__cause__, ReplayError)
    assert caught.value.__cause__.agent_role == "Cook"


def test_file_that_is_no_recording_is_refused_before_anything_is_done(path):
    with pytest.raises(ReplayError, match="There is no recording"):
        lesson().run(replay=path)


def test_streamed_run_is_replayed_in_the_same_pieces(online, path):
    async def tokens(**settings):
        return [event.text async for event in lesson().astream(**settings) if isinstance(event, LlmToken)]

    with online as server:
        server.script(*(replace(answer, pause=0.01) for answer in LESSON))  # so that they come one by one
        first = asyncio.run(tokens(record=path))
    assert asyncio.run(tokens(replay=path)) == first
    assert len(first) > 8


def test_failed_run_is_recorded_and_fails_again_alike(online, path):
    answers = [*LESSON[1:3], Answer.status(401)]
    with pytest.raises(TaskExecutionError) as first:
        recorded(online, path, *answers)
    with pytest.raises(TaskExecutionError) as again:
        lesson().run(replay=path)
    assert str(again.value) == str(first.value)
    assert facts(again.value.output) == facts(first.value.output)


def test_tasks_side_by_side_are_replayed_in_any_order(online, path):
    agent = Agent(role="Cook", goal="Cook")
    tasks = [Task.of(f"Cook dish {number}", agent=agent, name=f"dish_{number}") for number in range(20)]
    ensemble = Ensemble(tasks=tasks, llm=LLM, workflow="parallel")
    with online as server:
        server.choose = lambda request: Answer(request.prompt, delay=0.01 * (len(request.raw) % 7))
        first = ensemble.run(record=path)
    again = ensemble.run(replay=path)
    texts = [{each.name: each.raw for each in output.task_outputs} for output in (first, again)]
    assert texts[0] == texts[1]
    assert len(set(texts[0].values())) == 20


def test_interrupted_run_leaves_a_whole_recording(online, path):
    with online as server:
        server.script(*LESSON[1:3], Answer(delay=60))
        handle = lesson().start(record=path)
        asyncio.run(server.opened(3))
        handle.cancel()
        with pytest.raises(RunInterrupted):
            handle.result()
    exchanges = [each.content for each in read_documents(path) if "exchange" in each.content]
    assert [next(iter(each.keys() & {"reply", "stopped"})) for each in exchanges] == ["reply", "reply", "stopped"]


def test_budget_is_used_up_at_the_same_request(online, path):
    answers = [Answer("Rest it.", usage=(2500, 20))]
    first = recorded(online, path, *answers, ensemble=lesson(budget=Budget(max_tokens=3000)))
    again = lesson(budget=Budget(max_tokens=3000)).run(replay=path)
    assert first.status is again.status is RunStatus.BUDGET_EXCEEDED
    assert facts(again) == facts(first)
    assert again.metrics.llm_attempt_count == 1
