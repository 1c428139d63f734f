"""The layout of the static picture: from rows of a trace to lines of text with bars of block characters.

Pure: equal rows give equal charts, for live and finished runs and for plans. HTML, plain text and the terminal's table
render a chart and know nothing of scales. The rows are those of the timeline, so that its bars and these agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from ensemble_notebook.domain.definitions.agent import USUAL_RETRY_WAIT_S, Agent
from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedTask
from ensemble_notebook.domain.planning.map_design import SETTLED
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, format_percent, pluralize
from ensemble_notebook.notebook.picture.chart_lines import (
    GLYPHS,
    MARKS_OF_PARTS,
    MOST_ITEMS,
    ROUND,
    BarPiece,
    ChartLine,
    Place,
    draw_level_bar,
    find_places,
    find_told_below,
    fold_rows,
    make_chart_line,
    make_strip,
)
from ensemble_notebook.trace.spans.timeline_wording import (
    AS_IT_WAS,
    DEMO,
    SCRIPTED_TEAM,
    WHEN_SAVED,
    describe_cost,
    describe_progress,
    describe_standing,
    describe_state,
    format_time_of_day,
)

ReadRows = Callable[[Iterable[str]], Mapping[str, Mapping[str, Any]]]
L = TypeVar("L", Place, ChartLine)

MOST_LINES: Final = 100
MOST_PENDING: Final = 5
_TASK: Final = "task"
_UNENDED: Final = ("pending", "running")
_USUAL_RETRIES: Final = next(each.default for each in fields(Agent) if each.name == "max_retries")
MARKS: Final = {
    "pending": "○",
    "running": "●",
    "waiting": "‖",
    "ok": "✓",
    "completed": "✓",
    "completed_with_warnings": "⚠",
    "budget_exceeded": "⚠",
    "exited_early": "⚠",
    "error": "✕",
    "failed": "✕",
    "cancelled": "⊘",
    "interrupted": "⊘",
    "skipped": "↷",
}
LEGEND: Final = {
    **{name: mark.word for name, mark in MARKS_OF_PARTS.items()},
    "handler": "handler",
    "reused": "reused",
    "task": "between calls",
    "critical": "longest chain",
    ROUND: "round",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A run, or a plan, on one scale.

    Attributes:
        status, title: of the status line.
        facts: what else the status line says, in order of importance.
        sentence: what happened, and of a map the verdict by now; empty where there is nothing to tell yet.
        names: heads of the columns that say what a line is, and who did it or what it is about.
        axis: texts at the start and the end of the bars.
        heads: of the columns beside the bars.
        lines: phases and tasks, in order of declaration.
        notes: warnings of the run, and the error that ended it where no task tells it.
        pending: the calls that wait for an answer, each with the code that gives one.
        legend: the pieces that need a word of explanation: characters, kind, word.
    """

    status: str
    title: str
    facts: tuple[str, ...]
    sentence: str
    names: tuple[str, str]
    axis: tuple[str, str]
    heads: tuple[str, ...]
    lines: tuple[ChartLine, ...]
    notes: tuple[str, ...]
    pending: tuple[tuple[str, str], ...]
    legend: tuple[tuple[BarPiece, str], ...]


def make_chart(
    snapshot: Mapping[str, Any],
    read_rows: ReadRows | None = None,
    most_lines: int = MOST_LINES,
    *,
    has_all_rows: bool = False,
) -> Chart:
    """The chart of a snapshot, live or saved.

    Args:
        snapshot: its rows may be an outline. With ``saved_at`` it is kept somewhere: a run that had not ended is said
            to be as of then. With ``length_ms`` it is over, and was so long: it is shown as it was at a time in it.
        read_rows: gives the whole rows by their ids, where they are one.
        most_lines: how many lines there may be.
        has_all_rows: also those of a map of many that are done or to come, for which one line stands else.
    """
    run, rows, length_ms = snapshot["run"], snapshot["rows"], snapshot.get("length_ms")
    is_broken_off = run["status"] == "interrupted" or bool(snapshot.get("saved_at") and run["status"] in _UNENDED)
    end = max([float(run.get("elapsed_ms") or 0), *(row.get("end_ms") or 0 for row in rows), 1.0])
    places = list(find_places(rows))
    noun = _get_noun(run)
    verdict = (run.get("standing") or {}).get("sentence") if length_ms is None else None
    is_folded = noun != _TASK and run["tasks_total"] > MOST_ITEMS and not has_all_rows
    shown, left_out = _choose(fold_rows(places) if is_folded else places, most_lines)
    if read_rows is not None:
        whole = read_rows([row["span_id"] for place in shown for row in place.all_rows])
        shown = [place.complete(whole) for place in shown]
    told_below = find_told_below(shown)
    lines = [make_chart_line(place, end, run["currency"], told_below, is_map=noun != _TASK) for place in shown]
    if is_folded:
        lines.insert(0, make_strip(places, end))
    return _fit_chart(
        status=run["status"],
        title=AS_IT_WAS if length_ms is not None else _describe_state(run, snapshot.get("saved_at")),
        facts=(*_list_facts(run, is_broken_off, length_ms), *_describe_substitute(run, rows)),
        sentence=". ".join(filter(None, [run.get("sentence"), verdict and f"Verdict: {verdict}"])),
        names=("task", "agent") if noun == _TASK else (noun, "about"),
        axis=("0 s", format_duration(end)),
        heads=("time", "tokens", "cost"),
        lines=lines if noun == _TASK else [*_tell_skips_once(lines)],
        notes=[*_describe_failure(run, places), *run["warnings"], *filter(None, [run.get("note")]), *left_out],
        pending=() if length_ms is not None else _list_pending(run.get("pending")),
    )


