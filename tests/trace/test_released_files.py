"""What released versions have saved still opens, and says the same (T12, T28, E42)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import ExecutionTrace, RunStatus
from ensemble_notebook.models.recording.exchange import outcome_from_document, request_from_document
from ensemble_notebook.models.recording.recording_file import read_documents
from ensemble_notebook.models.recording.replayer import RecordedAnswers
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME, render_chart_html, render_chart_text
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support import released_runs

FOLDER = Path(__file__).parents[1] / "fixtures"
TRACES = sorted(FOLDER.glob("*/*.trace.json"))
VIEWS = sorted(FOLDER.glob("*/*.view.json"))
RECORDINGS = sorted(FOLDER.glob("*/*.yaml"))
STATUS = {
    "report": RunStatus.COMPLETED_WITH_WARNINGS,
    "kitchen": RunStatus.COMPLETED,
    "storm": RunStatus.COMPLETED_WITH_WARNINGS,
    "slow": RunStatus.FAILED,
}
FRAMES = (
    *("runs", "spans", "phases", "tasks", "agents", "llm_calls", "attempts", "tool_calls", "delegations", "reviews"),
    *("links", "critical_path", "events", "messages", "errors"),
)


def name_of(path: Path) -> str:
    return path.name.partition(".")[0]


def label(path: Path) -> str:
    return f"{path.parent.name}-{name_of(path)}"


def differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Where something that was there is gone or another one; what has been added since is no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [line for key in old for line in differences(old[key], new.get(key), f"{place}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for index, (a, b) in pairs for line in differences(a, b, f"{place}[{index}]")]
    return [] if old == new else [f"{place}: {old!r} became {new!r}"]


def test_there_is_something_to_open() -> None:
    assert {label(each) for each in TRACES} >= {f"0.1.0-{name}" for name in STATUS}
    assert {label(each) for each in VIEWS} == {label(each) for each in TRACES}
    assert {label(each) for each in RECORDINGS} >= {"0.1.0-report", "0.1.0-kitchen", "0.1.0-storm"}


@pytest.mark.parametrize("path", TRACES, ids=label)
def test_a_saved_trace_says_what_it_said(path: Path) -> None:
    trace = ExecutionTrace.load(path)
    assert trace.status is STATUS[name_of(path)]
    assert find_violations(trace) == []
    found = differences(json.loads(path.read_text(encoding="utf-8")), trace.to_dict())
    # 0.1.0 counted the time between the attempts of a phase that was sent back (E50), named the agent that a task was
    # given to also where its fallback did it (E31), and called failed calls answers (T11).
    sent_back = {f".taskTraces[{place}].duration" for place, task in enumerate(trace.tasks) if task.attempt > 1}
    taken_over = tuple(f"became {task.agent!r}" for task in trace.tasks if task.span.is_fallback)
    found = [each for each in found if each.partition(":")[0] not in sent_back]
    found = [each for each in found if not each.endswith(".responseType: 'FINAL_ANSWER' became None")]
    assert [each for each in found if not ("gent" in each and each.endswith(taken_over))] == []


@pytest.mark.parametrize("path", TRACES, ids=label)
def test_a_saved_trace_gives_frames_and_a_picture(path: Path) -> None:
    trace = ExecutionTrace.load(path)
    rows = {name: len(getattr(trace.frames, name)) for name in FRAMES}
    assert rows["runs"] == 1
    assert rows["tasks"] == len(trace.tasks)
    assert len(trace.frames.timeseries()) > 0
    chart = make_chart(TimelineMessages(trace._fold).make_snapshot())
    for task in trace.tasks:
        assert task.name in render_chart_text(chart)
        assert task.name in render_chart_html(chart)


@pytest.mark.parametrize("path", VIEWS, ids=label)
def test_a_saved_view_gives_the_picture_of_its_trace(path: Path) -> None:
    saved = json.loads(path.read_text(encoding="utf-8"))[TRACE_MIME]
    trace = ExecutionTrace.load(path.with_name(f"{name_of(path)}.trace.json"))
    text = render_chart_text(make_chart(saved))
    assert all(task.name in text for task in trace.tasks)
    today = {row["span_id"]: row for row in TimelineMessages(trace._fold).make_snapshot()["rows"]}
    for row in saved["rows"]:
        now = today[row["span_id"]]
        assert (now["name"], now["kind"], now["status"]) == (row["name"], row["kind"], row["status"])
        assert (now.get("start_ms"), now.get("end_ms")) == (row.get("start_ms"), row.get("end_ms"))


@pytest.mark.parametrize("path", RECORDINGS, ids=label)
def test_a_recording_still_answers_what_it_was_asked(path: Path) -> None:
    answers = RecordedAnswers(path)
    documents = [each.content for each in read_documents(path)]
    asked = [each for each in documents if "exchange" in each and not {"repeats", "continues"} & each.keys()]
    assert set(answers.models) == {each["llm"] for each in documents if "llm" in each}
    assert asked
    for content in asked:
        outcome, pieces = outcome_from_document(content)
        exchange = answers.take(request_from_document(content))
        assert (exchange.number, exchange.outcome, exchange.pieces) == (content["exchange"], outcome, pieces)


def test_a_whole_run_is_replayed_where_its_prompts_are_still_the_same() -> None:
    """When a prompt has to change, this run can't be replayed any more: say so in the changelog, and take it out."""
    path = FOLDER / "0.1.0" / "kitchen.yaml"
    trace = ExecutionTrace.load(path.with_name("kitchen.trace.json"))
    output = released_runs.kitchen().run(replay=path)
    assert output.status is trace.status
    assert {task.name: task.output for task in output.trace.tasks} == {task.name: task.output for task in trace.tasks}


@pytest.mark.parametrize("path", [*TRACES, *VIEWS, *RECORDINGS], ids=lambda path: path.name)
def test_no_secret_was_saved(path: Path) -> None:
    assert released_runs.SECRET not in path.read_text(encoding="utf-8")
