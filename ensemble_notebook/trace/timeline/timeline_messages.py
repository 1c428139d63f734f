"""What Python tells the timeline in the browser: a snapshot, then numbered deltas, and details on request (W5, W14).

Every message is JSON-safe and bounded in what one span can add. Knows no comm, widget or notebook; the shape of the
messages is the one seam between this package and the one in TypeScript.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.score import ScoreRecord, list_current
from ensemble_notebook.domain.outputs.secrets import mask_start
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.errors import show_hidden_characters
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text, shorten
from ensemble_notebook.trace.spans.span import Span, list_pending
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.timeline_wording import DEMO
from ensemble_notebook.trace.spans.usage_totals import UsageTotals
from ensemble_notebook.trace.tables.timeline_columns import (
    ACTIVE,
    BUDGET,
    FAILURE,
    MANY,
    PENDING,
    PENDING_CALL,
    PHASE,
    RANGE,
    ROWS,
    RUN,
    VERSION,
)
from ensemble_notebook.trace.timeline.pictures import pack_digests, pack_pictures
from ensemble_notebook.trace.timeline.playhead import Point, make_series, pack_series, row_at, run_at
from ensemble_notebook.trace.timeline.row_columns import pack_rows, to_buffer
from ensemble_notebook.trace.timeline.run_graph import GraphMemory, make_run_graphs
from ensemble_notebook.trace.timeline.run_sentence import describe_run, find_manager
from ensemble_notebook.trace.timeline.saved_view import add_rows_and_details, measure_bytes
from ensemble_notebook.trace.timeline.span_details import to_details, to_piece
from ensemble_notebook.trace.timeline.table_cells import MOST_CELLS, list_pictured, make_cells
from ensemble_notebook.trace.timeline.transcript_messages import WHOLE_RUN, pack_transcript

SAVED_BYTES: Final = 200_000
SERIES_SHARE: Final = 0.1
"""So much of a saved view the series may take: of 200 kB always enough."""
GRAPH_SHARE: Final = 0.3
"""How much of a saved view its graphs may take, since rows and texts tell more."""
TRANSCRIPT_SHARE: Final = 0.15
"""Likewise its transcript: without it, the messages of each task are there by themselves."""
LEAST_UTTERANCE: Final = 60
"""Bytes that one of a transcript takes at least."""
TAIL: Final = 400
"""How many characters of a text that is being streamed a view has at once."""

FEW_ROWS: Final = 200
"""Below this, records of rows are as quick to make and to read as columns."""

STANDING_SHARE: Final = 30
"""How a map stands is told anew after so many times the CPU that it took: all of its rows are summed up each time."""

LONGEST_WARNING: Final = 500
MOST_ACTIVE: Final = 20
MOST_WARNINGS: Final = 20
MOST_RANGES: Final = 100
MOST_PENDING: Final = 100
LONGEST_CALL: Final = 200
MOST_ITEMS: Final = 12
"""More items or rows than these are shown as one (W25)."""

_ENDED_OTHERWISE: Final = (SpanStatus.ERROR, SpanStatus.CANCELLED, SpanStatus.INTERRUPTED, SpanStatus.SKIPPED)

_OUTLINE: Final = [
    (each.name, each.read)
    for each in ROWS.pick(
        *("span_id", "parent_id", "kind", "status", "end_ms", "wait_kind", "is_scripted", "item_count", "review_id"),
        "work",
    )
]

_utc_now: Final = partial(datetime.now, UTC)

Packed = tuple[dict[str, Any], list[bytes]]
"""A message and its buffers."""


class TimelineMessages:
    """The messages about one run. Any number of views may share it; none has a state here.

    Args:
        fold: of the run; may be added to meanwhile, by another thread.
        now: gives the time of day in UTC.
        variable: the name of the notebook's variable that has, or will have, the output of the run.
        cell: what the notebook calls the cell that runs it.
        is_resumable: a line of the notebook can go on with it, once it is over or its kernel is gone.
        view: in which the run opens (`TimelineView`); None: in the one that says most.
    """

    def __init__(
        self,
        fold: TraceFold,
        now: Callable[[], datetime] = _utc_now,
        *,
        variable: str | None = None,
        cell: str | None = None,
        is_resumable: bool = False,
        view: str | None = None,
    ) -> None:
        self._fold = fold
        self._now = now
        self._known: dict[str, Any] = {"variable": variable, "cell": cell, "is_resumable": is_resumable, "view": view}
        self._graphs = GraphMemory()
        self._standing = _StandingMemory()

    @property
    def count(self) -> int:
        """How often the run has changed by now: the number of a message that tells of all of it."""
        return self._fold.count

    @property
    def run_id(self) -> str | None:
        """The id of the run; None before it has begun."""
        return None if self._fold.run is None else self._fold.run.run_id

    @property
    def view(self) -> str | None:
        """As given."""
        view: str | None = self._known["view"]
        return view

    @property
    def is_over(self) -> bool:
        """The run has ended: nothing changes any more."""
        return self._fold.status not in (RunStatus.PENDING, RunStatus.RUNNING)

    @property
    def length_ms(self) -> float | None:
        """How long the run took; None as long as it goes on, and where nothing is known of its times."""
        return (self._to_run()["elapsed_ms"] or None) if self.is_over else None

    def hand_fold(self, take: Callable[[TraceFold], bool]) -> bool:
        """Once the run is over, offer its fold to a trace, which has use for one of all events; says whether it had."""
        return self.is_over and take(self._fold)

    def with_warnings(self, warnings: Sequence[str]) -> TimelineMessages:
        """The same with more warnings: of what came after the last event."""
        made = copy(self)
        made._fold = copy(self._fold)
        made._fold.warnings = [*self._fold.warnings, *warnings]
        return made

    def add_scores(self, scores: Iterable[ScoreRecord]) -> bool:
        """Tell of these scores, too; says whether any of them is new."""
        return self._fold.add_scores(scores)

    def has_span(self, span_id: str) -> bool:
        """Whether there is this span by now."""
        return self._fold.find_span(span_id) is not None

    def list_span_ids(self) -> list[str]:
        """The ids of all spans by now."""
        with self._fold.lock:
            return [*self._fold.taken_over, *self._fold.spans]

    def find_tasks(self) -> dict[str, str]:
        """The ids of the run's own tasks by their names: of a map, its rows."""
        with self._fold.lock:
            spans = [*self._fold.taken_over.values(), *self._fold.spans.values()]
            return {span.name: span.span_id for span in spans if span.is_own_task}

    def name_task_around(self, span_id: str) -> str | None:
        """The name of the run's own task that a span is, or is in; None where it is in none."""
        with self._fold.lock:
            span = self._fold.find_span(span_id)
            while span is not None and not span.is_own_task:
                span = span.parent
            return None if span is None else span.name

    def make_snapshot(self) -> dict[str, Any]:
        """Everything by now but streamed text, with a record for each row: for views in this process."""
        with self._fold.lock:
            return {**self._make_head("snapshot"), "rows": [to_row(span) for span in self._list_shown()]}

    def make_outline(self) -> dict[str, Any]:
        """The same with only so much of each row as tells what is inside what, and how it ended: for what is kept."""
        with self._fold.lock:
            head = {**self._make_head("snapshot"), "saved_at": self._now().isoformat()}
            # What is unknown or false is not left out.
            return {**head, "rows": [{name: read(span) for name, read in _OUTLINE} for span in self._list_shown()]}

    def make_past(self, ms: float) -> dict[str, Any]:
        """As `make_snapshot`, of a run that is over as it was at a time in it (W35).

        Args:
            ms: since the start of the run.
        """
        snapshot = self.make_snapshot()
        rows = [row for each in snapshot["rows"] if (row := row_at(each, ms)) is not None]
        run = run_at(snapshot["run"], self._series, ms)
        return {**snapshot, "length_ms": snapshot["run"]["elapsed_ms"], "run": run, "rows": rows}

    def make_rows(self, span_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The records of these rows, by their ids."""
        with self._fold.lock:
            spans = {**self._fold.taken_over, **self._fold.spans}
            return {span_id: to_row(spans[span_id]) for span_id in span_ids}

    def pack_snapshot(self) -> Packed:
        """Everything by now, the rows as columns in one buffer, and the end of each text that is being streamed."""
        with self._fold.lock:
            shown = self._list_shown()
            columns, buffer = to_buffer(pack_rows(shown))
            tails = []
            for span_id in self._fold.tree.open:
                if (stream := self._fold.streams.get(span_id)) is not None:
                    text = stream.read()
                    start = max(0, len(text) - TAIL)
                    tails.append([span_id, text[start:], start])
            head = {**self._make_head("snapshot"), "count": len(shown), "columns": columns, "text": tails}
            return head, [buffer]

    def make_delta(self, since: int) -> dict[str, Any]:
        """What changed after message `since`, with a record for each row.

        Args:
            since: the number of a message of this run, from 0 to `count`.
        """
        with self._fold.lock:
            rows = [to_row(span) for span in self._list_changed(since)]
            return {**self._make_delta_head(since), "rows": rows}

    def pack_delta(self, since: int) -> Packed:
        """The same, at a cost in proportion to what changed; many rows, as at the end of a run, come as columns."""
        with self._fold.lock:
            changed = self._list_changed(since)
            if len(changed) < FEW_ROWS:
                return self.make_delta(since), []
            columns, buffer = to_buffer(pack_rows(changed))
            return {**self._make_delta_head(since), "count": len(changed), "columns": columns}, [buffer]

    def make_details(self, span_id: str) -> dict[str, Any]:
        """What the drawer shows of one span, or of the whole run."""
        with self._fold.lock:
            if span_id == WHOLE_RUN:
                return {"kind": "details", "span_id": span_id, "transcript": pack_transcript(self._fold)}
            details = to_details(self._fold, span_id)
            return details | ({"pictures": pictures} if (pictures := pack_pictures(self._fold, details)) else {})

    def make_piece(self, span_id: str, field: str, start: int) -> dict[str, Any]:
        """More of a text that was too long for the details: a piece of it, from character `start` on."""
        with self._fold.lock:
            return to_piece(self._fold, span_id, field, start)

    def search_texts(self, words: Sequence[str]) -> dict[str, Any]:
        """Where these words stand in the texts of the run."""
        from ensemble_notebook.trace.timeline.text_search import search_texts  # few pages ask

        return search_texts(self._fold, words)

    def make_cells(self, span_ids: Iterable[Any]) -> dict[str, Any]:
        """What stands in the cells of the table of a map (W153): of at most `MOST_CELLS` of these spans."""
        with self._fold.lock:
            cells: list[Any] = make_cells(self._fold, islice(span_ids, MOST_CELLS))
            if pictures := pack_digests(self._fold, list_pictured(cells)):
                cells.insert(0, pictures)
            return {"kind": "cells", "cells": cells}

    def make_graph(self) -> dict[str, Any]:
        """The run as a graph (W32): for a view that shows it, which asks again when there is more to be shown."""
        with self._fold.lock:
            count, graphs = self._fold.count, make_run_graphs(self._fold)
        return {"kind": "graph", "n": count, "graphs": self._graphs.pack(graphs)}

    def get_task_outputs(self) -> dict[str, str]:
        """What the tasks wrote, by the ids of their spans; all of it."""
        with self._fold.lock:
            return {
                span.span_id: span.output
                for span in self._fold.spans.values()
                if span.kind is SpanKind.TASK and span.output
            }

    def make_saved_view(self, max_bytes: int = SAVED_BYTES) -> dict[str, Any]:
        """The content of the trace's own MIME type: a snapshot with details, in at most `max_bytes` of JSON.

        Where not everything fits, ``kept`` says for each kind how many rows of how many there are, ``rows_left_out``
        and ``details_left_out`` how much is missing; texts are shorter than on request. The run is always there, and of
        one that is over the ``series``, which is made of all of its spans (W35).
        """
        with self._fold.lock:
            saved = {**self._make_head("saved"), "saved_at": self._now().isoformat()}
            if self.is_over and measure_bytes(series := pack_series(self._series)) <= max_bytes * SERIES_SHARE:
                saved["series"] = series
            room = TRANSCRIPT_SHARE * max_bytes
            is_short = sum(map(len, self._fold.messages.values())) * LEAST_UTTERANCE <= room
            if is_short and measure_bytes(transcript := pack_transcript(self._fold)) <= room:
                saved["transcript"] = transcript
            if measure_bytes(graphs := self._graphs.pack(make_run_graphs(self._fold))) <= GRAPH_SHARE * max_bytes:
                saved["graphs"] = graphs
            add_rows_and_details(saved, self._fold, self._list_shown(), max_bytes)
            return saved

    @cached_property
    def _series(self) -> list[Point]:
        """Of a run that is over."""
        with self._fold.lock:
            return make_series(self._fold)

    def _to_run(self) -> dict[str, Any]:
        return RunState(self._fold, self._now(), self._standing.read(self._fold), **self._known).to_record()

    def _make_head(self, kind: str) -> dict[str, Any]:
        # The kind first: a run may have very many other spans.
        phases = [each for each in self._fold.spans.values() if each.kind is SpanKind.PHASE and _is_phase(each)]
        head = {"kind": kind, "version": VERSION, "n": self._fold.count, "run": self._to_run()}
        return {**head, "phases": [PHASE.to_full_record(each) for each in phases]}

    def _make_delta_head(self, since: int) -> dict[str, Any]:
        """What came after message `since`, without rows: the run, and text by call with where in it that begins."""
        pieces = []
        for span_id, stream in reversed(self._fold.streams.items()):
            if stream.version <= since:  # what changed last is at the end of `streams`
                break
            start, piece = stream.read_since(since)
            if piece:
                pieces.append([span_id, piece, start])
        head = {"kind": "delta", "version": VERSION, "from": since, "n": self._fold.count}
        return {**head, "run": self._to_run(), "text": pieces}

    def _list_changed(self, since: int) -> list[Span]:
        changed = sorted(self._fold.tree.list_changed_since(since), key=lambda span: span.position)
        return [span for span in changed if span.kind.traits.is_shown]

    def _list_shown(self) -> list[Span]:
        shown = [span for span in self._fold.spans.values() if span.kind.traits.is_shown]
        return [*self._fold.taken_over.values(), *shown]


def to_row(span: Span) -> dict[str, Any]:
    """One row: the columns of `ROWS`, what is unknown, false or empty left out."""
    return ROWS.to_record(span)


class _StandingMemory:
    """How the variants of a map stand. While rows come it is told anew now and then, so that it holds up nothing.

    An interval that holds after each row at once is true later, too.
    """

    def __init__(self) -> None:
        self._known: Any = None
        self._count = -1
        self._due_s = 0.0

    def read(self, fold: TraceFold) -> Any:
        """As it is by now; None of another run, and before the first score."""
        if not fold.has_scores or not fold.task_noun.is_run:
            return None
        is_over = fold.status not in (RunStatus.PENDING, RunStatus.RUNNING)
        if fold.count != self._count and (is_over or time.monotonic() >= self._due_s):
            began_s = time.thread_time()
            self._known, self._count = render_view("standing", fold), fold.count
            self._due_s = time.monotonic() + STANDING_SHARE * (time.thread_time() - began_s)
        return self._known


@dataclass(frozen=True)
class RunState:
    """How a run stands at the time of asking; the attributes are columns of `RUN`."""

    fold: TraceFold
    now: datetime
    standing: Any = None
    variable: str | None = None
    cell: str | None = None
    is_resumable: bool = False
    view: str | None = None

    def to_record(self) -> dict[str, Any]:
        """The columns of `RUN`."""
        record = RUN.to_full_record(self)
        if (manager := find_manager(self.fold)) is not None:  # its tasks are those as written, and are done with it
            total = len(manager.managed)
            record |= {"tasks_total": total, "tasks_done": total if manager.status is SpanStatus.OK else 0}
        return record

    @property
    def opening_view(self) -> str:
        """The view it opens in: as somebody asked, else the one that says most."""
        has_many = self.fold.task_noun.is_run or self.fold.longest_list > MOST_ITEMS
        is_demo = self.fold.replayed_from is not None and self.fold.replayed_from.startswith(DEMO)
        return self.view or ("grid" if has_many else "graph" if is_demo else "bars")

    @property
    def totals(self) -> UsageTotals:
        """Its sums."""
        return (self.fold.run and self.fold.run.totals) or UsageTotals()

    @property
    def currency(self) -> str:
        """Of its cost."""
        return self.fold.currency

    @property
    def name(self) -> str | None:
        """What views call the run. A variable that nobody chose, such as ``_ensemble``, is no name."""
        variable = self.variable or ""
        return self.fold.name or (variable if not variable.startswith("_") else "") or self.cell

    @property
    def sentence(self) -> str | None:
        """What happened; None before the end."""
        return self.fold.summary or describe_run(self.fold)

    @property
    def elapsed_ms(self) -> float:
        """How long the run takes: by its own clock once it is over; before, by the time of day, as views do."""
        run = self.fold.run
        if run is None or run.start_time is None:
            return 0.0
        if run.end_ms is not None:
            return run.end_ms
        return max(0.0, (self.now - run.start_time).total_seconds() * 1000)

    @property
    def ended_at(self) -> str | None:
        """When it ended."""
        run = self.fold.run
        if run is None or run.start_time is None or run.end_ms is None:
            return None
        return (run.start_time + timedelta(milliseconds=run.end_ms)).isoformat()

    @property
    def phases_now(self) -> list[str]:
        """The names of the phases that run, in order of start."""
        return [span.name for span in self.fold.tree.open.values() if _is_phase(span)]

    @property
    def active(self) -> list[dict[str, Any]]:
        """What is at work: calls, and tasks that are in no call; the longest running first."""
        running = list(self.fold.tree.open.values())
        calling = {span.task_id for span in running if span.kind.traits.is_activity}
        tasks = {span.span_id for span in running if span.kind is SpanKind.TASK} - calling
        active = [span for span in running if span.kind.traits.is_activity or span.span_id in tasks]
        return [ACTIVE.to_full_record(span) for span in active[:MOST_ACTIVE]]

    @property
    def many(self) -> dict[str, Any] | None:
        """How far the work on many has come: on the items of tasks that run now, or on the rows of a map."""
        counts = self.fold.tree.task_counts
        open_tasks = [span for span in self.fold.tree.open.values() if span.kind is SpanKind.TASK]
        tasks = [span for span in open_tasks if span.is_planned and (span.item_count or 0) > MOST_ITEMS]
        if tasks:
            total = sum(span.item_count or 0 for span in tasks)
            done, failed = sum(span.items_done for span in tasks), sum(span.items_failed for span in tasks)
            start_ms = min(span.start_ms or 0.0 for span in tasks)
        elif self.fold.task_noun.is_run and open_tasks and (total := sum(counts.values())) > MOST_ITEMS:
            done, failed = counts[SpanStatus.OK], sum(counts[status] for status in _ENDED_OTHERWISE)
            start_ms = 0.0
        else:
            return None
        return MANY.to_full_record(SimpleNamespace(total=total, done=done, failed=failed, start_ms=start_ms))

    @property
    def waiting(self) -> list[str]:
        """The ids of the reviews that a person has not answered yet."""
        reviews = (each for each in self.fold.tree.open.values() if each.kind is SpanKind.REVIEW)
        # Phases are looked at by tasks and functions.
        return [each.span_id for each in reviews if each.status is SpanStatus.WAITING and each.name != "phase"]

    @property
    def pending(self) -> dict[str, Any] | None:
        """The calls of reviewed tools that nobody has answered by the end, in order, and the code that does."""
        if self.ended_at is None or not (left := list_pending(self.fold.spans.values())):
            return None
        calls = [
            PENDING_CALL.to_record(
                SimpleNamespace(
                    id=call.id,
                    span_id=span.span_id,
                    text=_write_call(call),
                    since=call.since.isoformat(),
                    agent=clean_text(call.agent),
                    task=call.task and clean_text(call.task),
                    row=call.row and clean_text(call.row),
                    is_unknown=call.is_unknown,
                )
            )
            for span, call in left[:MOST_PENDING]
        ]
        has_rows = self.fold.task_noun.is_run
        known = self.variable and f"{self.variable}.ensemble"
        run_id = None if self.fold.run is None else self.fold.run.run_id
        call = f"{known or 'ensemble'}.{'map(rows, ' if has_rows else 'run('}"
        code = f"{call}resume={self.variable or json.dumps(run_id)}, answers={{}})"
        return PENDING.to_full_record(SimpleNamespace(count=len(left), calls=calls, code=code))

    @property
    def budget(self) -> dict[str, Any] | None:
        """The limits, what this run has spent of them, and the largest share; None without a budget."""
        if self.fold.budget is None:
            return None
        totals, limits = self.totals, self.fold.budget.limits
        spent = {"cost": totals.cost, "tokens": totals.total_tokens, "llm_calls": totals.llm_attempt_count}
        share = max(float(spent[name.removeprefix("max_")] or 0) / float(limit) for name, limit in limits.items())
        facts = {f"max_{name}": limits.get(f"max_{name}") for name in spent}
        state = {**facts, **spent, "share": share, "warn_at": self.fold.budget.warn_at, "currency": self.currency}
        return BUDGET.to_full_record(SimpleNamespace(**state))

    @property
    def ranges(self) -> list[dict[str, Any]] | None:
        """The times that a person has named, the latest ones in order of their start; None where there are none."""
        run_id = None if self.fold.run is None else self.fold.run.run_id  # a map has those of its rows' runs, too
        named = [each for each in list_current(self.fold.time_scores) if each.run_id == run_id]
        latest = sorted(named[-MOST_RANGES:], key=lambda each: (each.from_ms or 0.0, -(each.to_ms or 0.0)))
        return [RANGE.to_full_record(each) for each in latest] or None

    @property
    def warnings(self) -> list[str]:
        """The latest warnings, in order of appearance."""
        return [shorten(each, LONGEST_WARNING) for each in self.fold.warnings[-MOST_WARNINGS:]]

    @property
    def error(self) -> dict[str, Any] | None:
        """What ended the run."""
        error = self.fold.error
        return error and FAILURE.to_full_record(SimpleNamespace(type=error.type, message=error.message or ""))


def _write_call(call: PendingCall) -> str:
    """A call as code has it, with what hides in it in sight."""
    given = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in (call.arguments or {}).items()
    )
    text = show_hidden_characters(mask_start(mend_text(f"{call.tool}({given})"), LONGEST_CALL + 1))
    return text if len(text) <= LONGEST_CALL else f"{text[: LONGEST_CALL - 1]}…"


def _is_phase(span: Span) -> bool:
    """True for a phase of the run itself; those of nested runs are rows and no frames around others."""
    return span.kind is SpanKind.PHASE and span.nested_in is None