def _list_pending(pending: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """What waits, and how to answer it; of many the first ones, and how many more."""
    if pending is None:
        return
    for call in pending["calls"][:MOST_PENDING]:
        place = [call.get("agent"), call.get("task"), call.get("row")]
        said = f"{call['text']} waits for an answer · {' · '.join(filter(None, place))}"
        said += ", not known whether it was done" if call.get("is_unknown") else ""
        yield said, pending["code"].format(json.dumps({call["id"]: Verdict.APPROVE.value}))
    if (more := pending["count"] - MOST_PENDING) > 0:
        yield f"{more:,} more wait: see pending", ""


def _tell_skips_once(lines: Iterable[ChartLine]) -> Iterator[ChartLine]:
    """The same without the reason where the row before was skipped for the same: of a map, hundreds may be."""
    reason: tuple[str, ...] = ()
    for line in lines:
        is_again = line.status == "skipped" and line.notes == reason
        reason = line.notes if line.status == "skipped" else ()
        yield replace(line, notes=()) if is_again else line


def make_plan_chart(plan: ExecutionPlan, title: str = "plan") -> Chart:
    """The chart of what is going to happen: every task at its level, as wide as all others."""
    level = {name: number for number, group in enumerate(plan.groups) for name in group}
    critical = set(plan.critical_path)
    bars = {
        task.name: draw_level_bar(level[task.name], len(plan.groups), is_critical=task.name in critical)
        for task in plan.tasks
    }
    lines = [*_list_planned_lines(plan, bars, 0)]
    shown, left_out = _choose(lines)
    return _fit_chart(
        status="pending",
        title=title,
        facts=[
            pluralize(plan.total_tasks, "task"),
            f"up to {plan.max_parallelism} at once",
            f"longest chain {pluralize(plan.estimated_rounds, 'task')}",
        ],
        sentence="",
        names=("task", "agent"),
        axis=("first", "last"),
        heads=("after" if plan.phases else "reads", "model", "settings"),
        lines=shown,
        notes=[*(() if plan.preview is None else plan.preview.warnings), *left_out],
    )


def _list_planned_lines(
    plan: ExecutionPlan, bars: Mapping[str, tuple[BarPiece, ...]], depth: int
) -> Iterator[ChartLine]:
    """The lines of a plan; those of an ensemble that does a task stand below it, without bars of their own."""
    members: dict[str | None, list[PlannedTask]] = {}
    for task in plan.tasks:
        members.setdefault(task.phase, []).append(task)
    for phase, after in plan.phases.items() or [(None, ())]:
        if phase is not None:
            cells = (", ".join(after), "", _join_settings(plan.phase_settings.get(phase, {})))
            yield ChartLine(is_phase=True, depth=depth, name=phase, status="pending", cells=cells)
        for task in members.get(phase, ()):
            line = _make_planned_line(task, bars.get(task.name, ()))
            yield replace(line, depth=line.depth + depth, is_worker=depth > 0)
            if task.nested is not None:
                yield from _list_planned_lines(task.nested, {}, line.depth + depth + 1)


def _fit_chart(
    *,
    heads: Sequence[str],
    lines: Sequence[ChartLine],
    facts: Iterable[str],
    notes: Iterable[str],
    pending: Iterable[tuple[str, str]] = (),
    **rest: Any,
) -> Chart:
    """Put together, without the columns in which nothing stands."""
    used = [index for index in range(len(heads)) if any(line.cells[index] for line in lines)]
    kinds = {piece.kind for line in lines for piece in line.bar}
    words = LEGEND if rest["names"][0] == _TASK else {**LEGEND, "handler": f"{rest['names'][0]} or handler"}
    return Chart(
        heads=tuple(heads[index] for index in used),
        lines=tuple(replace(line, cells=tuple(line.cells[index] for index in used)) for line in lines),
        facts=tuple(facts),
        notes=tuple(notes),
        pending=tuple(pending),
        legend=tuple((BarPiece(GLYPHS[kind], kind), word) for kind, word in words.items() if kind in kinds),
        **rest,
    )


def _choose(lines: Sequence[L], most: int = MOST_LINES) -> tuple[Sequence[L], Sequence[str]]:
    """At most so many lines, in their order: what did not end well comes before what did. And a word on the rest.

    A page holds no more.
    """
    if len(lines) <= most:
        return lines, ()
    ranked = sorted(range(len(lines)), key=lambda index: lines[index].status in ("ok", "pending"))
    shown = [lines[index] for index in sorted(ranked[:most])]
    return shown, [f"{len(lines) - most:,} more lines are not shown here"]


def _get_noun(run: Mapping[str, Any]) -> str:
    """What its tasks are called. Runs that earlier versions saved don't say."""
    return run.get("task_noun") or _TASK


def _describe_state(run: Mapping[str, Any], saved_at: str | None) -> str:
    """How a run goes, or ended; and when that was, where it is no news any more."""
    if saved_at is not None and run["status"] in _UNENDED:
        return f"{WHEN_SAVED}, {format_time_of_day(saved_at)}"
    said = describe_state(run)
    is_dated = run["status"] == "interrupted" and run.get("ended_at")
    return f"{said}, {format_time_of_day(run['ended_at'])}" if is_dated else said


def _list_facts(run: Mapping[str, Any], is_broken_off: bool, length_ms: float | None) -> Iterable[str]:
    """What the status line says besides the state; of a run that was broken off first how far it had come."""
    if is_broken_off:
        yield from describe_standing(run)
    if run.get("name"):
        yield run["name"]
    if not is_broken_off:
        times = [float(run.get("elapsed_ms") or 0), *([] if length_ms is None else [length_ms])]
        yield " of ".join(map(format_duration, times))
        many, done = run.get("many"), f"{run['tasks_done']:,}/{pluralize(run['tasks_total'], _get_noun(run))}"
        yield done if many is None else describe_progress(many, float(run.get("elapsed_ms") or 0))
    if calls := run["llm_call_count"]:
        used = (run.get("input_tokens") or 0) + (run.get("output_tokens") or 0)
        tokens = f"{'' if run['tokens_complete'] else 'at least '}{format_count(used)}"
        # Where nothing at all is known, "at least 0" would read like a count (E64).
        yield f"{tokens if used or run['tokens_complete'] else 'unknown'} tokens in {pluralize(calls, 'model call')}"
    if calls and run.get("cost") is None:
        yield "cost unknown"
    elif run.get("cost") and not is_broken_off:
        yield describe_cost(run)
    yield from _describe_budget(run)
    counts = {"tool_call_count": "tool call", "error_count": "error", "retry_count": "retry"}
    yield from (pluralize(number, noun) for field, noun in counts.items() if (number := run.get(field)))
    settled = run.get("tasks_settled") or 0
    left = {"cancelled": run.get("tasks_cancelled"), "skipped": (run.get("tasks_skipped") or 0) - settled}
    yield from (f"{number} {word}" for word, number in {**left, SETTLED: settled}.items() if number)


def _describe_substitute(run: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """That a script or a recording answered for a model, for all or for some. Runs that 0.1.0 saved don't say."""
    name = run.get("replayed_from")
    if name and name.startswith(DEMO):
        yield SCRIPTED_TEAM
        return
    if run.get("is_scripted"):
        is_mixed = any(row["kind"] == "llm" and not row.get("is_scripted") for row in rows)
        yield "scripted and real models" if is_mixed else "scripted replies, no model"
    if name:
        yield f"replayed from {name}, no model asked"


def _describe_budget(run: Mapping[str, Any]) -> Iterable[str]:
    """How much of the budget is spent, by the limit that is nearest."""
    budget = run.get("budget") or {}
    limits: dict[str, Callable[[Any], str]] = {
        "cost": lambda most: format_money(most, budget.get("currency") or run["currency"]),
        "tokens": lambda most: f"{format_count(int(most))} tokens",
        "llm_calls": lambda most: pluralize(int(most), "model call"),
    }
    shares = [
        (float(budget.get(name) or 0) / most, word(most))
        for name, word in limits.items()
        if (most := budget.get(f"max_{name}"))
    ]
    if shares:
        share, limit = max(shares)
        yield f"{format_percent(share)} of {limit}"


def _describe_failure(run: Mapping[str, Any], lines: Sequence[Place]) -> Iterable[str]:
    """The error that ended the run, unless a task shows it."""
    error = run.get("error")
    if error and run["status"] == "failed" and not any(line.status == "error" and not line.is_phase for line in lines):
        yield f"{error['type']}: {error['message']}"


def _join_settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}".rstrip() for name, value in settings.items())


def _make_planned_line(task: PlannedTask, bar: tuple[BarPiece, ...]) -> ChartLine:
    said: dict[str, Any] = {"when": " or ".join(task.when)} if task.when else {}
    if task.max_retries not in (None, 0 if task.llm is None else _USUAL_RETRIES):
        said["max_retries"] = task.max_retries  # of its agent, or its own
    if task.max_retry_wait not in (None, USUAL_RETRY_WAIT_S):
        said["max_retry_wait"] = f"{task.max_retry_wait:g} s"
    cells = (", ".join(task.context), task.llm or "", _join_settings({**said, **task.settings}))
    depth = 0 if task.phase is None else 1
    name = f"{task.name} {task.times}".rstrip()
    return ChartLine(name=name, depth=depth, agent=task.agent, status="pending", bar=bar, cells=cells)
