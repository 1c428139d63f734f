"""The lines of the static picture: the rows of phases and tasks, in order, with a bar, numbers and notes for each.

Pure, like the chart that they are put together to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, Final

from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.domain.planning.graph import HANDLER_ROLE
from ensemble_notebook.domain.wording import describe_cause, format_count, format_money, pluralize
from ensemble_notebook.trace.spans.span_kinds import BarMark, SpanKind
from ensemble_notebook.trace.spans.timeline_wording import (
    ANSWERS,
    STATUSES,
    SUBJECTS,
    describe_answer,
    describe_length,
    describe_redoing,
    describe_reuse,
    describe_rounds,
    describe_row_saving,
    describe_skip,
    describe_times,
    find_undecided,
    name_state,
)

# --- The bar of one task: its share of the time axis in block characters ----------------------------------------------
#
# Characters survive everywhere: in a sanitiser, a page without styles, a terminal, a mail. Each kind has a glyph of its
# own, so that a bar can be read without colour. The glyphs of spans are in the table of span kinds, the others here.
# Pure; knows neither lines nor renderers.


WIDTH: Final = 40
"""Columns of a bar."""

GAP: Final = "gap"
STARTUP: Final = "startup"
BACKOFF: Final = "backoff"
ROUND: Final = "round"
# A back-off is no span: it lies behind a failed attempt, and looks like a wait. A startup is a wait of the whole run.
MARKS_OF_PARTS: Final[Mapping[str, BarMark]] = {
    **{kind.value: kind.traits.bar for kind in SpanKind if kind.traits.bar is not None},
    BACKOFF: BarMark(glyph="┄", word="back-off", tone="pause", level=5),
    STARTUP: BarMark(glyph="╍", word="startup", tone="pause", level=7),
}
GLYPHS: Final = {
    GAP: " ",
    "task": "─",
    "handler": "▆",
    "reused": "▨",
    ROUND: "═",
    **{name: mark.glyph for name, mark in MARKS_OF_PARTS.items()},
    "running": "▸",
    "error": "✕",
    "cancelled": "⊘",
    "interrupted": "⊘",
    "pending": "░",
    "critical": "▒",
}

_ORDER: Final = sorted(MARKS_OF_PARTS, key=lambda name: MARKS_OF_PARTS[name].level)

Row = Mapping[str, Any]
Stretch = tuple[float, float, str, Row]
"""A part of a bar, whatever draws it: from when to when, in milliseconds; its kind; the row that it is of."""


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A stretch of one bar: its characters, and the key of `GLYPHS` that they stand for."""

    text: str
    kind: str


def find_stop(row: Row, end: float) -> float:
    """When a span ended, or now, where it has not."""
    value = row.get("end_ms")
    return end if value is None else float(value)


def list_stretches(row: Row, parts: Sequence[Row], end: float, order: Iterable[str]) -> Iterable[Stretch]:
    """What a bar shows: the extent of a task or a startup, and on it its parts, of kinds in this order, to `end`.

    A failed attempt's back-off lies behind it.
    """
    if row.get("start_ms") is None:
        return
    # The extent of a task: reused, plain code, or what lies between the calls of an agent, which has a name of its own,
    # also before its first call.
    is_handler = not parts and (row.get("agent") or HANDLER_ROLE) == HANDLER_ROLE
    extent = (
        STARTUP if row["kind"] != "task" else "reused" if row.get("reused") else "handler" if is_handler else "task"
    )
    yield from ((began, ended, extent, row) for began, ended in list_goes(row, end))
    for kind in order:
        for part in parts:
            start, stop = part.get("start_ms"), find_stop(part, end)
            if kind == BACKOFF and part["kind"] == "attempt" and part.get("backoff_ms"):
                yield stop, stop + part["backoff_ms"], kind, part
            elif kind == part["kind"] and start is not None:
                yield start, stop, kind, part


def list_goes(row: Row, end: float) -> list[tuple[float, float]]:
    """From when to when a row was at work: one go, or several where it was sent back."""
    goes = row.get("rounds") or [row]
    return [(each["start_ms"], find_stop(each, end)) for each in goes]


