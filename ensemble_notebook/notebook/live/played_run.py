"""A run that was recorded, played as if it went on now (C101): the events of its trace, each in its time.

What is played is a run of its own, with an id and times of its own, and says what it was replayed from. Its end may be
another one than it was, since a person may stop it.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from asyncio import CancelledError
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.delegation import DelegationResponse
from ensemble_notebook.domain.definitions.enums import (
    DelegationStatus,
    ExitReason,
    PhaseStatus,
    RunStatus,
    SpanStatus,
)
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.trace_file import read_trace_file

_PIECE: Final = re.compile(r"\s*\S+|\s+$")
_STARTS: Final = tuple(each for kind in SpanKind for each in kind.traits.starts)
_ENDS: Final = tuple(each for kind in SpanKind for each in kind.traits.ends)
_NOT_STARTED: Final = "not started: the run was stopped"


class PlayedRun:
    """A recorded run, read from its trace, to be played once.

    Args:
        path: of the trace.
        name: what it says that it was replayed from.

    Attributes:
        run_id: its own.
        cost: the ensemble's own rates.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.run_id: Final = uuid.uuid4().hex[:12]
        recorded = read_trace_file(path, run_id=self.run_id)
        self.cost: Final = recorded.cost
        now = datetime.now(UTC)
        later = now - recorded.events[0].time
        self._events = _date_anew(_spread_words(recorded.events), name, now)
        scores = sorted(recorded.scores, key=lambda each: each.scored_at)
        self._scores = [replace(each, scored_at=each.scored_at + later) for each in scores]
        self._stopped = threading.Event()

    @property
    def plan(self) -> ExecutionPlan:
        """What is going to happen."""
        return next(each.plan for each in self._events if isinstance(each, ev.PlanMade))

    def stop(self) -> None:
        """Let it end now. From any thread."""
        self._stopped.set()

    def play(self, listeners: Sequence[Any], *, is_paced: bool) -> ExecutionTrace:
        """Give its events to listeners, and the scores of its rows, and return the trace of what was given.

        Args:
            listeners: are told of each event and score, as of those of a run.
            is_paced: each event comes at its own time; else all come at once.
        """
        began_s, played, scored = time.monotonic(), list[Event](), list[ScoreRecord]()

        def give(event: Event) -> None:
            due = [*takewhile(lambda each: each.scored_at <= event.time, islice(self._scores, len(scored), None))]
            scored.extend(due)
            played.append(event)
            for each in listeners:
                if due and (hear := getattr(each, "on_scores", None)) is not None:
                    hear(due)
                each.on_event(event)

        for event in self._events:
            left_s = began_s + event.offset_s - time.monotonic() if is_paced else 0.0
            is_begun = bool(played) and not isinstance(event, ev.PlanMade)
            if is_begun and (self._stopped.wait(left_s) if left_s > 0 else self._stopped.is_set()):
                stopped_s = time.monotonic() - began_s if is_paced else 0.0
                for last in _make_end([*played], max(stopped_s, played[-1].offset_s)):
                    give(last)
                break
            give(event)
        return ExecutionTrace(played, self.cost, scores=scored)


def _make_end(played: Sequence[Event], offset_s: float) -> Iterator[Event]:
    """The end of a run that was stopped: what is open is cancelled, innermost first, and what has not begun never will.

    Args:
        played: the events before.
        offset_s: when it was stopped, in seconds since its start.
    """
    run, seq = played[0], count(len(played))
    begun: dict[str, Event] = {}  # the last start of each span
    opened: dict[str, Event] = {}  # those without an end

    def make(kind: type[Any], around: Any, **facts: Any) -> Event:
        place = {name: getattr(around, name) for name in ("span_id", "parent_id", "task", "phase", "depends_on")}
        time = run.time + timedelta(seconds=offset_s)
        event: Event = kind(run_id=run.run_id, seq=next(seq), time=time, offset_s=offset_s, **place, **facts)
        return event

    for event in played:
        if isinstance(event, _STARTS):
            begun[event.span_id] = opened[event.span_id] = event
        elif isinstance(event, _ENDS):
            opened.pop(event.span_id, None)
    yield from (make(kind, each, **facts) for each, kind, facts in _list_unbegun(played, begun))
    for start in reversed(opened.values()):
        if start is not run:
            kind, facts = _cancel(start, offset_s)
            yield make(kind, start, **facts)
    end = {"status": RunStatus.INTERRUPTED, "exit_reason": ExitReason.INTERRUPTED}
    yield make(ev.RunEnded, run, **end, duration=timedelta(seconds=offset_s))


