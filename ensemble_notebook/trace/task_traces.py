"""The typed parts of a trace: phases, tasks, model calls, tool calls, delegations. Views of the spans.

A part of a run that goes on, failed or was stopped has what was there by then; what is unknown is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from ensemble_notebook.domain.definitions.enums import CaptureMode, PhaseStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.outputs.task_output import Metrics
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.errors import SuggestsNames, did_you_mean
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Message, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind


class SpanView(SuggestsNames):
    """What all parts of a trace have: the span that they are a view of, and its times."""

    span: Span

    @property
    def started_at(self) -> datetime | None:
        """When it started, in UTC; None for what never ran."""
        return self.span.start_time

    @property
    def completed_at(self) -> datetime | None:
        """When it ended, in UTC; None before that."""
        return self.span.end_time

    @property
    def duration(self) -> timedelta | None:
        """How long it took on the monotonic clock; None before the end."""
        return self.span.duration

    def __repr__(self) -> str:
        """What it is of, how that ended, and how long it took: all of it would fill pages."""
        return f"<{type(self).__name__} {self.span.describe()}>"


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolCallTrace(SpanView):
    """One tool call that a model asked for.

    Attributes:
        span: status, times, error.
        parsed_input: the arguments as a dict, in mode FULL and where they are one; else None.
        delegation: what the call was for, where an agent asked another one by it.
    """

    span: Span
    parsed_input: Mapping[str, Any] | None = None
    delegation: DelegationTrace | None = None

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self.span.tool or ""

    @property
    def arguments(self) -> str:
        """The arguments as JSON text, with secrets masked."""
        return self.span.input or ""

    @property
    def result(self) -> str | None:
        """The text that the model got, with secrets masked; None before the end."""
        return self.span.output

    @property
    def structured_output(self) -> Any:
        """The value that the tool gave beside its text, by `ToolResult`; None where there is none."""
        return self.span.structured_output

    @property
    def outcome(self) -> ToolOutcome | None:
        """How it ended; None while it runs, and where it was cancelled."""
        return None if self.span.outcome is None else ToolOutcome(self.span.outcome)


@dataclass(frozen=True, kw_only=True, repr=False)
class LlmInteraction(SpanView):
    """One reply that was asked for, and the tool calls that it asked for.

    Attributes:
        span: of the model call: status, times, model, error.
        attempts: the physical requests behind it, with their usage and cost.
        tool_calls: in order.
        messages: in mode OFF what this interaction added: prompts, the reply, tool results; else the whole history
            that was sent, the reply and the results.
    """

    span: Span
    attempts: tuple[Span, ...]
    tool_calls: tuple[ToolCallTrace, ...]
    messages: tuple[Message, ...]

    @property
    def iteration(self) -> int:
        """The number of the turn in the agent's loop, from 1."""
        return self.span.iteration or 1

    @property
    def latency(self) -> timedelta | None:
        """How long the last attempt took; None before that is over."""
        return None if self.span.latency_ms is None else timedelta(milliseconds=self.span.latency_ms)

    @property
    def input_tokens(self) -> int | None:
        """The sum over all attempts; None where no part of it is known."""
        return None if self.span.totals is None else self.span.totals.input_tokens

    @property
    def output_tokens(self) -> int | None:
        """The sum over all attempts; None where no part of it is known."""
        return None if self.span.totals is None else self.span.totals.output_tokens

    @property
    def response_type(self) -> Literal["TOOL_CALLS", "FINAL_ANSWER"] | None:
        """What the reply was: a request for tools, or the answer; None where there was none."""
        if self.span.tool_request_count is None:
            return None
        return "TOOL_CALLS" if self.span.tool_request_count else "FINAL_ANSWER"

    @property
    def text(self) -> str | None:
        """The text of the reply, with secrets masked; None where there was none."""
        return self.span.output


