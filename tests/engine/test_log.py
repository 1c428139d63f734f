"""The log as a view of the event stream (E39)."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import (
    Event,
    LlmCallCompleted,
    LlmCallRetried,
    Noted,
    TaskCompleted,
    TaskFailed,
    TaskInputPrepared,
    TaskSkipped,
    TaskStarted,
    ToolCallCompleted,
    TurnEnded,
    Warned,
)
from ensemble_notebook.domain.outputs.task_output import TaskOutput, TokenUsage
from ensemble_notebook.domain.planning.graph import Graph, build_graph
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter, SystemClock
from ensemble_notebook.engine.events.run_log import RunLogger

QUIET = Agent(role="Quiet", goal="Work")
LOUD = Agent(role="Loud", goal="Work", verbose=True)
GRAPH: Graph = build_graph(
    EnsembleDefinition(
        tasks=[
            Task.of("Think", name="think", agent=QUIET),
            Task.of("Talk", name="talk", agent=LOUD),
            Task.of("Count", name="count", handler=len),
        ]
    )
)

KEY = "sk-" + "a1b2" * 6
PROMPTS = (TaskInputPrepared, {"system_prompt": "You are.", "user_prompt": "Do it.", "context": ()})
REPLY = (
    LlmCallCompleted,
    {
        "text": "Done.",
        "tool_calls": (),
        "usage": TokenUsage(),
        "model": None,
        "finish_reason": None,
        "time_to_first_token_s": None,
    },
)


def logged(
    caplog: pytest.LogCaptureFixture,
    kind: type[Event],
    fields: dict[str, Any],
    *,
    task: str | None = "think",
    is_verbose: bool = False,
    level: int = logging.DEBUG,
) -> list[logging.LogRecord]:
    """What one event leaves in the log."""
    caplog.clear()
    with caplog.at_level(level, "ensemble_notebook"):
        stream = EventStream("r1", SystemClock(), [RunLogger(GRAPH, is_verbose=is_verbose).put])
        SpanEmitter(stream, "r1.1", task=task).emit(kind, **fields)
    return caplog.records


OUTPUT = TaskOutput(
    name="think",
    raw="",
    task_description="Think",
    agent_role="Quiet",
    completed_at=datetime.now(UTC),
    duration=timedelta(seconds=1.5),
    tool_call_count=2,
)
TOOL = {"tool": "search", "tool_call_id": "1"}


@pytest.mark.parametrize(
    "kind, fields, level, message",
    [
        pytest.param(
            TaskStarted,
            {"agent": "Quiet", "description": "Think", "index": 0, "total": 3, "queued_s": 0.0},
            logging.INFO,
            "Task think (1/3) started: Quiet",
            id="started",
        ),
        pytest.param(
            TaskCompleted,
            {"output": OUTPUT},
            logging.INFO,
            "Task think completed in 1.50 s with 2 tool calls",
            id="completed",
        ),
        pytest.param(
            TaskFailed,
            {"agent": "Quiet", "error": KeyError("k"), "status": SpanStatus.ERROR},
            logging.WARNING,
            "Task think failed: KeyError: 'k'",
            id="failed",
        ),
        pytest.param(
            TaskFailed,
            {"agent": "Quiet", "error": TimeoutError(), "status": SpanStatus.CANCELLED},
            logging.INFO,
            "Task think was cancelled",
            id="cancelled",
        ),
        pytest.param(TaskSkipped, {"reason": "no need"}, logging.INFO, "Task think skipped: no need", id="skipped"),
        pytest.param(
            ToolCallCompleted,
            {**TOOL, "status": SpanStatus.OK, "outcome": ToolOutcome.SUCCESS, "result": "found"},
            logging.INFO,
            "Tool in think: search() -> found",
            id="tool answered",
        ),
        pytest.param(
            ToolCallCompleted,
            {**TOOL, "status": SpanStatus.ERROR, "outcome": ToolOutcome.FAILURE, "result": "Tool error: lost"},
            logging.WARNING,
            "Tool in think: search() -> Tool error: lost",
            id="tool failed",
        ),
        pytest.param(
            ToolCallCompleted,
            {**TOOL, "status": SpanStatus.CANCELLED, "outcome": None, "result": ""},
            logging.INFO,
            "Tool in think: search() was cancelled",
            id="tool cancelled",
        ),
        pytest.param(
            LlmCallRetried,
            {"attempt": 1, "delay_s": 2.0, "reason": "429", "error": OSError("too many\nrequests")},
            logging.WARNING,
            "Model request 1 of think failed (429), again in 2.0 s: OSError: too many requests",
            id="retried",
        ),
        pytest.param(Noted, {"message": "Starting."}, logging.INFO, "Starting.", id="noted"),
        pytest.param(Warned, {"message": "Odd."}, logging.WARNING, "Odd.", id="warned"),
        pytest.param(*REPLY, logging.DEBUG, "Reply in think:\nDone.", id="reply"),
    ],
)
def test_an_event_becomes_one_record_at_its_level_e39(
    kind: type[Event], fields: dict[str, Any], level: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    (record,) = logged(caplog, kind, fields)
    assert record.levelno == level
    assert record.getMessage() == message
    assert record.name == "ensemble_notebook.run"


def test_prompts_and_how_many_outputs_they_hold_are_two_records_at_debug_e39(caplog: pytest.LogCaptureFixture) -> None:
    context, prompts = logged(caplog, TaskInputPrepared, PROMPTS[1] | {"context": ("gather", "check")})
    assert [(each.levelno, each.getMessage()) for each in (context, prompts)] == [
        (logging.DEBUG, "Task think reads 2 outputs"),
        (logging.DEBUG, "Prompts of think:\nYou are.\n\nDo it."),
    ]
    assert (context.task, context.task_index, context.agent_role) == ("think", 1, "Quiet")


def test_the_number_of_outputs_is_told_where_no_text_is_kept_e39(caplog: pytest.LogCaptureFixture) -> None:
    blank = {"system_prompt": "", "user_prompt": "", "context": ("gather",)}
    assert [each.getMessage() for each in logged(caplog, TaskInputPrepared, blank)] == ["Task think reads 1 output"]


def test_records_carry_run_task_index_and_role_e39(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = logged(caplog, TaskSkipped, {"reason": "no need"}, task="count")
    facts = {name: getattr(record, name) for name in ("run_id", "task", "task_index", "agent_role")}
    assert facts == {"run_id": "r1", "task": "count", "task_index": 3, "agent_role": "Handler"}


def test_records_of_the_run_as_a_whole_carry_no_task_e39(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = logged(caplog, Noted, {"message": "Starting."}, task=None)
    facts = {name: getattr(record, name) for name in ("run_id", "task", "task_index", "agent_role")}
    assert facts == {"run_id": "r1", "task": None, "task_index": None, "agent_role": None}


@pytest.mark.parametrize("kind, fields", [PROMPTS, REPLY], ids=["prompts", "reply"])
def test_prompts_and_replies_are_info_where_the_ensemble_or_the_agent_is_verbose_e39(
    kind: type[Event], fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    info = logging.INFO
    assert logged(caplog, kind, fields, task="think", level=info) == []
    assert [record.levelno for record in logged(caplog, kind, fields, task="talk", level=info)] == [info]
    verbose = logged(caplog, kind, fields, task="think", is_verbose=True, level=info)
    assert [record.levelno for record in verbose] == [info]


@pytest.mark.parametrize(
    "kind, fields",
    [
        (TaskInputPrepared, {"system_prompt": f"Use {KEY}.", "user_prompt": f"{KEY}?", "context": ()}),
        (LlmCallCompleted, {**REPLY[1], "text": f"It is {KEY}."}),
        (
            ToolCallCompleted,
            {**TOOL, "status": SpanStatus.ERROR, "outcome": ToolOutcome.FAILURE, "result": f"Tool error: {KEY}"},
        ),
        (TaskFailed, {"agent": "Quiet", "error": KeyError(KEY), "status": SpanStatus.ERROR}),
        (Warned, {"message": f"Odd: {KEY}"}),
    ],
)
def test_no_record_holds_a_secret_t7(
    kind: type[Event], fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    record = logged(caplog, kind, fields)[-1]
    assert "***" in record.getMessage()
    assert KEY not in str(vars(record))


def test_other_events_leave_no_record(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, TurnEnded, {"status": SpanStatus.OK}) == []


def test_the_package_is_silent_until_logging_is_configured_e39() -> None:
    program = """
import logging
import ensemble_notebook.engine.events.run_log
logging.getLogger("ensemble_notebook.run").warning("a warning that nobody asked for")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout + done.stderr == ""