def draw_rounds(row: Row, end: float) -> tuple[BarPiece, ...]:
    """The goes at the work of a phase that was sent back, each with its number first; nothing for any other."""
    pieces: list[BarPiece] = []
    width = 0
    for number, (start, stop) in enumerate(list_goes(row, end) if row.get("rounds") else (), start=1):
        left, right = _to_columns(start, stop, end)
        left, right = max(left, width), max(right, width + 1)
        pieces += [BarPiece(GLYPHS[GAP] * (left - width), GAP)] if left > width else []
        label = str(number)[: right - left]
        pieces.append(BarPiece(label + GLYPHS[ROUND] * (right - left - len(label)), ROUND))
        width = right
    return tuple(pieces)


def draw_bar(row: Row, parts: Sequence[Row], end: float) -> tuple[BarPiece, ...]:
    """The same in characters, behind it a mark where it did not end well or is going on."""
    if row.get("start_ms") is None:
        return ()
    cells = [GAP] * _to_columns(row["start_ms"], find_stop(row, end), end)[1]  # nothing lies outside
    for start, stop, kind, _ in list_stretches(row, parts, end, _ORDER):
        left, right = _to_columns(start, stop, end)
        cells[left:right] = [kind] * (min(right, len(cells)) - left)
    status = row["status"]
    if status in ("running", "waiting"):  # a span that waits is going on, too
        cells.append("running")
    elif status in ("error", "cancelled", "interrupted"):
        cells.append(status)
    return tuple(_join_columns(cells))


def _to_columns(start: float, stop: float, end: float) -> tuple[int, int]:
    """First column and the one past the last, at least one wide and inside the bar."""
    # The start is rounded down: a short stretch then lies in the column in which it began. The stop is rounded to the
    # nearest: rounded down, each stretch would look too short; rounded up, it would cover the start of the next one.
    first = min(int(start / end * WIDTH), WIDTH - 1)
    return first, max(min(round(stop / end * WIDTH), WIDTH), first + 1)


def _join_columns(cells: Sequence[str]) -> Iterable[BarPiece]:
    for kind, run in groupby(cells):
        yield BarPiece(GLYPHS[kind] * len(list(run)), kind)


