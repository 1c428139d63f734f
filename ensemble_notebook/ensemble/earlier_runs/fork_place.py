"""Where a fork is: a model call, tool call or task of the run itself, or of one that it forks and has kept that of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.delegation import DELEGATE, DELEGATE_TASK
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.ensemble.earlier_runs.dependence import find_path, list_around
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkChange
from ensemble_notebook.ensemble.earlier_runs.fork_origin import Origin
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

if TYPE_CHECKING:
    from ensemble_notebook.models.recording.documents import ExchangeReader


def find_place(origin: Origin, given: Any, change: ForkChange) -> tuple[Origin, Span]:
    """The span of a fork, and the run that has done it: that of a kept task is in a run that this one forks.

    A task may be given by its name, where it is the only one that is called so.

    Raises:
        ValidationError: there is no such span, or it can't be forked there.
    """
    span_id = given if isinstance(given, str) else getattr(given, "span_id", "")
    spans = origin.trace._fold.spans
    if span_id not in spans:
        tasks = [each for each in spans.values() if each.is_own_task and each.name == span_id]
        span_id, given = (tasks[0].span_id, tasks[0]) if len(tasks) == 1 else (span_id, given)
    found = spans.get(span_id)
    is_inside = change.is_of_call or change.answer is not None
    if found is not None and not (found.kind is SpanKind.TASK and found.reused and is_inside):
        return origin, _find_span(origin, given, change)
    path = None if found is None else find_path(found)
    around = origin
    while (before := around.go_back()) is not None:
        around = before
        spans = around.trace._fold.spans
        span = spans.get(span_id) if path is None else next((s for s in spans.values() if find_path(s) == path), None)
        if span is None or (path is not None and span.reused):
            continue
        span = _find_span(around, span, change)
        if (kept := _find_kept(origin, around, span)) is not None:
            return origin, kept
        task = next((each for each in list_around(span) if each.is_own_task), None)
        now = None if task is None else find_own_task(origin, find_path(task) or "")
        if now is not None and now.reused:
            return around, span
        raise ValidationError(
            f"Span {span_id} of run {around.run_id} was done anew in its fork {origin.run_id}: name the span there."
        )
    if found is not None:
        raise ValidationError(
            f"Task {found.name!r} of run {origin.run_id} was reused ({found.reuse_reason}): its calls are in that run. "
            f"Fork that one, or this one with output=."
        )
    return origin, _find_span(origin, given, change)


def find_own_task(origin: Origin, path: str) -> Span:
    """The task of a run at a path.

    Raises:
        ValidationError: there is none.
    """
    spans = origin.trace._fold.spans.values()
    if (found := next((each for each in spans if find_path(each) == path), None)) is None:
        raise ValidationError(f"Run {origin.run_id} has no task {path!r} any more.")
    return found


def _find_kept(origin: Origin, forked: Origin, span: Span) -> Span | None:
    """The span by which a fork has kept one of the run that it forks; None where it has none of its own."""
    spans = origin.trace._fold.spans
    if span.kind is SpanKind.TASK:
        path = find_path(span)
        return next((each for each in spans.values() if path is not None and find_path(each) == path), None)
    number = read_documents(make(False) for make in forked.documents).spans.get(find_call_of(forked, span).span_id)
    kept = read_documents(make(False) for make in origin.documents).spans
    call = next((spans[each] for each, of in kept.items() if of == number and each in spans), None)
    if call is None or not call.reused or span.kind is SpanKind.LLM:
        return call if call is not None and call.reused else None
    beside = (each for each in spans.values() if each.kind is SpanKind.TOOL and each.parent is call.parent)
    return next((each for each in beside if each.tool_call_id == span.tool_call_id), None)


def _find_span(origin: Origin, given: Any, change: ForkChange) -> Span:
    """The span of the model call, tool call or task that a fork is at.

    Raises:
        ValidationError: there is none, or it can't be forked there.
    """
    span_id = given if isinstance(given, str) else getattr(given, "span_id", None)
    span = None if span_id is None else origin.trace._fold.spans.get(span_id)
    if span is None:
        told = span_id or repr(given)
        owner = str(told).partition(".")[0]
        whose = f" It is one of run {owner}: fork that." if owner not in (told, origin.run_id) else ""
        raise ValidationError(
            f"Run {origin.run_id} has no span {told}.{whose} output.frames.spans lists them: model calls, tool calls, "
            f"tasks."
        )
    wanted = (SpanKind.TOOL,) if change.answer is not None else ()
    wanted = (SpanKind.TASK,) if change.has_output else wanted
    wanted = (SpanKind.LLM,) if change.is_of_call else wanted
    if span.kind is SpanKind.ATTEMPT and SpanKind.LLM in (wanted or (SpanKind.LLM,)):
        span = span.parent or span
    if SpanKind.LLM in wanted and span.kind in (SpanKind.TURN, SpanKind.TASK):
        inside = (each for each in origin.trace._fold.spans.values() if each.kind is SpanKind.LLM)
        span = next((each for each in inside if span in list_around(each)), span)
    if span.kind not in (wanted or (SpanKind.LLM, SpanKind.TOOL, SpanKind.TASK)):
        kinds = " or ".join(kind.traits.title.lower() for kind in wanted) or "model call, tool call or task"
        raise ValidationError(
            f"Span {span.span_id} of run {origin.run_id} is a {span.kind.traits.title.lower()}: {change.describe()} is "
            f"for a {kinds}."
        )
    if span.kind is SpanKind.TOOL and span.tool in (DELEGATE, DELEGATE_TASK):
        inside = (each for each in origin.trace._fold.spans.values() if each.kind is SpanKind.LLM)
        last = next((each for each in reversed([*inside]) if span in list_around(each)), None)
        instead = "" if last is None else f" Fork at its last model call, {last.span_id}, instead."
        raise ValidationError(f"Span {span.span_id} is a delegation, which a worker has done, and no tool.{instead}")
    if span.status is SpanStatus.SKIPPED and span.start_ms is None:
        why = f" ({span.reason})" if span.reason else ""
        raise ValidationError(
            f"Task {span.name!r} of run {origin.run_id} was skipped{why}, so there is nothing to do again or to "
            f"change. Fork at a task before it, or resume the run if it was stopped."
        )
    if span.end_seq is None:
        raise ValidationError(f"Span {span.span_id} is still running, and has nothing yet that could be changed.")
    return span


def find_call_of(origin: Origin, span: Span) -> Span:
    """The model call whose reply asked for a tool call; a model call itself."""
    spans = origin.trace._fold.spans.values()
    calls = (each for each in spans if each.kind is SpanKind.LLM and each.parent is span.parent)
    return next(calls, span) if span.kind is SpanKind.TOOL else span


def find_number(origin: Origin, call: Span, reader: ExchangeReader) -> int | None:
    """The number of the exchange of a model call; None where it was never sent.

    Raises:
        ValidationError: it was sent, and that is not kept.
    """
    exchange = reader.spans.get(call.span_id)
    if exchange is None and (call.reused or call.is_call):
        raise ValidationError(
            f"What was said in span {call.span_id} of run {origin.run_id} is not kept with its place: the run was made "
            f"by an earlier version, or its store was cleared. Run it again, and fork that run."
        )
    return exchange


def read_documents(documents: Iterable[Mapping[str, Any]]) -> ExchangeReader:
    """Read what was said in a run; what is not whole is passed over."""
    from ensemble_notebook.models.recording.documents import BROKEN_DOCUMENT, ExchangeReader

    reader = ExchangeReader()
    for document in documents:
        try:
            reader.add(document)
        except BROKEN_DOCUMENT:
            continue
    return reader
