"""Traces that AgentEnsemble has written, told as our events (T12).

Such a file has no names of tasks, no plan, no models and no attempts: a task is named after its agent, each call has
one attempt, and what is not there stays unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    DelegationStatus,
    ExitReason,
    RunStatus,
    SpanStatus,
    ToolOutcome,
)
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.secrets import mask_id
from ensemble_notebook.domain.outputs.task_output import TaskOutput, TokenUsage
from ensemble_notebook.domain.planning.execution_plan import PlannedAgent
from ensemble_notebook.domain.value_text import parse_instant
from ensemble_notebook.errors import make_recorded_error
from ensemble_notebook.importers.event_list import EventList

Plain = Mapping[str, Any]

_OUTCOMES: Final = {
    "SUCCESS": (ToolOutcome.SUCCESS, SpanStatus.OK),
    "FAILURE": (ToolOutcome.FAILURE, SpanStatus.ERROR),
    "ERROR": (ToolOutcome.FAILURE, SpanStatus.ERROR),
    "DECLINED": (ToolOutcome.DECLINED, SpanStatus.SKIPPED),
    "UNKNOWN": (ToolOutcome.UNKNOWN, SpanStatus.INTERRUPTED),
    "SKIPPED": (ToolOutcome.SKIPPED_MAX_ITERATIONS, SpanStatus.SKIPPED),
    "SKIPPED_MAX_ITERATIONS": (ToolOutcome.SKIPPED_MAX_ITERATIONS, SpanStatus.SKIPPED),
}


def import_events(document: Plain) -> tuple[ev.Event, ...]:
    """The events that such a run would have had, in order.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is no such document.
    """
    return AgentEnsembleImporter(document).to_events()


class AgentEnsembleImporter:
    """Makes the events of one document."""

    def __init__(self, document: Plain) -> None:
        self._document = document
        self._run_id = mask_id(str(document.get("ensembleId") or "trace"))
        self._start = parse_instant(document["startedAt"])
        self._end = max(self._start, _parse_moment(document.get("completedAt"), _find_latest(document, self._start)))
        self._events = EventList(self._run_id, self._start)
        self._names: Counter[str] = Counter()

    def to_events(self) -> tuple[ev.Event, ...]:
        """All events."""
        document, run_id = self._document, self._run_id
        run = {"span_id": run_id, "parent_id": None}
        self._events.add(
            ev.RunStarted,
            self._start,
            **run,
            name=None,
            workflow=str(document.get("workflow") or "sequential").lower(),
            inputs={str(key): str(value) for key, value in (document.get("inputs") or {}).items()},
            max_concurrency=None,
            capture_mode=CaptureMode(str(document.get("captureMode") or "off").lower()),
            agents=tuple(
                PlannedAgent(
                    role=agent["role"],
                    goal=agent.get("goal") or "",
                    background=agent.get("background"),
                    tools=tuple(agent.get("toolNames") or ()),
                    allow_delegation=bool(agent.get("allowDelegation")),
                )
                for agent in document.get("agents") or ()
            ),
        )
        tasks = document["taskTraces"]
        for index, task in enumerate(tasks):
            self._emit_task(task, run_id, index=index, total=len(tasks))
        errors = [make_recorded_error(each["errorType"], each["message"]) for each in document.get("errors") or ()]
        status, reason = (RunStatus.FAILED, ExitReason.ERROR) if errors else (RunStatus.COMPLETED, ExitReason.COMPLETED)
        error = errors[0] if errors else None
        self._events.add(ev.RunEnded, self._end, **run, status=status, exit_reason=reason, error=error)
        return self._events.to_events()

    def _emit_task(self, task: Plain, parent_id: str, index: int | None, total: int | None) -> TaskOutput:
        role = task["agentRole"]
        start = _parse_moment(task.get("startedAt"), self._start)
        end = max(start, _parse_moment(task.get("completedAt"), _find_latest(task, start)))
        slug = re.sub(r"\W+", "_", role.strip().lower()).strip("_") or "task"
        self._names[slug] += 1
        span = {"span_id": self._events.make_id(), "parent_id": parent_id, "task": f"{slug}_{self._names[slug]}"}
        description = task.get("taskDescription") or ""
        self._events.add(
            ev.TaskStarted, start, **span, agent=role, description=description, index=index, total=total, queued_s=0.0
        )
        prompts = task.get("prompts") or {}
        self._events.add(
            ev.TaskInputPrepared,
            start,
            **span,
            system_prompt=prompts.get("systemPrompt") or "",
            user_prompt=prompts.get("userPrompt") or description,
            context=(),
        )
        for place, interaction in enumerate(task.get("llmInteractions") or ()):
            self._emit_turn(interaction, role, span, place + 1, (start, end))
        for delegation in task.get("delegations") or ():
            self._emit_delegation(delegation, span, (start, end))
        output = TaskOutput(
            name=span["task"],
            raw=task.get("finalOutput") or "",
            task_description=description,
            agent_role=role,
            completed_at=end,
            duration=end - start,
            tool_call_count=int((task.get("metrics") or {}).get("toolCallCount", 0)),
            parsed_output=task.get("parsedOutput"),
        )
        self._events.add(ev.TaskCompleted, end, **span, output=output)
        return output

    def _emit_turn(
        self, plain: Plain, role: str, task: Plain, iteration: int, bounds: tuple[datetime, datetime]
    ) -> None:
        start, end = _read_times(plain, bounds)
        turn, call, attempt = self._events.make_span(task), self._events.make_span(task), self._events.make_span(task)
        call["parent_id"], attempt["parent_id"] = turn["span_id"], call["span_id"]
        usage = TokenUsage(
            input_tokens=_to_count(plain.get("inputTokens")), output_tokens=_to_count(plain.get("outputTokens"))
        )
        self._events.add(ev.TurnStarted, start, **turn, agent=role, iteration=iteration)
        self._events.add(
            ev.LlmCallStarted,
            start,
            **call,
            agent=role,
            model="unknown",
            provider=None,
            max_attempts=1,
            is_scripted=False,
        )
        self._events.add(ev.LlmAttemptStarted, start, **attempt, attempt=1)
        self._events.add(ev.LlmAttemptEnded, end, **attempt, attempt=1, status=SpanStatus.OK, usage=usage)
        tools = plain.get("toolCalls") or ()
        calls = tuple(
            ToolCall(id=f"{call['span_id']}.{place}", name=tool["toolName"], arguments=tool.get("arguments") or "{}")
            for place, tool in enumerate(tools)
        )
        self._events.add(
            ev.LlmCallCompleted,
            end,
            **call,
            text=plain.get("responseText") or "",
            tool_calls=calls,
            usage=usage,
            model=None,
            finish_reason=None,
            time_to_first_token_s=None,
        )
        ends = [self._emit_tool_call(*each, role, turn, (end, bounds[1])) for each in zip(tools, calls, strict=True)]
        self._events.add(ev.TurnEnded, max([end, *ends]), **turn, status=SpanStatus.OK)

    def _emit_tool_call(
        self, plain: Plain, call: ToolCall, role: str, turn: Plain, bounds: tuple[datetime, datetime]
    ) -> datetime:
        """One tool call; gives its end."""
        start, end = _read_times(plain, bounds)
        span = self._events.make_span(turn)
        outcome, status = _OUTCOMES.get(str(plain.get("outcome")), _OUTCOMES["SUCCESS"])
        tool_facts = {"tool": call.name, "tool_call_id": call.id}
        self._events.add(ev.ToolCallStarted, start, **span, **tool_facts, agent=role, arguments=call.arguments)
        result = plain.get("result") or ""
        ending = {"status": status, "outcome": outcome, "structured_output": plain.get("structuredOutput")}
        self._events.add(ev.ToolCallCompleted, end, **span, **tool_facts, **ending, result=result)
        return end

    def _emit_delegation(self, plain: Plain, task: Plain, bounds: tuple[datetime, datetime]) -> None:
        start, end = _read_times(plain, bounds)
        span = self._events.make_span(task)
        request = DelegationRequest(
            agent_role=plain["workerRole"],
            task_description=plain.get("taskDescription") or "",
            task_id=f"{self._run_id}.{span['span_id']}",
        )
        facts: dict[str, Any] = {"task_id": request.task_id, "worker_role": request.agent_role, "duration": end - start}
        depth = int(plain.get("depth") or 1)
        self._events.add(
            ev.DelegationStarted, start, **span, delegator=plain["delegatorRole"], depth=depth, request=request
        )
        worker, result = plain.get("workerTrace"), plain.get("result")
        output = None if worker is None else self._emit_task(worker, span["span_id"], None, None)
        if plain.get("succeeded", True):
            answer = DelegationResponse(status=DelegationStatus.SUCCESS, raw_output=result, **facts)
            self._events.add(ev.DelegationCompleted, end, **span, request=request, response=answer, output=output)
        else:
            answer = DelegationResponse(status=DelegationStatus.FAILURE, errors=(result or "",), **facts)
            self._events.add(ev.DelegationFailed, end, **span, request=request, response=answer)


def _parse_moment(text: str | None, otherwise: datetime) -> datetime:
    return otherwise if text is None else parse_instant(text)


def _read_times(plain: Plain, bounds: tuple[datetime, datetime]) -> tuple[datetime, datetime]:
    """Start and end, no more than the bounds."""
    start = _clamp(_parse_moment(plain.get("startedAt"), bounds[0]), bounds)
    return start, _clamp(_parse_moment(plain.get("completedAt"), start), (start, bounds[1]))


def _clamp(moment: datetime, bounds: tuple[datetime, datetime]) -> datetime:
    return min(max(moment, bounds[0]), bounds[1])


def _find_latest(plain: Plain, otherwise: datetime) -> datetime:
    """The latest moment that is named anywhere in a part of the document."""
    latest = otherwise
    for key, value in plain.items():
        for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if isinstance(each, Mapping):
                latest = max(latest, _find_latest(each, otherwise))
        if key in ("startedAt", "completedAt") and isinstance(value, str):
            latest = max(latest, parse_instant(value))
    return latest


def _to_count(count: int | None) -> int | None:
    return None if count is None or count < 0 else count