@dataclass(frozen=True, kw_only=True, repr=False)
class DelegationTrace(SpanView):
    """One delegation, refused ones included.

    Attributes:
        span: status, times, error; its `delegation_id` is that of request and response.
        worker_trace: the worker's work; None where it was refused, or had not begun.
    """

    span: Span
    worker_trace: TaskTrace | None

    @property
    def delegation_id(self) -> str:
        """The id that request and response share."""
        return self.span.delegation_id or ""

    @property
    def delegator(self) -> str:
        """The role of who asked."""
        return str((self.span.attributes or {}).get("delegator", ""))

    @property
    def worker(self) -> str:
        """The role of who was asked."""
        return self.span.delegate_to or ""

    @property
    def depth(self) -> int:
        """1 for what the agent of a task asks for, 2 for what its worker does, ..."""
        return int((self.span.attributes or {}).get("depth", 1))

    @property
    def task_description(self) -> str:
        """What was asked, as the worker got it."""
        return self.span.input or ""

    @property
    def result(self) -> str | None:
        """The worker's answer; the reason of a refusal or failure where there is none."""
        return self.span.output if self.span.output is not None else self.span.error_message

    @property
    def succeeded(self) -> bool:
        """True where the worker answered."""
        return self.span.status is SpanStatus.OK


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskTrace(SpanView):
    """The part of a trace that belongs to one task, in the plan or delegated.

    Attributes:
        name: of the task.
        span: its own span: status, times, agent, output, error.
        spans: its own and all beneath, in order of first appearance; without the work of workers.
        messages: prompts, replies and tool results, in order.
        metrics: sums over its leaves, those of workers included.
        workers: the work that it delegated, in order of start.
        capture_mode: of the run.
    """

    name: str
    span: Span
    spans: tuple[Span, ...]
    messages: tuple[Message, ...]
    metrics: Metrics
    workers: tuple[TaskTrace, ...] = ()
    capture_mode: CaptureMode = CaptureMode.OFF

    @property
    def duration(self) -> timedelta | None:
        """Its own time, in all its attempts; None before the end, and for what never ran."""
        return None if self.span.own_ms is None else timedelta(milliseconds=self.span.own_ms)

    @property
    def agent(self) -> str:
        """The role of the agent that it was given to; ``"Handler"`` for a handler."""
        return self.span.agent or ""

    @property
    def description(self) -> str:
        """The description with its inputs filled in, and secrets masked."""
        return self.span.description or ""

    @property
    def output(self) -> str | None:
        """The final text, secrets masked; None where there is none."""
        return self.span.output

    @property
    def system_prompt(self) -> str:
        """The latest system prompt; empty for a handler."""
        return self._find_prompt("system")

    @property
    def user_prompt(self) -> str:
        """The latest user prompt; empty before it was made."""
        return self._find_prompt("user")

    @property
    def attempt(self) -> int:
        """How often it was done: more than once where it was sent back."""
        return self.span.attempt or 1

    @cached_property
    def turns(self) -> tuple[LlmInteraction, ...]:
        """The model calls of the task, in order of start."""
        calls = [span for span in self.spans if span.kind is SpanKind.LLM]
        attempts: dict[str | None, list[Span]] = {}
        tools: dict[str, list[Span]] = {call.span_id: [] for call in calls}
        latest: dict[str | None, str] = {}
        for span in self.spans:
            if span.kind is SpanKind.ATTEMPT:
                attempts.setdefault(span.parent_id, []).append(span)
            elif span.kind is SpanKind.LLM:
                latest[span.parent_id] = span.span_id
            elif span.kind is SpanKind.TOOL and span.parent_id in latest:
                tools[latest[span.parent_id]].append(span)
        shown = self._select_messages(calls)
        return tuple(
            LlmInteraction(
                span=call,
                attempts=tuple(attempts.get(call.span_id, ())),
                tool_calls=tuple(map(self._make_tool_call, tools[call.span_id])),
                messages=messages,
            )
            for call, messages in zip(calls, shown, strict=True)
        )

    @cached_property
    def delegations(self) -> tuple[DelegationTrace, ...]:
        """What its agents asked others for, in order."""
        by_parent = {worker.span.parent_id: worker for worker in self.workers}
        return tuple(
            DelegationTrace(span=span, worker_trace=by_parent.get(span.span_id))
            for span in self.spans
            if span.kind is SpanKind.DELEGATION
        )

    def _make_tool_call(self, span: Span) -> ToolCallTrace:
        delegation = next((each for each in self.delegations if each.span.parent_id == span.span_id), None)
        parsed = None
        if self.capture_mode is CaptureMode.FULL:
            with suppress(ValueError):  # a model may write anything
                parsed = read_json(span.input or "")
        return ToolCallTrace(
            span=span, parsed_input=parsed if isinstance(parsed, dict) else None, delegation=delegation
        )

    def _select_messages(self, calls: Sequence[Span]) -> Iterator[tuple[Message, ...]]:
        """The messages of each call: those that came until the next one was prepared, and by mode those before."""
        since = 0
        for call, after in zip(calls, [*calls[1:], None], strict=False):
            earlier = [each for each in self.messages if after is None or each.seq < after.seq]
            while earlier and earlier[-1].seq > call.seq and (earlier[-1].is_prompt or earlier[-1].is_earlier):
                earlier.pop()
            if self.capture_mode is not CaptureMode.OFF:
                # The first of the prompts with which the last conversation begins.
                since = max(
                    (
                        place
                        for place, each in enumerate(earlier)
                        if each.role in ("system", "user") and (place == 0 or earlier[place - 1].seq != each.seq)
                    ),
                    default=0,
                )
            yield tuple(earlier[since:])
            since = len(earlier)

    def _find_prompt(self, role: str) -> str:
        prompts = [each.text for each in self.messages if each.role == role and each.span is self.span]
        return prompts[-1] if prompts else ""


