"""The trace as DataFrames (T20, T21): made at first use, kept, never changed by us.

The one place where a trace meets pandas; what the columns are is in `tables`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_notebook.domain.definitions.enums import PhaseStatus, SpanStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.errors.pickling import Pickled
from ensemble_notebook.trace.analysis.agent_stats import AGENTS, AgentStats, collect_agent_stats
from ensemble_notebook.trace.analysis.critical_path import CRITICAL_PATH, Segment, list_segments
from ensemble_notebook.trace.analysis.map_rows import MAP_ROWS, TabledRow, list_tabled_rows, spread_columns
from ensemble_notebook.trace.analysis.timeseries import TIMESERIES, RunActivity, compute_timeseries, measure_activity
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.parquet_files import check_parquet, write_parquet_folder
from ensemble_notebook.trace.spans.links import Link, find_links
from ensemble_notebook.trace.spans.span import Message, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.frame_tables import (
    ATTEMPTS,
    DELEGATIONS,
    ERRORS,
    EVENTS,
    LINKS,
    LLM_CALLS,
    MESSAGES,
    PHASES,
    REVIEWS,
    RUNS,
    SCORES,
    SPANS,
    TASKS,
    TOOL_CALLS,
    list_logged_events,
)
from ensemble_notebook.trace.tables.table import HasFrames, as_frame, document_table, list_frames

if TYPE_CHECKING:
    import pandas as pd


class Frames(Pickled, HasFrames):
    """The frames of one run; ``help(Frames)`` lists the columns of each.

    Rows are in order of start, then of event number; what never ran comes last. Each row names its agent, task and
    phase, so that most questions are one line. Which agent spent the most tokens on calls that asked for tools, how
    long each one waited for them, and what made the run as long as it was::

        frames.agents.tool_tokens.idxmax()
        frames.agents.tool_wait_ms
        frames.critical_path.groupby("kind").share.sum()

    Args:
        fold: of a run, over or not; each frame shows it as it was when the frame was first used.
        events: of the same run.
        scores: of the same run, or of the rows of a map; as they are to be shown.
    """

    def __init__(self, fold: TraceFold, events: Sequence[Event] = (), scores: Sequence[ScoreRecord] = ()) -> None:
        self._fold = fold
        self._events = events
        self._scores = scores

    def _get_pickled_state(self) -> dict[str, object]:
        """What the frames are made from; they are made again when they are used."""
        return {"_fold": self._fold, "_events": self._events, "_scores": self._scores}

    @as_frame(RUNS)
    def runs(self) -> Sequence[RunActivity]:
        with self._fold.lock:
            return measure_activity(self._fold)

    @as_frame(SPANS)
    def spans(self) -> Sequence[Span]:
        return self._select_spans(*SpanKind)

    @as_frame(PHASES)
    def phases(self) -> Sequence[Span]:
        phases = [span for span in self._select_spans(SpanKind.PHASE) if span.nested_in is None]
        return [attempt for span in phases for attempt in _split_into_attempts(span)]

    @as_frame(TASKS)
    def tasks(self) -> Sequence[Span]:
        tasks = self._select_spans(SpanKind.TASK)
        return (
            [*_list_row_tasks(tasks)] if self._fold.task_noun.is_run else [each for each in tasks if each.is_own_task]
        )

    @as_frame(AGENTS)
    def agents(self) -> Sequence[AgentStats]:
        spans = self._select_spans(*SpanKind)
        if self._fold.task_noun.is_run:  # a row is nobody's work, but for what is done in it
            spans = [each for each in spans if not each.is_own_task and each.kind is not SpanKind.NESTED]
        return collect_agent_stats(spans)

    @as_frame(LLM_CALLS)
    def llm_calls(self) -> Sequence[Span]:
        return [span for span in self._select_spans(SpanKind.LLM) if span.is_call]

    @as_frame(ATTEMPTS)
    def attempts(self) -> Sequence[Span]:
        return self._select_spans(SpanKind.ATTEMPT)

    @as_frame(TOOL_CALLS)
    def tool_calls(self) -> Sequence[Span]:
        return self._select_spans(SpanKind.TOOL)

    @as_frame(DELEGATIONS)
    def delegations(self) -> Sequence[Span]:
        return self._select_spans(SpanKind.DELEGATION)

    @as_frame(REVIEWS)
    def reviews(self) -> Sequence[Span]:
        return self._select_spans(SpanKind.REVIEW)

    @as_frame(LINKS)
    def links(self) -> Sequence[Link]:
        return [*find_links(self._select_spans(*SpanKind))]

    @as_frame(CRITICAL_PATH)
    def critical_path(self) -> Sequence[Segment]:
        with self._fold.lock:
            return list_segments(self._fold)

    @as_frame(EVENTS)
    def events(self) -> Sequence[Event]:
        return list_logged_events(self._events)

    @as_frame(MESSAGES)
    def messages(self) -> Sequence[Message]:
        with self._fold.lock:
            messages = [message for task in self._fold.messages.values() for message in task]
        return sorted(messages, key=lambda message: message.number)

    @as_frame(ERRORS)
    def errors(self) -> Sequence[Span]:
        failed = [span for span in self._select_spans(*SpanKind) if span.status is SpanStatus.ERROR]
        return sorted(failed, key=lambda span: span.end_seq or 0)

    @as_frame(MAP_ROWS, lambda frames, made: spread_columns(made, frames.scores))
    def rows(self) -> Sequence[TabledRow]:
        return list_tabled_rows(self._fold, self._events)

    @as_frame(SCORES)
    def scores(self) -> Sequence[ScoreRecord]:
        return self._scores

    @document_table(TIMESERIES)
    def timeseries(self, dt: float | timedelta | None = None) -> pd.DataFrame:
        """The run over time, in bins of length `dt` (seconds or a timedelta; None: a hundredth of the run)."""
        with self._fold.lock:
            return TIMESERIES.to_frame(compute_timeseries(self._fold, dt))

    def to_parquet(self, folder: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Write each of these tables to a file of its own in a folder, ``tasks.parquet`` and so on (T123).

        The types are the same whatever is in a table. Instants are in microseconds, UTC. Columns of dicts are JSON
        text, and so are inputs and outputs of rows that have no common type. The index of a frame is the first column.

        Args:
            folder: is made where there is none.
            overwrite: it may have files, and those of these tables are replaced; others stay.

        Returns:
            The path of the folder.

        Raises:
            ValidationError: there is a file in its place, it has files and `overwrite` is not set, or it is an address.
            MissingPackageError: pyarrow is not installed.
            OSError: the folder can't be written; what was there before is still there.
        """
        check_parquet()
        kinds = list_frames(Frames)
        tables = ((name, getattr(self, name), each.table) for name, each in kinds.items())
        series = ((name, self.timeseries(), TIMESERIES) for name in ["timeseries"])
        path = read_path(folder, "folder")
        write_parquet_folder(chain(tables, series), path, overwrite=overwrite)
        return path

    def _select_spans(self, *kinds: SpanKind) -> list[Span]:
        with self._fold.lock:
            chosen = [span for span in self._fold.spans.values() if span.kind in kinds]
        return sorted(chosen, key=lambda span: (math.inf if span.start_ms is None else span.start_ms, span.seq))

    def __repr__(self) -> str:
        """What there is."""
        names = [*list_frames(Frames), "timeseries"]
        return f"Frames({', '.join(names)})"


