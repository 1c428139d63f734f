"""The lines of the static picture: the rows of phases and tasks, in order, with a bar, numbers and notes for each.

Pure, like the chart that they are put together to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.notebook.picture.bars import (
    MARKS_OF_PARTS,
    STARTUP,
    BarPiece,
    Row,
    draw_startup_bar,
    draw_task_bar,
    find_stop,
)

_LINES: Final = ("phase", "task")
_DRAWN: Final = (*MARKS_OF_PARTS, "attempt")
_ANSWERS: Final = {
    "edit": "edited in a review",
    "retry": "sent back by a review",
    "reject": "rejected by a review",
    "exit_early": "a review ended the run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """One task, or the heading of a phase.

    Attributes:
        span_id: of the task or phase; empty in a plan.
        is_phase: True for a heading.
        depth: 1 for a task in a phase, one more for each time that its work was handed on.
        is_worker: it was handed on by the task above.
        status: as in the rows.
        bar: pieces from the left; together at most as many characters as a bar is wide, and a mark.
        cells: texts, one for each of the chart's `heads`.
        notes: what went wrong or was left out, one sentence each.
    """

    span_id: str = ""
    is_phase: bool = False
    depth: int = 0
    is_worker: bool = False
    name: str
    agent: str = ""
    status: str
    bar: tuple[BarPiece, ...] = ()
    cells: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def make_chart_lines(rows: Sequence[Row], end: float, currency: str) -> Iterable[ChartLine]:
    """Phases and tasks in order of declaration; what a task handed on stands below it. Startups come last.

    Args:
        rows: of a snapshot.
        end: of the time axis, in milliseconds.
        currency: of costs that don't say theirs.
    """
    known = {row["span_id"]: row for row in rows}
    below: dict[str | None, list[Row]] = {}
    parts: dict[str | None, list[Row]] = {}
    for row in rows:
        if row["kind"] in _LINES:
            below.setdefault(_find_enclosing(row, known, _LINES), []).append(row)
        elif row["kind"] in _DRAWN:
            parts.setdefault(_find_enclosing(row, known, ("task",)), []).append(row)

    def walk(above: Row | None, depth: int) -> Iterable[ChartLine]:
        for row in below.get(None if above is None else above["span_id"], ()):
            if row["kind"] == "phase":
                yield _make_phase_line(row, end)
            else:
                line = _make_task_line(row, parts.get(row["span_id"], ()), end, currency)
                yield replace(line, depth=depth, is_worker=above is not None and above["kind"] == "task")
            yield from walk(row, depth + 1)

    yield from walk(None, 0)
    yield from (_make_startup_line(row, end) for row in rows if row.get("wait_kind") == STARTUP)


def _find_enclosing(row: Row, known: Mapping[str, Row], kinds: Sequence[str]) -> str | None:
    """The nearest span of one of these kinds around a row."""
    around = known.get(row.get("parent_id") or "")
    while around is not None and around["kind"] not in kinds:
        around = known.get(around.get("parent_id") or "")
    return None if around is None else str(around["span_id"])


def _make_phase_line(row: Row, end: float) -> ChartLine:
    notes = (_describe_skip(row),) if row["status"] == "skipped" else ()
    cells = (_describe_time(row, end), "", "")
    return ChartLine(
        span_id=row["span_id"], is_phase=True, name=row["name"], status=row["status"], cells=cells, notes=notes
    )


def _make_startup_line(row: Row, end: float) -> ChartLine:
    """What the run waited for before a model could be asked (E57)."""
    notes = [f"{row['error_type']}: {row.get('error_message') or 'no message'}"] if row.get("error_type") else []
    cells = (_describe_time(row, end), "", "")
    return ChartLine(
        span_id=row["span_id"],
        name=row["name"],
        status=row["status"],
        bar=draw_startup_bar(row, end),
        cells=cells,
        notes=tuple(notes),
    )


def _make_task_line(row: Row, parts: Sequence[Row], end: float, currency: str) -> ChartLine:
    return ChartLine(
        span_id=row["span_id"],
        name=row["name"],
        agent=row.get("agent") or "",
        status=row["status"],
        bar=draw_task_bar(row, parts, end),
        cells=(_describe_time(row, end), _describe_tokens(row, parts), _describe_cost(row, currency)),
        notes=tuple(_list_notes(row, parts)),
    )


def _describe_cost(row: Row, currency: str) -> str:
    # Rows that 0.1.0 saved don't say their currency, which is that of the run.
    return format_money(row["cost"], row.get("currency") or currency) if row.get("cost") else ""


def _describe_time(row: Row, end: float) -> str:
    if row.get("start_ms") is None:
        return ""
    # Rows that 0.1.0 saved don't say how much of the time was the task's own.
    return format_duration(row.get("duration_ms", find_stop(row, end) - row["start_ms"]))


def _describe_tokens(row: Row, parts: Sequence[Row]) -> str:
    used = (row.get("input_tokens"), row.get("output_tokens"))
    if not any(part["kind"] == "llm" for part in parts) or (row["status"] == "running" and None in used):
        return ""
    return " → ".join("?" if number is None else format_count(number) for number in used)


def _list_notes(row: Row, parts: Sequence[Row]) -> Iterable[str]:
    if row["status"] == "skipped":
        yield _describe_skip(row)
    elif row.get("error_type"):
        yield f"{row['error_type']}: {row.get('error_message') or 'no message'}"
    reasons = [str(part["retry_reason"]) for part in parts if part["kind"] == "attempt" and part.get("retry_reason")]
    if reasons:
        yield f"{pluralize(len(reasons), 'retry')}: {', '.join(dict.fromkeys(reasons))}"
    handing_on = {part.get("parent_id") for part in parts if part["kind"] == "delegation"}
    broken = [
        part.get("tool") or part["name"]
        for part in parts
        if part["kind"] == "tool" and part["status"] == "error" and part["span_id"] not in handing_on
    ]
    if broken:
        yield f"{pluralize(len(broken), 'tool error')}: {', '.join(dict.fromkeys(broken))}"
    if row.get("retry_reason") not in (None, "review"):  # what reviews did is told by themselves
        cause = "a guardrail sent it back" if row["retry_reason"] == "guardrail" else row["retry_reason"]
        yield f"done {row.get('attempt')} times: {cause}"
    if row.get("is_fallback"):
        yield f"the fallback {row.get('agent')} took over"
    for part in parts:
        if part["kind"] == "delegation" and part["status"] == "error":
            yield f"not handed on to {part['name']}: {part.get('error_message') or part.get('reason') or 'no reason'}"
    yield from filter(None, map(_describe_review, parts))


def _describe_skip(row: Row) -> str:
    reason = str(row.get("reason"))
    return reason if reason.startswith("condition") else f"skipped: {reason}"


def _describe_review(part: Row) -> str | None:
    """What a review did, unless it only let things go on."""
    review = part.get("review") if part["kind"] == "review" else None
    if review is None:
        return None
    if part.get("end_ms") is None:
        return "in review" if review.get("subject") == "phase" else "waiting for you"
    if review.get("subject") == "question":
        return None
    word = _ANSWERS.get(review.get("decision") or "")
    return word if word is None or not review.get("is_timeout") else f"{word}, since nobody answered in time"
