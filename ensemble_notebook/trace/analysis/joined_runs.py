"""Two runs in one fold, for a timeline that shows both (W17): each task of the first above the same task of the second.

Both start at 0. The rows are like those of any run, so that every view can show them. Tasks of the first run are called
``A · name``, those of the second ``B · name``; a phase of both is one row around the tasks of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.trace.analysis.run_diff import RunDiff
from ensemble_notebook.trace.analysis.span_diffs import RowDiff, format_deltas
from ensemble_notebook.trace.analysis.timeseries import find_latest_ms
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

SIDES: Final = ("A", "B")
_OPEN: Final = (SpanStatus.RUNNING, SpanStatus.WAITING, SpanStatus.PENDING)
_GOING_ON: Final = (RunStatus.PENDING, RunStatus.RUNNING)


class JoinedRuns(TraceFold):
    """The fold of both runs, up to where they had got. Sums, counts and inputs are those of the second run.

    Args:
        diff: the comparison of the two.
    """

    def __init__(self, diff: RunDiff) -> None:
        super().__init__()
        # Not folded from events of both: each has counts, prices and a clock of its own, and ids may be the same.
        before, after = diff.before, diff.after
        self._folds = dict(zip(SIDES, (before, after), strict=True))
        self._latest_ms = {side: find_latest_ms(fold) for side, fold in self._folds.items()}
        self._copies: dict[tuple[str, str], Span] = {}
        self.run_id = f"{before.run_id}.{after.run_id}"
        names = diff.labels or (before.name, after.name)
        self.name = f"{names[0] or 'run'}: A → B" if names[0] == names[1] else f"{names[0]} → {names[1]}"
        self.summary = diff.summary
        self.workflow, self.inputs, self.agents = after.workflow, after.inputs, after.agents
        self.currency, self.capture_mode = after.currency, after.capture_mode
        self.budget, self.task_noun = after.budget, after.task_noun
        self.status = RunStatus.INTERRUPTED if after.status in _GOING_ON else after.status
        self.exit_reason, self.error, self.warnings = after.exit_reason, after.error, list(diff.notes)
        with before.lock, after.lock:
            self.tree.next_version()
            self.tree.task_counts = dict(self._folds["B"].tree.task_counts)
            longest_ms = max(self._latest_ms.values())
            for row in diff.all_rows:
                sides = [
                    (side, span) for side, span in zip(SIDES, (row.before, row.after), strict=True) if span is not None
                ]
                if row.span.kind is SpanKind.RUN:
                    ids: dict[str, Any] = {"span_id": self.run_id, "run_id": self.run_id, "parent_id": None}
                    self.run = replace(row.span, **ids, start_ms=0.0, end_ms=longest_ms)
                    self._keep(self.run, sides)
                elif row.span.kind is SpanKind.PHASE and row.span.nested_in is None:
                    self._add_phase(row, sides)
                else:
                    for side, span in sides:
                        self._keep(self._copy(side, span, row), [(side, span)])
            numbers = count()
            for side, fold in self._folds.items():
                for message in chain.from_iterable(fold.messages.values()):
                    span = self._copies[side, message.span.span_id]
                    of_task = self.messages.setdefault(span.task_id or span.span_id, [])
                    of_task.append(replace(message, span=span, number=next(numbers)))

    @property
    def counted_spans(self) -> list[Span]:
        """Those of the second run alone."""
        return [span for span in self.spans.values() if span.span_id.startswith(f"{SIDES[1]}.")]

    def _add_phase(self, row: RowDiff, phases: Sequence[tuple[str, Span]]) -> None:
        """One row around the tasks of both."""
        starts = [span.start_ms for _, span in phases if span.start_ms is not None]
        ends = [self._find_end(side, span) for side, span in phases if span.start_ms is not None]
        side, last = phases[-1]
        phase = replace(
            self._copy(side, last, row), span_id=f"{self.run_id}.{row.path}", name=last.name, depends_on=last.depends_on
        )
        phase.start_ms, phase.end_ms = min(starts, default=None), max(ends, default=None)
        self._keep(phase, phases)

    def _copy(self, side: str, span: Span, row: RowDiff) -> Span:
        """A copy of a span under a name that only one of the runs has, inside the copy of its parent."""
        parent = None if span.parent is None else self._copies.get((side, span.parent.span_id))
        around = None if span.parent_id is None else self._copies.get((side, span.parent_id))
        task = None if span.task_id is None else self._copies.get((side, span.task_id))
        is_task = span.kind is SpanKind.TASK
        has_row = is_task or (span.task_id is None and span.kind is not SpanKind.PHASE)  # as a model that is started
        name = partial("{} · {}".format, side)
        copied = replace(
            span,
            span_id=f"{side}.{span.span_id}",
            run_id=self.run_id,
            parent_id=None if around is None else around.span_id,
            parent=parent,
            position=len(self.tree.spans),
            name=name(span.name) if has_row else span.name,
            task=name(span.task) if span.task is not None else None,
            depends_on=tuple(map(name, span.depends_on)) if is_task else span.depends_on,
            context=tuple(map(name, span.context)),
            end_ms=self._find_end(side, span) if span.start_ms is not None else None,
            scores=(),  # scores of one name may be of different scorers
        )
        copied.task_id = copied.span_id if is_task else None if task is None else task.span_id
        if span.status in _OPEN and span.start_ms is not None:
            copied.status = SpanStatus.CANCELLED
        told = describe_delta(row, self.currency) if is_task and (side == "B" or row.after is None) else ""
        if told:
            copied.attributes = {**(span.attributes or {}), "delta": told}
        return copied

    def _find_end(self, side: str, span: Span) -> float:
        """When a span ended; for an open span, the time of the last event of its run."""
        return self._latest_ms[side] if span.end_ms is None else span.end_ms

    def _keep(self, span: Span, originals: Sequence[tuple[str, Span]]) -> None:
        span.version = 0
        self.tree.spans[span.span_id] = span
        self.tree.touch(span)
        self._copies |= {(side, original.span_id): span for side, original in originals}


def describe_delta(row: RowDiff, currency: str) -> str:
    """The differences of a task in a few words; empty if it took as much as in the first run."""
    if row.before is None or row.after is None:
        return row.status
    if row.status == "reused":
        return "reused, not compared"
    deltas = (row.delta.ms, row.delta.tokens, row.delta.cost)
    time, tokens, cost = format_deltas(row, currency)
    parts = zip(deltas, (time, f"{tokens} tokens", cost), strict=True)
    return " · ".join(told for delta, told in parts if delta and not told.startswith("<"))
