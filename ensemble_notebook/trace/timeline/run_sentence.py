"""What happened in a run, in one sentence (W20): the same in the timeline, in the static picture and in a terminal.

Says how much was done and how long it took; where it was done side by side, how much work that was; and what the run's
length hung on, as far as one thing stands out. A run that did not end well has a sentence of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus, SpanStatus, Workflow
from ensemble_notebook.domain.planning.map_design import SETTLED
from ensemble_notebook.domain.wording import format_duration, format_percent, pluralize
from ensemble_notebook.trace.folding.milestones import is_startup
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.timeline_wording import STATUSES

if TYPE_CHECKING:
    from ensemble_notebook.trace.folding.trace_fold import TraceFold
    from ensemble_notebook.trace.spans.span import ActiveInterval, Span

LEAST_SHARE: Final = 0.15
"""What took less of the time than this does not stand out."""

SIDE_BY_SIDE: Final = 1.05
"""Tasks that took together this much longer than the run were done side by side."""

_STARTUP: Final = "startup of a model"
"""What took time where a model had to be loaded, fetched or started first."""
_SERVER_STARTUP: Final = "startup of an MCP server"

_BEGINNINGS: Final = {
    RunStatus.FAILED: "Failed after",
    RunStatus.INTERRUPTED: "Stopped after",
    RunStatus.BUDGET_EXCEEDED: "Budget used up after",
    RunStatus.EXITED_EARLY: "Ended by a review after",
}
_BEGINNINGS_BY_REASON: Final[dict[ExitReason | None, str]] = {
    ExitReason.TIMEOUT: "Out of time after",
    ExitReason.NOBODY_TO_ASK: "Nobody could be asked, and the run ended early after",
}
_PLACES: Final = {
    RunStatus.FAILED: (SpanStatus.ERROR,),
    RunStatus.INTERRUPTED: (SpanStatus.CANCELLED, SpanStatus.INTERRUPTED),
}
_TIMED: Final = (SpanKind.LLM, SpanKind.TOOL, SpanKind.REVIEW)
_LEFT: Final = (SpanStatus.ERROR, SpanStatus.CANCELLED, SpanStatus.INTERRUPTED, SpanStatus.SKIPPED)


def describe_run(fold: TraceFold) -> str | None:
    """What happened, as a sentence without a full stop; None before the end.

    Names of tasks and tools, classes of errors, counts and times: no text of a prompt, a reply or an error is in it.
    """
    if fold.run is None or fold.run.end_ms is None:
        return None
    tasks = [span for span in fold.spans.values() if span.kind is SpanKind.TASK and span.is_planned]
    if not tasks:
        return "There was nothing to do"
    elapsed_ms = fold.run.end_ms  # as views show it beside the sentence: from the moment at which their axis begins
    manager = find_manager(fold)
    beginning = _BEGINNINGS_BY_REASON.get(fold.exit_reason) or _BEGINNINGS.get(fold.status)
    if beginning is not None:
        if fold.shortfall:
            beginning = "Stopped by its budget after"
        said = f"{beginning} {format_duration(elapsed_ms)}{_find_place(fold, tasks)}"
        said += f" ({clean_text(fold.shortfall)})" if fold.shortfall else ""
        if manager is None:
            done = _count_done(fold, tasks, "done")
        else:  # of the tasks as they are written nobody knows which came to an answer
            delegated = [each.status is SpanStatus.OK for each in manager.handed_on]
            done = f"{sum(delegated):,} of {pluralize(len(delegated), 'delegation')} done"
        return f"{said}; {done}{_describe_savings(fold, tasks)}"
    how = f"in {format_duration(elapsed_ms)}"
    if manager is None:
        done = _count_done(fold, tasks, how)
    else:
        workers = {each.name for each in manager.handed_on if each.worker is not None}
        done = f"{pluralize(len(manager.managed), 'task')} {how}"
        done += f" by {pluralize(len(workers), 'worker')}" if workers else ""
    time = _describe_time(fold, tasks, elapsed_ms)
    return f"{done}{time}{_describe_manager(fold, tasks)}{_describe_savings(fold, tasks)}"


def find_manager(fold: TraceFold) -> Span | None:
    """The span of the manager, where the trace tells which tasks it saw to."""
    if fold.workflow != Workflow.HIERARCHICAL:
        return None
    return next((span for span in fold.spans.values() if span.is_own_task and span.managed), None)


def _describe_manager(fold: TraceFold, tasks: list[Span]) -> str:
    """That a manager has done everything by itself, who has workers to do it."""
    if fold.workflow != Workflow.HIERARCHICAL or any(task.reused or task.status is not SpanStatus.OK for task in tasks):
        return ""
    is_delegated = any(span.kind is SpanKind.DELEGATION and span.nested_in is None for span in fold.spans.values())
    return "" if is_delegated else "; the manager asked no worker"


def _describe_savings(fold: TraceFold, tasks: list[Span]) -> str:
    """What was not done again."""
    kept = sum(each.reused for each in fold.taken_over.values())
    taken_over = f"; {pluralize(kept, fold.task_noun)} taken over" if kept else ""
    if not fold.savings.task_count:
        return taken_over
    if fold.task_noun.is_run:  # the tasks in the plans of the runs of rows: no items, and nothing that reviews
        inside = [span for span in fold.spans.values() if span.row is not None and span.parent is not None]
        tasks = [span for span in inside if span.parent and span.parent.kind in (SpanKind.NESTED, SpanKind.PHASE)]
    items = sum(span.item_of is not None and span.is_listed_task for span in fold.spans.values())
    return f"{taken_over}; {fold.savings.describe(items + sum(task.item_count is None for task in tasks))}"


def _count_done(fold: TraceFold, tasks: list[Span], how: str) -> str:
    """How many of the tasks completed, and what became of the others."""
    counts = fold.tree.task_counts
    done, noun = counts[SpanStatus.OK], fold.task_noun
    said = pluralize(done, noun) if done == len(tasks) else f"{done:,} of {pluralize(len(tasks), noun)}"
    settled = fold.tree.settled_count
    left = {STATUSES[status]: counts[status] for status in _LEFT} | {SETTLED: settled}
    left[STATUSES[SpanStatus.SKIPPED]] -= settled
    parts = [f"{said} {how}", *(f"{count:,} {word}" for word, count in left.items() if count)]
    listed = [task for task in tasks if task.item_count is not None]
    if failed := sum(task.items_failed for task in listed):
        parts.append(f"{failed:,} of {pluralize(sum(task.item_count or 0 for task in listed), 'item')} failed")
    return ", ".join(parts)


def _find_place(fold: TraceFold, tasks: Iterable[Span]) -> str:
    """Where the run broke off, if that is one task: the first that failed, or the only one that was at work."""
    statuses = _PLACES.get(fold.status, ())
    found = sorted(
        (task for task in tasks if task.status in statuses and task.start_ms is not None),
        key=lambda task: task.end_ms or 0.0,
    )
    if fold.status is RunStatus.INTERRUPTED:
        return f" in {found[0].name}" if len(found) == 1 else ""
    error = found[0].error_type if found else None
    return f" in {found[0].name}" + (f" ({error})" if error else "") if found else ""


def _describe_time(fold: TraceFold, tasks: list[Span], elapsed_ms: float) -> str:
    """How much work that was, where more was done than one thing after the other; and what took the longest."""
    if elapsed_ms <= 0 or all(task.reused for task in tasks):
        return ""
    facts = []
    startups = sorted((span for span in fold.spans.values() if is_startup(span)), key=lambda each: each.start_ms or 0.0)
    chain = [(interval, _measure_startups(interval, startups)) for interval in fold.chain]
    startup_ms = sum(startup_ms for _, startup_ms in chain)
    if has_startup := startup_ms >= LEAST_SHARE * elapsed_ms:
        kinds = {_SERVER_STARTUP if " the MCP server " in each.name else _STARTUP for each in startups}
        facts.append(f"{format_duration(startup_ms)} {kinds.pop() if len(kinds) == 1 else 'startups'}")
    # Without what tasks waited for, where that is known.
    work_ms = sum(task.duration_ms or 0.0 if task.worked_ms is None else task.worked_ms for task in tasks)
    if work_ms > SIDE_BY_SIDE * elapsed_ms:
        facts.append(f"{format_duration(work_ms)} of work, {work_ms / elapsed_ms:,.1f}x parallel")
    said = f" ({', '.join(facts)})" if facts else ""
    if len(tasks) > 1:
        times, whole = defaultdict[str, float](float), "critical path"
        for interval, waited_ms in chain:
            span = interval.span
            name = span.name if span.kind is SpanKind.TASK else f"the review of {span.phase}"
            times[name] += (interval.end_ms or interval.start_ms) - interval.start_ms - waited_ms
        whole_ms = sum(times.values())
    else:
        times, whole = _time_calls(fold), "rest" if has_startup else "time"
        whole_ms = elapsed_ms - startup_ms
    name, longest_ms = max(times.items(), key=lambda item: item[1], default=("", 0.0))
    share = min(1.0, longest_ms / whole_ms) if whole_ms > 0 else 0.0
    return f"{said}; longest: {name}, {format_percent(share)} of the {whole}" if share >= LEAST_SHARE else said


def _measure_startups(interval: ActiveInterval, startups: Iterable[Span]) -> float:
    """How much of this time startups took: no more than was not the task's own, since it may have worked meanwhile."""
    end_ms, own_ms = interval.end_ms, interval.span.own_ms
    if end_ms is None or own_ms is None:
        return 0.0
    covered_ms, from_ms = 0.0, interval.start_ms
    for each in startups:
        until_ms = min(end_ms, end_ms if each.end_ms is None else each.end_ms)
        covered_ms += max(0.0, until_ms - max(from_ms, each.start_ms or 0.0))
        from_ms = max(from_ms, until_ms)
    active_ms = sum((each.end_ms or each.start_ms) - each.start_ms for each in interval.span.active_intervals)
    return min(covered_ms, max(0.0, active_ms - own_ms))


def _time_calls(fold: TraceFold) -> defaultdict[str, float]:
    """How long the parts of the only task took: model calls, tools and reviews; of a manager itself and its workers."""
    times = defaultdict[str, float](float)
    manager = find_manager(fold)
    handed_on = () if manager is None else manager.handed_on
    for span in handed_on or fold.spans.values():
        name = {SpanKind.LLM: "model calls", SpanKind.REVIEW: "reviews"}.get(span.kind, span.name)
        if span.critical and (handed_on or (span.kind in _TIMED and span.nested_in is None)):
            times[name] += span.duration_ms or 0.0
    for span in fold.spans.values() if handed_on else ():
        if span.kind is SpanKind.LLM and span.critical and manager is not None and span.task_id == manager.span_id:
            times["the manager"] += span.duration_ms or 0.0
    return times