def _list_row_tasks(tasks: Sequence[Span]) -> Iterator[Span]:
    """The tasks of the rows of a map, each called ``ROW/NAME``; a row that has no run, or none yet, is there itself."""
    begun = {each.row for each in tasks}
    for each in tasks:
        if each.row is not None:  # under a name that no other row has
            whole = None if each.item_of is None else f"{each.row}/{each.item_of}"
            yield replace(each, task=f"{each.row}/{each.name}", item_of=whole)
        elif each.is_own_task and each.name not in begun:
            yield replace(each, agent=None)


def _split_into_attempts(phase: Span) -> Iterator[Span]:
    """Each time that a phase was done, as a span of its own (E28); one of a phase that never ran."""
    start_ms, start_time = phase.start_ms, phase.start_time
    for number, returned in enumerate(phase.sent_back, start=1):
        yield replace(
            phase,
            attempt=number,
            start_ms=start_ms,
            start_time=start_time,
            end_ms=returned.end_ms,
            end_time=returned.end_time,
            totals=returned.totals,
            ended_as=PhaseStatus.COMPLETED,  # what was sent back had completed: its review is another matter
            error_type=None,
            error_message=None,
            attributes={"feedback": returned.feedback},
        )
        start_ms, start_time = returned.end_ms, returned.end_time
    last = None if phase.start_ms is None else len(phase.sent_back) + 1
    yield replace(phase, attempt=last, start_ms=start_ms, start_time=start_time, totals=phase.attempt_totals)
