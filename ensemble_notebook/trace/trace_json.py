"""The JSON form of a trace (T11): that of AgentEnsemble's ``ExecutionTrace``, version 1.1, with fields of our own.

What others read is in ``agents``, ``taskTraces`` and ``metrics``; ``phases`` and ``spans`` tell the rest. ``events`` is
the stream itself, from which `trace_file` makes the same trace again. Unknown numbers of tokens are -1 in the fields
that others read, and there only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.task_output import Metrics
from ensemble_notebook.domain.value_text import format_instant, write_duration
from ensemble_notebook.trace.codec.event_codec import event_to_plain, to_camel, to_plain
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.frame_tables import SPANS
from ensemble_notebook.trace.task_traces import (
    DelegationTrace,
    LlmInteraction,
    PhaseTrace,
    RunParts,
    SpanView,
    TaskTrace,
    ToolCallTrace,
)

SCHEMA_VERSION: Final = "1.1"

_UNKNOWN: Final = -1
_RUN_SUMS: Final = {
    **{name: name for name in ("totalTokens", "memoryOperations")},
    "toolCallCount": "totalToolCalls",
    "delegationCount": "totalDelegations",
}
"""What the sums of a task are called of the whole run, where that is not their name behind ``total``."""


def to_document(
    fold: TraceFold,
    events: Sequence[ev.Event],
    parts: RunParts,
    cost: CostConfiguration | None,
    scores: Sequence[ScoreRecord] = (),
) -> dict[str, Any]:
    """The whole document of a run: its events, their fold, the parts made from that, its rates and its scores."""
    parsed = {
        each.span_id: to_plain(each.output.parsed_output) for each in events if isinstance(each, ev.TaskCompleted)
    }
    started = [task for task in parts.tasks if task.started_at is not None]
    expected = {} if fold.plan is None else {each.name: each.expected_output for each in fold.plan.tasks}
    run, metrics, spans = fold.run, fold.metrics, list(fold.spans.values())
    return {
        "schemaVersion": SCHEMA_VERSION,
        "captureMode": fold.capture_mode.name,
        "ensembleId": clean_text(fold.run_id),
        "name": None if fold.name is None else clean_text(fold.name),
        "workflow": (fold.workflow or "").upper(),
        "status": fold.status.name,
        "exitReason": None if fold.exit_reason is None else fold.exit_reason.name,
        "startedAt": None if run is None else _encode_instant(run.start_time),
        "completedAt": None if run is None else _encode_instant(run.end_time),
        "totalDuration": None if run is None else _encode_duration(run.duration),
        "inputs": dict(fold.inputs),
        "agents": [
            {
                "role": clean_text(agent.role),
                "goal": clean_text(agent.goal),
                "background": to_plain(agent.background),
                "toolNames": list(agent.tools),
                "allowDelegation": agent.allow_delegation,
            }
            for agent in fold.agents
        ],
        "taskTraces": [_task_to_dict(task, parsed, expected.get(task.name, "")) for task in started],
        "phases": [_phase_to_dict(phase, parsed, expected) for phase in parts.phases],
        "metrics": {
            **{
                _RUN_SUMS.get(name) or f"total{name[0].upper()}{name[1:]}": each
                for name, each in _metrics_to_dict(metrics, spans).items()
            },
            "taskMetrics": {task.name: _task_metrics_to_dict(task) for task in started},
        },
        "totalCostEstimate": _cost_to_dict(metrics, spans),
        "errors": [
            {
                "agentRole": task.agent,
                "taskDescription": task.description,
                "errorType": task.span.error_type,
                "message": task.span.error_message or "",
                "stackTrace": "",
                "occurredAt": _encode_instant(task.completed_at),
            }
            for task in started
            if task.span.status is SpanStatus.ERROR
        ],
        "warnings": list(fold.warnings),
        "mapReduceLevels": [],
        "metadata": {},
        "costConfiguration": None if cost is None else to_plain(cost),
        "spans": [
            # The columns of the frame, what is unknown left out.
            {
                to_camel(each.name): value
                for each in SPANS.all_columns
                if (value := to_plain(each.read(span))) is not None
            }
            for span in spans
        ],
        "events": [event_to_plain(event) for event in _join_tokens(events)],
        **({"scores": [to_plain(each) for each in scores]} if scores else {}),
    }


def _task_to_dict(task: TaskTrace, parsed: Mapping[str, Any], expected: str = "") -> dict[str, Any]:
    """One task; what was expected of it is known of those in the plan."""
    prompts = {"systemPrompt": task.system_prompt, "userPrompt": task.user_prompt}
    return {
        "name": task.name,
        "status": task.span.status.name,
        "agentRole": task.agent,
        "taskDescription": task.description,
        "expectedOutput": clean_text(expected),
        **_times_to_dict(task),
        "prompts": prompts if any(prompts.values()) else None,
        "llmInteractions": [_interaction_to_dict(each, place) for place, each in enumerate(task.turns)],
        "delegations": [_delegation_to_dict(each, parsed) for each in task.delegations],
        "finalOutput": task.output or "",
        "parsedOutput": parsed.get(task.span.span_id),
        "metrics": _task_metrics_to_dict(task),
        "metadata": {"spanId": task.span.span_id, "attempt": task.attempt, **(task.span.attributes or {})},
    }


def _times_to_dict(part: SpanView) -> dict[str, Any]:
    return {
        "startedAt": _encode_instant(part.started_at),
        "completedAt": _encode_instant(part.completed_at),
        "duration": _encode_duration(part.duration),
    }


def _interaction_to_dict(interaction: LlmInteraction, place: int) -> dict[str, Any]:
    return {
        "iterationIndex": place,
        "startedAt": _encode_instant(interaction.started_at),
        "completedAt": _encode_instant(interaction.completed_at),
        "latency": _encode_duration(interaction.latency),
        "inputTokens": _encode_tokens(interaction.input_tokens),
        "outputTokens": _encode_tokens(interaction.output_tokens),
        "responseType": interaction.response_type,
        "responseText": interaction.text,
        "toolCalls": [_tool_call_to_dict(each) for each in interaction.tool_calls],
        "messages": [
            {
                "role": each.role,
                "content": each.text,
                **({"reasoning": each.reasoning} if each.reasoning else {}),
                "toolCalls": [{"name": call.name, "arguments": call.arguments} for call in each.tool_calls],
                "toolName": each.name,
            }
            for each in interaction.messages
        ],
        "status": interaction.span.status.name,
        "model": interaction.span.model or interaction.span.model_requested,
        "isFallback": interaction.span.is_fallback,
        "spanId": interaction.span.span_id,
    }


def _tool_call_to_dict(call: ToolCallTrace) -> dict[str, Any]:
    return {
        "toolName": call.tool,
        "arguments": call.arguments,
        "result": call.result,
        "structuredOutput": to_plain(call.structured_output),
        **_times_to_dict(call),
        "outcome": None if call.outcome is None else call.outcome.name,
        "parsedInput": None if call.parsed_input is None else dict(call.parsed_input),
        "metadata": {"spanId": call.span.span_id, "toolCallId": call.span.tool_call_id},
    }


def _delegation_to_dict(delegation: DelegationTrace, parsed: Mapping[str, Any]) -> dict[str, Any]:
    worker = delegation.worker_trace
    return {
        "delegationId": delegation.delegation_id,
        "delegatorRole": delegation.delegator,
        "workerRole": delegation.worker,
        "taskDescription": delegation.task_description,
        **_times_to_dict(delegation),
        "depth": delegation.depth,
        "result": delegation.result,
        "succeeded": delegation.succeeded,
        "workerTrace": None if worker is None else _task_to_dict(worker, parsed),
    }


def _phase_to_dict(phase: PhaseTrace, parsed: Mapping[str, Any], expected: Mapping[str, str]) -> dict[str, Any]:
    started = [task for task in phase.tasks if task.started_at is not None]
    return {
        "name": phase.name,
        "after": list(phase.span.depends_on),
        "status": None if phase.status is None else phase.status.name,
        **_times_to_dict(phase),
        "attempt": phase.attempt,
        "reason": phase.span.reason,
        "tasks": [task.name for task in phase.tasks],
        "taskTraces": [_task_to_dict(task, parsed, expected.get(task.name, "")) for task in started],
    }


def _metrics_to_dict(metrics: Metrics, spans: Iterable[Span]) -> dict[str, Any]:
    return {
        "inputTokens": _encode_tokens(metrics.input_tokens),
        "outputTokens": _encode_tokens(metrics.output_tokens),
        "totalTokens": _encode_tokens(metrics.total_tokens),
        "llmLatency": _encode_duration(metrics.llm_latency),
        "toolExecutionTime": _encode_duration(metrics.tool_time),
        "memoryRetrievalTime": _encode_duration(metrics.memory_time),
        "promptBuildTime": _encode_duration(metrics.prompt_build_time),
        "llmCallCount": metrics.llm_call_count,
        "toolCallCount": metrics.tool_call_count,
        "delegationCount": metrics.delegation_count,
        "memoryOperations": _memory_to_dict(spans),
        "costEstimate": _cost_to_dict(metrics, spans),
    }


def _task_metrics_to_dict(task: TaskTrace) -> dict[str, Any]:
    return _metrics_to_dict(task.metrics, [span for each in (task, *_iterate_workers(task)) for span in each.spans])


def _iterate_workers(task: TaskTrace) -> Iterator[TaskTrace]:
    for worker in task.workers:
        yield worker
        yield from _iterate_workers(worker)


def _encode_tokens(count: int | None) -> int:
    """A count, or the known part of a sum; -1 where some request was made and nothing is known."""
    return _UNKNOWN if count is None else count


def _memory_to_dict(spans: Iterable[Span]) -> dict[str, int]:
    """By what AgentEnsemble tells apart: what ends with the process, what lasts, and facts by name.

    It counts no reading of what ends with the process; that is among the retrievals, so that none is lost.
    """
    counts = Counter[str]()
    for span in spans:
        if span.kind is SpanKind.MEMORY:
            facts = span.attributes or {}
            is_store, kind = facts.get("operation") == "store", facts.get("store_kind")
            name = ("stmWrites" if kind == "short_term" else "ltmStores") if is_store else "ltmRetrievals"
            counts["entityLookups" if kind == "entity" and not is_store else name] += 1
    return {name: counts[name] for name in ("stmWrites", "ltmStores", "ltmRetrievals", "entityLookups")}


def _cost_to_dict(metrics: Metrics, spans: Iterable[Span]) -> dict[str, str] | None:
    """Exact decimals as text; None where a price is missing, since a part of the cost is no estimate of it."""
    if metrics.cost is None or not metrics.cost_complete:
        return None
    leaves = [span for span in spans if span.usage_leaf]
    return {
        "inputCost": f"{sum((span.cost_input or Decimal(0) for span in leaves), Decimal(0)):f}",
        "outputCost": f"{sum((span.cost_output or Decimal(0) for span in leaves), Decimal(0)):f}",
        "totalCost": f"{metrics.cost:f}",
        "currency": metrics.currency,
    }


def _encode_instant(moment: datetime | None) -> str | None:
    return None if moment is None else format_instant(moment)


def _encode_duration(duration: timedelta | None) -> str | None:
    return None if duration is None else write_duration(duration)


def _join_tokens(events: Sequence[ev.Event]) -> Iterator[ev.Event]:
    """The events, the pieces of each attempt's streamed text as one, in the place of the first.

    A key that comes in pieces can only be masked in the whole.
    """
    texts: dict[tuple[str, int], list[str]] = {}
    attempts: dict[str, int] = {}
    keys = {}
    for event in events:
        if isinstance(event, ev.LlmAttemptStarted) and event.parent_id is not None:
            attempts[event.parent_id] = event.attempt
        elif isinstance(event, ev.LlmToken):
            key = keys[event.seq] = (event.span_id, attempts.get(event.span_id, 0))
            texts.setdefault(key, []).append(event.text)
    for event in events:
        if not isinstance(event, ev.LlmToken):
            yield event
        elif (pieces := texts.pop(keys[event.seq], None)) is not None:
            yield replace(event, text="".join(pieces))