def _list_unbegun(
    played: Sequence[Event], begun: Container[str]
) -> Iterator[tuple[_Place, type[Event], dict[str, Any]]]:
    """What was planned and has not begun, with how it ends."""
    for made in (each for each in played if isinstance(each, ev.PlanMade)):
        phases = dict(zip(made.plan.phases, made.phase_span_ids, strict=True))
        for task, span_id in zip(made.plan.tasks, made.task_span_ids, strict=True):
            if span_id not in begun:
                parent_id = made.run_id if task.phase is None else phases[task.phase]
                place = _Place(span_id, parent_id, task.name, task.phase, task.depends_on)
                yield place, ev.TaskSkipped, {"reason": _NOT_STARTED}
        for phase, span_id in phases.items():
            if span_id not in begun:
                place = _Place(span_id, made.run_id, None, phase, made.plan.phases[phase])
                yield place, ev.PhaseSkipped, {"reason": _NOT_STARTED}


class _Place(NamedTuple):
    """Where an event stands: its fields of the same names."""

    span_id: str
    parent_id: str
    task: str | None
    phase: str | None
    depends_on: tuple[str, ...]


def _cancel(start: Event, offset_s: float) -> tuple[type[Event], dict[str, Any]]:
    """How what began so ends where its run is stopped, as the engine would tell it."""
    error, took = CancelledError(), timedelta(seconds=offset_s - start.offset_s)
    status = {"status": SpanStatus.CANCELLED}
    match start:
        case ev.PhaseStarted():
            return ev.PhaseEnded, {"status": PhaseStatus.FAILED, "is_cancelled": True}
        case ev.TaskStarted(agent=agent):
            return ev.TaskFailed, {**status, "agent": agent, "error": error, "duration": took}
        case ev.TurnStarted():
            return ev.TurnEnded, status
        case ev.LlmCallStarted():
            return ev.LlmCallFailed, {**status, "error": error}
        case ev.LlmAttemptStarted(attempt=attempt):
            return ev.LlmAttemptEnded, {**status, "attempt": attempt, "usage": TokenUsage()}
        case ev.ToolCallStarted(tool=tool, tool_call_id=call_id):
            return ev.ToolCallCompleted, {
                **status,
                "tool": tool,
                "tool_call_id": call_id,
                "outcome": None,
                "result": "",
            }
        case ev.NestedRunStarted():
            return ev.NestedRunEnded, {**status, "run_status": RunStatus.INTERRUPTED, "error": error, "duration": took}
        case ev.ScoreStarted():
            return ev.ScoreEnded, status
        case ev.DelegationStarted(request=request):
            response = DelegationResponse(
                task_id=request.task_id,
                status=DelegationStatus.FAILURE,
                worker_role=request.agent_role,
                errors=("the run was stopped",),
                duration=took,
            )
            return ev.DelegationFailed, {**status, "request": request, "response": response}
    raise TypeError(f"No demo has a {type(start).__name__}.")


def _spread_words(events: Sequence[Event]) -> list[Event]:
    """The events, with a piece for each word of what models said: a trace has it as one, where it began (T11)."""
    spread: list[Event] = []
    for place, event in enumerate(events):
        if not isinstance(event, ev.LlmToken):
            spread.append(event)
            continue
        pieces = _PIECE.findall(event.text)
        end_s = next(
            each.offset_s
            for each in events[place:]
            if isinstance(each, ev.LlmAttemptEnded | ev.RunEnded) and event.span_id in (each.parent_id, each.span_id)
        )
        step_s = (end_s - event.offset_s) / len(pieces)
        spread += (
            replace(event, text=text, offset_s=event.offset_s + number * step_s, time=event.time)
            for number, text in enumerate(pieces)
        )
    return sorted(spread, key=lambda each: each.offset_s)


def _date_anew(events: Sequence[Event], name: str, now: datetime) -> list[Event]:
    """The events as those of a run that began `now`, and was replayed from what is called so."""
    later = now - events[0].time
    made: list[Event] = []
    for seq, event in enumerate(events):
        changes: dict[str, Any] = {"seq": seq, "time": now + timedelta(seconds=event.offset_s)}
        if isinstance(event, ev.RunStarted):
            changes["replayed_from"] = name
        elif (output := getattr(event, "output", None)) is not None:
            changes["output"] = replace(output, completed_at=output.completed_at + later)
        made.append(replace(event, **changes))
    return made