@dataclass(frozen=True, kw_only=True, repr=False)
class PhaseTrace(SpanView):
    """The part of a trace that belongs to one phase.

    Attributes:
        name: of the phase.
        span: status, times, error, reason of a skip.
        status: how it ended; None before the end.
        tasks: in order of declaration.
        metrics: sums over its leaves.
    """

    name: str
    span: Span
    tasks: tuple[TaskTrace, ...]
    metrics: Metrics

    @property
    def status(self) -> PhaseStatus | None:
        """How it ended; None before the end."""
        return self.span.phase_status

    @property
    def attempt(self) -> int:
        """How often it was done: more than once where a review sent it back."""
        return self.span.attempt or 1


# --- The tasks and phases of one run as typed parts, put together from its fold ---------------------------------------
#
# Knows what a trace is made of; files and frames know this, and not the other way round.


class RunParts:
    """The parts of one run, made from its fold.

    Attributes:
        tasks: those of the plan, in order of declaration, those that never ran included; then reviewers of phases,
            and items of tasks that run for each of a list.
        phases: in order of declaration, those that never ran included; empty for a flat run.
    """

    def __init__(self, fold: TraceFold) -> None:
        beneath: dict[str, list[Span]] = {}
        for span in fold.spans.values():
            if span.task_id is not None:
                beneath.setdefault(span.task_id, []).append(span)
        # Delegated work is made before what delegated it.
        made: dict[str, TaskTrace] = {}
        workers: dict[str | None, list[TaskTrace]] = {}
        spans = [span for span in fold.spans.values() if span.kind is SpanKind.TASK]
        for span in sorted(spans, key=lambda each: each.depth, reverse=True):
            made[span.span_id] = task = TaskTrace(
                name=span.name,
                span=span,
                spans=tuple(beneath[span.span_id]),
                messages=tuple(fold.messages.get(span.span_id, ())),
                metrics=fold.sum_metrics(span),
                workers=tuple(sorted(workers.get(span.span_id, ()), key=lambda each: each.span.seq)),
                capture_mode=fold.capture_mode,
            )
            if span.parent is not None:
                workers.setdefault(span.parent.task_id, []).append(task)
        self._by_id = {span.span_id: made[span.span_id] for span in spans}
        self.tasks: tuple[TaskTrace, ...] = tuple(task for task in self._by_id.values() if task.span.is_own_task)
        phases = (span for span in fold.spans.values() if span.kind is SpanKind.PHASE and span.nested_in is None)
        self.phases: tuple[PhaseTrace, ...] = tuple(
            PhaseTrace(
                name=span.name,
                span=span,
                tasks=tuple(task for task in self.tasks if task.span.parent is span),
                metrics=fold.sum_metrics(span),
            )
            for span in phases
        )

    def find_task(self, name: str) -> TaskTrace:
        """The task of this name: one of the plan before delegated work, the latest where there are several.

        Raises:
            KeyError: no task has this name; suggests the nearest.
        """
        for tasks in (self.tasks, tuple(self._by_id.values())):
            if found := [task for task in tasks if task.name == name]:
                return found[-1]
        raise KeyError(f"No task {name!r} in this trace.{did_you_mean(name, [each.name for each in tasks])}")