def narrow_bar(bar: Iterable[BarPiece], columns: int) -> tuple[BarPiece, ...]:
    """The same bar in fewer columns. Of what falls into one column, the shortest piece is shown, lest it be lost."""
    pieces = [*bar]
    cells = [piece for piece in pieces for _ in piece.text]
    inside, mark = cells[:WIDTH], cells[WIDTH:]
    lengths = {id(piece): (piece.kind == GAP, len(piece.text)) for piece in pieces}
    stops = [-(-column * WIDTH // columns) for column in range(columns + 1)]
    stretches = [inside[first:last] for first, last in pairwise(stops)]
    shown = [min(each, key=lambda piece: lengths[id(piece)]).kind for each in stretches if each]
    return tuple(_join_columns([*shown, *(piece.kind for piece in mark)]))


def draw_level_bar(level: int, levels: int, *, is_critical: bool) -> tuple[BarPiece, ...]:
    """The bar of a planned task: its level, counted from 0, each of `levels` as wide as the others."""
    first = level * WIDTH // levels
    last = max((level + 1) * WIDTH // levels, first + 1)
    return tuple(_join_columns([GAP] * first + ["critical" if is_critical else "pending"] * (last - first)))


# ----------------------------------------------------------------------------------------------------------------------
# The lines of the static picture: the rows of phases and tasks, in order, with a bar, numbers and notes for each.


_LINES: Final = ("phase", "task")
WRITTEN: Final = "written"
"""A task that a manager saw to, of which nobody knows who did it; no span has this kind."""
MOST_ITEMS: Final = 12
"""Of more items or rows than these only those have lines that did not end well, and rows that are at work."""
_ENDED_BADLY: Final = ("error", "cancelled", "interrupted", "waiting")
_WORST_FIRST: Final = ("error", "waiting", "interrupted", "cancelled", "running", "pending", "skipped")
_HANDED_ON_BY: Final = ("delegation", "nested")
_DRAWN: Final = (*MARKS_OF_PARTS, "attempt")
_PLAIN: Final = (None, "", Verdict.APPROVE)
"""What a review comes to that only lets things go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """One task, or the heading of a phase.

    Attributes:
        span_id: of the task or phase; empty in a plan.
        is_phase: True for a heading.
        depth: 1 for a task in a phase, one more for each time that its work was handed on.
        name: what views call it.
        code_name: by which the notebook finds its output.
        agent: who did it; of a row of a map, what it is about.
        is_worker: it was handed on, or is of a run inside the task above.
        is_reviewer: it looks at a phase: beside workers the other that is no task of the plan.
        is_row: it is a row of a map, which nobody does.
        status: as in the rows.
        bar: pieces from the left; together at most as many characters as a bar is wide, and a mark.
        cells: texts, one for each of the chart's `heads`.
        notes: what went wrong or was left out, one sentence each.
    """

    span_id: str = ""
    is_phase: bool = False
    depth: int = 0
    is_worker: bool = False
    is_reviewer: bool = False
    is_row: bool = False
    name: str
    code_name: str = ""
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
        others: those of further tasks that share the line: the answers to the reviews of a phase.
        depth, is_worker: as in `ChartLine`.
    """

    row: Row
    parts: Sequence[Row] = ()
    depth: int = 0
    is_worker: bool = False
    others: Sequence[Row] = ()

    @property
    def status(self) -> str:
        """As in the row, or in the last of those that share the line."""
        return str((self.others or [self.row])[-1]["status"])

    @property
    def all_rows(self) -> Iterable[Row]:
        """Whatever the line is made of, but for what was made up."""
        return (*([] if "note" in self.row else [self.row]), *self.others, *self.parts)

    def complete(self, whole: Mapping[str, Row]) -> Place:
        """The same with whole rows, by their ids."""

        def look_up(rows: Sequence[Row]) -> Sequence[Row]:
            return [whole[row["span_id"]] for row in rows]

        row = self.row if "note" in self.row else whole[self.row["span_id"]]
        return replace(self, row=row, parts=look_up(self.parts), others=look_up(self.others))

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
    below, parts = _sort_rows(rows, known)

    def walk(above: Row | None, depth: int) -> Iterable[Place]:
        inside = below.get(None if above is None else above["span_id"], [])
        for row, *others in _group_answers(_sort_work(above, inside, known)):
            if "note" in row:
                yield Place(row, depth=depth, is_worker=True)
            elif row["kind"] == "phase":  # with a row above, of a nested run
                yield Place(row, depth=depth)
            else:
                # In a view that was kept small, what handed it on may be missing.
                is_worker = (above or {}).get("kind") == "task" or bool(_find_enclosing(row, known, _HANDED_ON_BY))
                done = [part for each in (row, *others) for part in parts.get(each["span_id"], ())]
                yield Place(row, done, depth, is_worker, others)
            if row["span_id"] in below:
                yield from walk(row, depth + 1)

    yield from walk(None, 0)
    yield from (Place(row) for row in rows if row.get("wait_kind") == STARTUP)


def _sort_rows(
    rows: Sequence[Row], known: Mapping[str, Row]
) -> tuple[dict[str | None, list[Row]], dict[str | None, list[Row]]]:
    """The rows that have lines, and those that are drawn in them, each by the id of the line that they are in."""
    below: dict[str | None, list[Row]] = {}
    parts: dict[str | None, list[Row]] = {}
    for row in rows:
        if row["kind"] in _LINES:
            below.setdefault(_find_enclosing(row, known, _LINES), []).append(row)
        elif row["kind"] in _DRAWN:
            parts.setdefault(_find_enclosing(row, known, ("task",)), []).append(row)
    # One row stands for very many items, with what they did.
    for span_id, items in below.items():
        many = 0 if span_id is None else max(known[span_id].get(name) or 0 for name in ("item_count", "map_rows"))
        if many > MOST_ITEMS:
            below[span_id] = [row for row in items if row["status"] in _ENDED_BADLY]
            parts.setdefault(span_id, []).extend(part for row in items for part in parts.get(row["span_id"], ()))
    return below, parts


def _sort_work(manager: Row | None, inside: Sequence[Row], known: Mapping[str, Row]) -> Sequence[Row]:
    """What stands below a row: of a manager written tasks and delegations, made up where no worker has a row."""
    if manager is None or not manager.get("work"):
        return inside
    rows: list[Row] = []
    for number, item in enumerate(manager["work"]):
        row = known.get(item.get("span_id") or "")
        if row is None or row["kind"] not in _LINES:
            status = "pending" if manager.get("end_ms") is None else manager["status"]
            made_up = {"span_id": f"{manager['span_id']}:{number}", "kind": WRITTEN, "status": status}
            row = {**(row or made_up), "name": item["title"], "note": item.get("note") or ""}
        rows.append(row)
    shown = {row["span_id"] for row in rows}
    return [*rows, *(row for row in inside if row["span_id"] not in shown)]


def _group_answers(rows: Iterable[Row]) -> Iterable[Sequence[Row]]:
    """Rows one by one; at the end, together, those that answer the reviews of their phase: one task, asked again."""
    answers: list[Row] = []
    for row in rows:
        if row.get("review_id"):
            answers.append(row)
        else:
            yield [row]
    if answers:
        yield answers


def fold_rows(places: Iterable[Place]) -> list[Place]:
    """Of the rows of a map those that are at work or did not end well, with what is in them; and what is no row."""
    kept, is_kept = [], True
    for place in places:
        if not place.depth:
            is_kept = place.row["kind"] != "task" or place.status in ("running", *_ENDED_BADLY)
        if is_kept:
            kept.append(place)
    return kept


def make_strip(places: Iterable[Place], end: float) -> ChartLine:
    """One line for all rows of a map: how many are in each state, what a person must know first before the rest."""
    rows = [place.row for place in places if not place.depth and place.row["kind"] == "task"]
    counts = Counter((str(row["status"]), name_state(row)) for row in rows)
    others = sorted((each for each in counts if each[0] != "ok"), key=lambda each: _WORST_FIRST.index(each[0]))
    status = others[0][0] if others else "ok"
    stop = max((find_stop(row, end) for row in rows if row["status"] not in ("pending", "skipped")), default=0.0)
    name = ", ".join(f"{counts[each]:,} {each[1]}" for each in (("ok", STATUSES["ok"]), *others))
    bar = draw_bar({"kind": "task", "status": status, "start_ms": 0.0, "end_ms": stop}, (), end) if stop else ()
    return ChartLine(name=name, status=status, bar=bar, cells=("", "", ""))


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
    row = place.row
    if place.is_phase:
        skip = [describe_skip(row.get("reason"), name_state(row))] if row["status"] == "skipped" else []
        notes = [*skip, *describe_rounds(row)]
        return _make_plain_line(place, draw_rounds(row, end), _describe_time(row, end), notes, is_phase=True)
    if "note" in row:  # a written task of which nobody knows who did it, or work that was not handed on
        return _make_plain_line(place, (), "", [row["note"]] if row["note"] else [], is_worker=True)
    if row["kind"] not in _LINES:  # what the run waited for before a model could be asked
        notes = [f"{row['error_type']}: {row.get('error_message') or 'no message'}"] if row.get("error_type") else []
        return _make_plain_line(place, draw_bar(row, (), end), _describe_time(row, end), notes)
    row = {**row, "error_type": None} if row["span_id"] in told_below else join_rows(place)
    is_row = is_map and not place.is_worker
    about = row.get("description" if is_row else "agent") or ""
    used = (row.get("input_tokens"), row.get("output_tokens"))
    has_tokens = any(part["kind"] == "llm" for part in place.parts) and (row["status"] != "running" or None not in used)
    tokens = " → ".join("?" if number is None else format_count(number) for number in used) if has_tokens else ""
    # Rows that 0.1.0 saved don't say their currency, which is that of the run.
    cost = format_money(row["cost"], row.get("currency") or currency) if row.get("cost") else ""
    # Why it was reused and what that saved, or why it ran; nothing where nobody asked.
    reuse = "; ".join(filter(None, [describe_reuse(row), describe_row_saving(row, currency)]))
    return ChartLine(
        span_id=row["span_id"],
        depth=place.depth,
        is_worker=place.is_worker,
        is_reviewer=bool(row.get("review_id")),
        is_row=is_row,
        name=f"{row.get('title') or row['name']}{describe_times(row)}",
        code_name=row["name"],
        agent="" if is_row and about == row["name"] else about,
        status=row["status"],
        bar=draw_bar(row, place.parts, end),
        cells=(_describe_time(row, end), tokens, cost),
        notes=(*([reuse] if reuse else []), *_list_notes(row, place.parts)),
    )


def _make_plain_line(
    place: Place, bar: tuple[BarPiece, ...], time: str, notes: Iterable[str], **facts: Any
) -> ChartLine:
    """A line without an agent, tokens and cost."""
    row = place.row
    return ChartLine(
        span_id=row["span_id"],
        name=row["name"],
        status=row["status"],
        bar=bar,
        cells=(time, "", ""),
        notes=tuple(notes),
        depth=place.depth,
        **facts,
    )


def join_rows(place: Place) -> Row:
    """What stands in a line: its row, or where several tasks share it, one that sums them up."""
    if not place.others:
        return place.row
    rows = [place.row, *place.others]
    summed = {
        name: sum(known)
        for name in ("duration_ms", "input_tokens", "output_tokens", "cost")
        if (known := [row[name] for row in rows if row.get(name) is not None])
    }
    goes = [
        {"start_ms": row["start_ms"], "end_ms": row.get("end_ms")} for row in rows if row.get("start_ms") is not None
    ]
    first = {"span_id": place.row["span_id"], "start_ms": place.row.get("start_ms")}
    return {**rows[-1], **summed, **first, "rounds": goes}


def _find_enclosing(row: Row, known: Mapping[str, Row], kinds: Sequence[str]) -> str | None:
    """The nearest span of one of these kinds around a row."""
    around = known.get(row.get("parent_id") or "")
    while around is not None and around["kind"] not in kinds:
        around = known.get(around.get("parent_id") or "")
    return None if around is None else str(around["span_id"])


def _describe_time(row: Row, end: float) -> str:
    if row.get("start_ms") is None:
        return ""
    # Rows that 0.1.0 saved don't say how much of the time was the task's own.
    return describe_length({**row, "end_ms": find_stop(row, end)})


def _list_notes(row: Row, parts: Sequence[Row]) -> Iterable[str]:
    if row.get("delta"):
        yield str(row["delta"])
    if row["status"] == "skipped":
        yield describe_skip(row.get("reason"), name_state(row))
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
    told = [
        said
        for said, each in zip(describe_rounds(row), row.get("rounds") or (), strict=True)
        # More is known of it than that its phase was sent back.
        if each.get("verdict") not in (None, ANSWERS[Verdict.RETRY])
    ]
    yield from told
    if not told and row.get("retry_reason") not in (None, "review"):  # what reviews did is told by themselves
        yield f"done {row.get('attempt')} times: {describe_redoing(row)}"
    if row.get("is_fallback"):
        yield f"the fallback {row.get('agent')} took over"
    for part in parts:
        if part["kind"] == "delegation" and part["status"] == "error" and not row.get("work"):  # else it has a line
            yield f"not handed on to {part['name']}: {part.get('error_message') or part.get('reason') or 'no reason'}"
    reviews = [part for part in parts if part["kind"] == "review" and part.get("review")]
    yield from filter(
        None, [_describe_review(part) for part in reviews if not (told and _is_told(part, row["rounds"]))]
    )


def _is_told(review: Row, goes: Sequence[Row]) -> bool:
    """Whether the verdict of the go in which it began says what came of it: some time lies between the two ends."""
    verdicts = [go.get("verdict") for go in goes if go["start_ms"] <= (review.get("start_ms") or 0)]
    return review["review"].get("decision") == Verdict.RETRY or verdicts[-1:] == [describe_answer(review)]


def _describe_review(part: Row) -> str | None:
    """What a review did, unless it only let things go on, and somebody has decided that."""
    review = part["review"]
    answer, subject = describe_answer(part), review.get("subject")
    if part.get("end_ms") is None:
        return answer
    decision, undecided = review.get("decision"), find_undecided(part)
    is_said = bool(undecided) if subject == "question" else decision not in _PLAIN or bool(decision and undecided)
    return f"{SUBJECTS.get(subject, part['name'])} · {answer}" if is_said else None
