"""The lines of the static picture: the rows of phases and tasks, in order, with a bar, numbers and notes for each.

Pure, like the chart that they are put together to.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ensemble_notebook.domain.wording import describe_cause, format_count, format_duration, format_money, pluralize
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
_MOST_ITEMS: Final = 12
"""Of a task with more items than these, only those stand below it that did not end well."""
_ENDED_BADLY: Final = ("error", "cancelled", "interrupted", "waiting")
_HANDED_ON_BY: Final = ("delegation", "nested")
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
        agent: who did it; of a row of a map, what it is about.
        is_worker: it is no task of the plan: it was handed on, or is of a run inside the task above or a review.
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line belongs, before it is drawn.

    Attributes:
        row: of the task, phase or startup.
        parts: the rows of what a task did.
        depth, is_worker: as in `ChartLine`.
    """

    row: Row
    parts: Sequence[Row] = ()
    depth: int = 0
    is_worker: bool = False

    @property
    def status(self) -> str:
        """As in the row."""
        return str(self.row["status"])

    @property
    def is_phase(self) -> bool:
        """True for a heading."""
        return bool(self.row["kind"] == "phase")


def find_places(rows: Sequence[Row]) -> Iterable[Place]:
    """Phases and tasks in order of declaration; what a task handed on stands below it. Startups come last.

    Args:
        rows: of a snapshot; an outline will do.
    """
    known = {row["span_id"]: row for row in rows}
    below: dict[str | None, list[Row]] = {}
    parts: dict[str | None, list[Row]] = {}
    for row in rows:
        if row["kind"] in _LINES:
            below.setdefault(_find_enclosing(row, known, _LINES), []).append(row)
        elif row["kind"] in _DRAWN:
            parts.setdefault(_find_enclosing(row, known, ("task",)), []).append(row)

    def walk(above: Row | None, depth: int) -> Iterable[Place]:
        for row in below.get(None if above is None else above["span_id"], ()):
            if row["kind"] == "phase":  # with a row above, of a nested run
                yield Place(row, depth=depth)
            else:
                # In a view that was kept small, what handed it on may be missing.
                is_worker = (above or {}).get("kind") == "task" or bool(_find_enclosing(row, known, _HANDED_ON_BY))
                yield Place(row, parts.get(row["span_id"], ()), depth, is_worker)
            if row["span_id"] in below:
                yield from walk(row, depth + 1)

    # One row stands for very many items, with what they did.
    for span_id, items in below.items():
        if span_id is not None and (known[span_id].get("item_count") or 0) > _MOST_ITEMS:
            below[span_id] = [row for row in items if row["status"] in _ENDED_BADLY]
            parts.setdefault(span_id, []).extend(part for row in items for part in parts.get(row["span_id"], ()))

    yield from walk(None, 0)
    yield from (Place(row) for row in rows if row.get("wait_kind") == STARTUP)


def find_told_below(places: Iterable[Place]) -> frozenset[str]:
    """The ids of those with an error that a line below them tells, of what was done for them: it is told once, there.

    Args:
        places: those that are shown, in their order; their rows are whole.
    """
    found: set[str] = set()
    around: list[Place] = []
    for place in places:
        while around and around[-1].depth >= place.depth:
            around.pop()
        message = place.row.get("error_message")
        if message:
            found |= {each.row["span_id"] for each in around if message in (each.row.get("error_message") or "")}
        around.append(place)
    return frozenset(found)


def make_chart_line(
    place: Place, end: float, currency: str, told_below: Container[str] = (), *, is_map: bool = False
) -> ChartLine:
    """Draw a line.

    Args:
        place: its rows are whole.
        end: of the time axis, in milliseconds.
        currency: of costs that don't say theirs.
        told_below: see `find_told_below`.
        is_map: whether the tasks of the plan are the rows of a map, which nobody does: each says what it is about.
    """
    if place.is_phase:
        return replace(_make_phase_line(place.row, end), depth=place.depth)
    if place.row["kind"] not in _LINES:
        return _make_startup_line(place.row, end)
    row = {**place.row, "error_type": None} if place.row["span_id"] in told_below else place.row
    line = _make_task_line(row, place.parts, end, currency)
    if is_map and not place.is_worker:
        about = row.get("description") or ""
        line = replace(line, agent="" if about == row["name"] else about)
    return replace(line, depth=place.depth, is_worker=place.is_worker)


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
        name=f"{row['name']}{_describe_times(row)}",
        agent=row.get("agent") or "",
        status=row["status"],
        bar=draw_task_bar(row, parts, end),
        cells=(_describe_time(row, end), _describe_tokens(row, parts), _describe_cost(row, currency)),
        notes=(*_describe_reuse(row, currency), *_list_notes(row, parts)),
    )


def _describe_times(row: Row) -> str:
    """How often a task runs, in the timeline's words (`timesOf`)."""
    if row.get("item_count") is not None:
        return f" x {row['item_count']:,}"
    return " x ?" if "for_each" in (row.get("settings") or {}) else ""


def _describe_reuse(row: Row, currency: str) -> Iterable[str]:
    """Why a task was reused and what that saved, or why it ran; nothing where nobody asked (C34)."""
    reason = row.get("reuse_reason")
    if row.get("reused"):
        cost, tokens = row.get("saved_cost"), row.get("saved_tokens")
        saved = [format_money(cost, row.get("currency") or currency)] if cost else []
        saved += [f"{format_count(tokens)} tokens"] if tokens else []
        yield f"reused, {reason}; saved {', '.join([*saved, format_duration(row.get('saved_ms'))])}"
    elif reason is not None:
        yield f"not reused: {reason}"


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
    if row.get("delta"):
        yield str(row["delta"])
    if row["status"] == "skipped":
        yield _describe_skip(row)
    elif row.get("error_type"):
        yield f"{row['error_type']}: {row.get('error_message') or 'no message'}"
    reasons = [
        describe_cause(part["retry_reason"]) for part in parts if part["kind"] == "attempt" and part.get("retry_reason")
    ]
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
    """Why it never ran, in the timeline's words (`describeSkip`): that it did not is said once."""
    reason = str(row.get("reason"))
    if reason.startswith("condition"):
        return reason
    reason = reason.removeprefix("not started: ")
    return f"skipped, since {reason}" if reason.startswith("phase ") else f"skipped: {reason}"


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
