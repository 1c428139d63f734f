"""Spans and runs as the timeline gets them: plain JSON values, absent where unknown, bounded in size.

What is in them is in `timeline_columns`. Knows nothing of what asks for them or when.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import shorten
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.usage_totals import UsageTotals
from ensemble_notebook.trace.tables.timeline_columns import ACTIVE, BUDGET, FAILURE, MANY, PHASE, ROWS, RUN
from ensemble_notebook.trace.timeline.run_sentence import describe_run, find_manager

LONGEST_WARNING: Final = 500
MOST_ACTIVE: Final = 20
MOST_WARNINGS: Final = 20
MOST_ITEMS: Final = 12
"""More items or rows than these are shown as one (W25)."""

_ENDED_OTHERWISE: Final = (SpanStatus.ERROR, SpanStatus.CANCELLED, SpanStatus.INTERRUPTED, SpanStatus.SKIPPED)

# Columns of rows that are the attributes of a span as they are.
_OUTLINE: Final = (
    "span_id",
    "parent_id",
    "kind",
    "status",
    "end_ms",
    "wait_kind",
    "is_scripted",
    "item_count",
    "review_id",
    "work",
)
_read_outline: Final = attrgetter(*_OUTLINE)


def to_row(span: Span) -> dict[str, Any]:
    """One row: the columns of `ROWS`, what is unknown, false or empty left out."""
    return ROWS.to_record(span)


def to_outline(span: Span) -> dict[str, Any]:
    """Of a row what a picture of very many needs of all; what is unknown or false is not left out."""
    return dict(zip(_OUTLINE, _read_outline(span), strict=True))


def to_run(
    fold: TraceFold,
    now: datetime,
    variable: str | None = None,
    cell: str | None = None,
    *,
    is_resumable: bool = False,
) -> dict[str, Any]:
    """The state of the run as a whole: the columns of `RUN`, `now` being the time of asking."""
    record = RUN.to_full_record(RunState(fold, now, variable, cell, is_resumable=is_resumable))
    if (manager := find_manager(fold)) is not None:  # its tasks are those that were written, and are done with it
        is_done = manager.status is SpanStatus.OK
        record |= {"tasks_total": len(manager.managed), "tasks_done": len(manager.managed) if is_done else 0}
    return record


def to_phases(fold: TraceFold) -> list[dict[str, Any]]:
    """The phases with their predecessors, in order of declaration."""
    # The kind first: a run may have very many other spans.
    return [
        PHASE.to_full_record(span) for span in fold.spans.values() if span.kind is SpanKind.PHASE and _is_phase(span)
    ]


class RunState:
    """How a run stands; the attributes are columns of `RUN`."""

    def __init__(
        self,
        fold: TraceFold,
        now: datetime,
        variable: str | None = None,
        cell: str | None = None,
        *,
        is_resumable: bool = False,
    ) -> None:
        self.fold = fold
        self.is_resumable = is_resumable
        self.variable = variable
        self._cell = cell
        self.totals = UsageTotals() if fold.run is None or fold.run.totals is None else fold.run.totals
        self.currency = fold.currency
        self._now = now

    @property
    def name(self) -> str | None:
        """What views call the run. A variable that nobody chose, such as ``_ensemble``, is no name."""
        variable = self.variable or ""
        return self.fold.name or (variable if not variable.startswith("_") else "") or self._cell

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
        return max(0.0, (self._now - run.start_time).total_seconds() * 1000)

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
        active = [
            span
            for span in running
            if span.kind.traits.is_activity or (span.kind is SpanKind.TASK and span.span_id not in calling)
        ]
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
        return [span.span_id for span in self.fold.tree.open.values() if _is_question_to_person(span)]

    @property
    def budget(self) -> dict[str, Any] | None:
        """The limits, what this run has spent of them, and the largest share; None without a budget."""
        if self.fold.budget is None:
            return None
        spent = {
            "max_cost": self.totals.cost or 0,
            "max_tokens": self.totals.total_tokens or 0,
            "max_llm_calls": self.totals.llm_attempt_count,
        }
        limits = self.fold.budget.limits
        return BUDGET.to_full_record(
            SimpleNamespace(
                **{name: limits.get(name) for name in spent},
                cost=self.totals.cost,
                tokens=self.totals.total_tokens,
                llm_calls=self.totals.llm_attempt_count,
                share=max(float(spent[name]) / float(limit) for name, limit in limits.items()),
                warn_at=self.fold.budget.warn_at,
                currency=self.currency,
            )
        )

    @property
    def warnings(self) -> list[str]:
        """The latest warnings, in order of appearance."""
        return [shorten(each, LONGEST_WARNING) for each in self.fold.warnings[-MOST_WARNINGS:]]

    @property
    def error(self) -> dict[str, Any] | None:
        """What ended the run."""
        if self.fold.error is None:
            return None
        error = self.fold.error
        return FAILURE.to_full_record(SimpleNamespace(type=error.type, message=error.message or ""))


def _is_question_to_person(span: Span) -> bool:
    """An open question; phases are looked at by tasks and functions."""
    is_open = span.kind is SpanKind.REVIEW and span.status is SpanStatus.WAITING
    return is_open and (span.attributes or {}).get("subject") != "phase"


def _is_phase(span: Span) -> bool:
    """True for a phase of the run itself; those of nested runs are rows and no frames around others."""
    return span.kind is SpanKind.PHASE and span.nested_in is None
