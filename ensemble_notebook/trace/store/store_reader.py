"""What the store tells: runs, their events, exchanges and results. The file is hostile until it is read (E71)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus, SpanStatus, Workflow
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.task_output import Sums, TaskOutput
from ensemble_notebook.domain.value_text import format_instant, parse_instant
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.codec.records import read_event, read_value
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.store.run_facts import (
    RememberedRun,
    RunFacts,
    RunSummary,
    StoredResult,
    describe_owner,
    is_alive,
)
from ensemble_notebook.trace.store.run_rows import decode_event_piece, decode_piece
from ensemble_notebook.trace.store.store_file import describe_fault, open_file

# What only traces need is imported where one is made: each remembered run loads this module.
T = TypeVar("T")

SIGNS_OF_DAMAGE: Final = (KeyError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
_RUN: Final = "SELECT status, ended_at, seen_at, owner, facts FROM runs"
_RESULT: Final = "SELECT run_id, path, key, parts, data FROM results"
_ALIKE: Final = """
    WITH wanted AS (SELECT value FROM json_each(?)), alike AS (
        SELECT run_id, count(DISTINCT path) AS tasks FROM results
        WHERE path IN wanted OR substr(path, 1, instr(path, '[') - 1) IN wanted
        OR substr(path, 1, instr(path, '/') - 1) IN wanted GROUP BY run_id
    )
    SELECT run_id, coalesce(tasks, 0) AS tasks, CASE
        WHEN json_valid(facts) AND json_extract(facts, '$.origin.cellId') = ? THEN 2 WHEN name = ? THEN 1 ELSE 0
    END AS rank
    FROM runs LEFT JOIN alike USING (run_id) WHERE rank > 0 OR tasks > 0
    ORDER BY rank DESC, CASE rank WHEN 0 THEN tasks ELSE 0 END DESC, number DESC LIMIT ?
"""
_MOST_ALIKE: Final = 50
_RUNS_LOOKED_AT: Final = 5
_RESULTS_LOOKED_AT: Final = 200


def read_runs(connection: sqlite3.Connection, limit: int | None = None) -> Iterator[RememberedRun]:
    """The runs, newest first; what can't be read is left out."""
    for row in connection.execute(f"{_RUN} ORDER BY number DESC LIMIT ?", (-1 if limit is None else limit,)):
        try:
            yield _read_run(row)
        except SIGNS_OF_DAMAGE:
            continue


def read_runs_elsewhere(connection: sqlite3.Connection, since: datetime) -> list[RememberedRun]:
    """The runs of other processes that began at this time or later; what can't be read is left out."""
    found = []
    earliest = format_instant(since).removesuffix("Z")  # as a text before all of this second
    for row in connection.execute(f"{_RUN} WHERE started_at >= ? AND owner != ?", (earliest, describe_owner())):
        with suppress(*SIGNS_OF_DAMAGE):
            found.append(_read_run(row))
    return found


def read_run(connection: sqlite3.Connection, run_id: str) -> RememberedRun | None:
    """One run by its whole id.

    Raises:
        StoreError: its row is damaged.
    """
    row = connection.execute(f"{_RUN} WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else _locate(run_id, lambda: _read_run(row))


def read_begun(connection: sqlite3.Connection) -> set[str]:
    """The ids of the runs that have an event."""
    query = "SELECT run_id FROM runs WHERE EXISTS (SELECT 1 FROM events WHERE events.run_id = runs.run_id)"
    return {run_id for (run_id,) in connection.execute(query)}


def read_parents(connection: sqlite3.Connection) -> dict[str, str | None]:
    """The runs, oldest first, each with the one that it forks, calls again or goes on with; None: none."""
    query = """SELECT run_id, CASE WHEN json_valid(facts) THEN
        coalesce(json_extract(facts, '$.forkedFromRun'), json_extract(facts, '$.resumedFrom')) END
        FROM runs ORDER BY number"""
    return {run_id: parent if isinstance(parent, str) else None for run_id, parent in connection.execute(query)}


def read_summaries(connection: sqlite3.Connection, run_ids: Sequence[str] | None = None) -> dict[str, RunSummary]:
    """The summaries that are kept, by run, of all or of these; what can't be read is made again."""
    query = "SELECT run_id, summary FROM runs WHERE summary IS NOT NULL"
    wanted = [] if run_ids is None else [json.dumps(run_ids)]
    query += " AND run_id IN (SELECT value FROM json_each(?))" if wanted else ""
    found = {}
    for run_id, summary in connection.execute(query, wanted):
        with suppress(*SIGNS_OF_DAMAGE):
            found[run_id] = read_value(json.loads(summary), RunSummary)
    return found


def read_events(connection: sqlite3.Connection, run_id: str) -> Iterator[Event]:
    """The events of a run, in order, see `decode_events`."""
    yield from decode_events(run_id, read_pieces(connection, run_id))


def read_pieces(connection: sqlite3.Connection, run_id: str, most: int = -1) -> list[tuple[Any, Any]]:
    """The events of a run as they are stored: pieces, each with the number of its first event; all, or the first."""
    query = "SELECT seq, data FROM events WHERE run_id = ? ORDER BY seq LIMIT ?"
    return connection.execute(query, (run_id, most)).fetchall()


def decode_events(run_id: str, pieces: Iterable[tuple[Any, Any]]) -> Iterator[Event]:
    """The events in these pieces, in order; types that a later version has added are left out.

    Raises:
        StoreError: one of them is damaged.
    """
    for plain in _decode_documents(run_id, "events", (data for _, data in pieces), decode_event_piece):
        try:
            event = read_event(plain, run_id)
        except SIGNS_OF_DAMAGE as error:
            raise _explain(run_id, error) from error
        if event is not None:
            yield event
        elif not isinstance(plain["type"], str):
            raise StoreError(f"Run {run_id} can't be read from the store: an event is of type {plain['type']!r}.")


def read_exchanges(connection: sqlite3.Connection, run_id: str) -> Iterator[dict[str, Any]]:
    """The exchanges of a run, in order.

    Raises:
        StoreError: one of them is damaged.
    """
    rows = connection.execute("SELECT data FROM exchanges WHERE run_id = ? ORDER BY number", (run_id,))
    yield from _decode_documents(run_id, "exchanges", (data for (data,) in rows))


def read_results(connection: sqlite3.Connection, run_id: str) -> Iterator[StoredResult]:
    """The results of a run, in order; what is damaged is passed over."""
    for row in connection.execute(f"{_RESULT} WHERE run_id = ? ORDER BY number", (run_id,)):
        with suppress(*SIGNS_OF_DAMAGE):
            yield _read_result(row)


def read_scores(
    connection: sqlite3.Connection, run_id: str | None = None, name: str | None = None
) -> dict[str, list[ScoreRecord]]:
    """The scores of one run, of the runs of one name, or of all, by run and in the order in which they were given.

    What is damaged is left out, and secrets that were none when they were written are masked.
    """
    found: dict[str, list[ScoreRecord]] = {}
    query = (
        "SELECT run_id, data FROM scores WHERE coalesce(run_id = :run_id, TRUE) "
        "AND (:name IS NULL OR run_id IN (SELECT run_id FROM runs WHERE name = :name)) ORDER BY number"
    )
    try:
        rows = connection.execute(query, {"run_id": run_id, "name": name}).fetchall()
    except sqlite3.OperationalError:  # the file is of a time without
        return found
    for owner, data in rows:
        with suppress(*SIGNS_OF_DAMAGE):
            found.setdefault(owner, []).append(read_value(to_plain(json.loads(data)), ScoreRecord))
    return found


def read_new_scores(connection: sqlite3.Connection, after: int) -> tuple[dict[str, list[ScoreRecord]], int]:
    """The scores after the one of this number, as `read_scores` gives them, and the number of the last one."""
    found: dict[str, list[ScoreRecord]] = {}
    try:
        rows = connection.execute("SELECT number, run_id, data FROM scores WHERE number > ? ORDER BY number", (after,))
        for number, owner, data in rows:
            after = number
            with suppress(*SIGNS_OF_DAMAGE):
                found.setdefault(owner, []).append(read_value(to_plain(json.loads(data)), ScoreRecord))
    except sqlite3.OperationalError:  # the file is of a time without
        return {}, after
    return found, after


def read_reply_sizes(connection: sqlite3.Connection, name: str, paths: Collection[str]) -> dict[str, float]:
    """The mean length, in bytes, of what tasks put out in the last runs of a name, by path; damage is passed over."""
    sizes: dict[str, list[int]] = {}
    rows = connection.execute(
        "SELECT path, data FROM (SELECT run_id FROM runs WHERE name = ? ORDER BY number DESC LIMIT ?) "
        "JOIN results USING (run_id) ORDER BY results.number DESC LIMIT ?",
        (name, _RUNS_LOOKED_AT, _RESULTS_LOOKED_AT),
    )
    for path, data in rows:
        with suppress(*SIGNS_OF_DAMAGE):
            ends = (path[at:] for at in range(len(path)) if at == 0 or path[at - 1] == "/")
            (document,) = decode_piece(data)
            found = next((end for end in ends if end in paths), None)
            if found is not None and document.get("output") is not None:
                sizes.setdefault(found, []).append(len(document["output"].get("raw", "").encode()))
    return {path: sum(found) / len(found) for path, found in sizes.items()}


def _read_run(row: tuple[Any, ...]) -> RememberedRun:
    status, ended_at, seen_at, owner, facts = row
    status = RunStatus(status)
    if status is RunStatus.RUNNING and not is_alive(owner, seen_at):
        status = RunStatus.INTERRUPTED
    ended = None if ended_at is None else parse_instant(ended_at)
    return RememberedRun(facts=read_value(json.loads(facts), RunFacts), status=status, ended_at=ended)


def _read_result(row: tuple[Any, ...]) -> StoredResult:
    run_id, path, key, parts, data = row
    (document,) = decode_piece(data)
    output = document.get("output")
    return StoredResult(
        run_id=read_value(run_id, str),
        path=read_value(path, str),
        key=read_value(key, str),
        parts=_read_parts(parts),
        obstacle=read_value(document.get("obstacle"), str | None),
        output=None if output is None else read_value(output, TaskOutput),
        delegated=read_value(document.get("delegated", []), tuple[TaskOutput, ...]),
        has_lost_value=read_value(document.get("hasLostValue", False), bool),
        facts=dict(document.get("facts") or {}),
    )


def _read_parts(text: str) -> Mapping[str, str]:
    parts: Mapping[str, str] = read_value(json.loads(text), Mapping[str, str])
    return parts


def _decode_documents(
    run_id: str, table: str, pieces: Iterable[Any], decode: Callable[[Any], list[Any]] = decode_piece
) -> Iterator[dict[str, Any]]:
    for data in pieces:
        for plain in _locate(run_id, lambda data=data: decode(data)):  # type: ignore[misc]
            if not isinstance(plain, dict):
                raise StoreError(f"Run {run_id} can't be read from the store: a row of its {table} is damaged.")
            yield plain


def _locate(run_id: str, read: Callable[[], T]) -> T:
    """Whatever is wrong with a row, say whose it is."""
    try:
        return read()
    except SIGNS_OF_DAMAGE as error:
        raise _explain(run_id, error) from error


def _explain(run_id: str, error: Exception, what: str = "a row is") -> StoreError:
    reason = f"{type(error).__name__}: {error}"
    return StoreError(f"Run {run_id} can't be read from the store: {what} damaged ({reason}).")


# ----------------------------------------------------------------------------------------------------------------------
# Looks results up in the store, one after the other over one connection: to open the file takes longer than to look.
#
# Not the room of what results mean: `store_reader` reads them, and who asks knows why one serves.


class ResultReader:
    """The results in one file, which is opened when the first is asked for. The caller closes.

    Args:
        path: of the file, which may not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def find(
        self, key: str, path: str = "", is_fit: Callable[[StoredResult], bool] = lambda _: True
    ) -> StoredResult | None:
        """The newest result of this key, of whatever run or kernel, that can serve again; that of this path first.

        What is damaged is passed over.

        Args:
            key: of what counts.
            path: of the task that asks.
            is_fit: whether a result may serve that task.

        Raises:
            StoreError: the store can't be read.
        """
        for row in self._ask(f"{_RESULT} WHERE key = ? ORDER BY path = ? DESC, number DESC", key, path):
            try:
                found = _read_result(row)
            except SIGNS_OF_DAMAGE:
                continue
            if found.obstacle is None and is_fit(found):
                return found
        return None

    def list_kinds(self, beginning: str) -> Sequence[Mapping[str, str]]:
        """The parts of one result for each of the kinds in keys that are ``beginning/kind/rest``.

        From kind to kind in the index, however many results there are of each; what is damaged is passed over.

        Raises:
            StoreError: the store can't be read.
        """
        kinds: list[Mapping[str, str]] = []
        after, end = f"{beginning}/", f"{beginning}0"  # which comes after the slash
        query = "SELECT key, parts FROM results WHERE key > ? AND key < ? ORDER BY key LIMIT 1"
        while (row := next(self._ask(query, after, end), None)) is not None:
            with suppress(*SIGNS_OF_DAMAGE):
                kinds.append(_read_parts(row[1]))
            after = f"{row[0].rpartition('/')[0]}0"
        return kinds

    def list_runs_alike(self, facts: RunFacts, paths: Sequence[str]) -> Sequence[str]:
        """The ids of the runs that are most like one with tasks at these paths, the most alike first.

        First those of the same cell, then those of the same name, the last one first; then those that have most of the
        tasks. Of a task that runs for each of a list, its items are kept, ``name[0]``, and of a row of a map its tasks,
        ``row 0/run/name``.

        Raises:
            StoreError: the store can't be read.
        """
        cell_id = None if facts.origin is None else facts.origin.cell_id
        found = self._ask(_ALIKE, json.dumps(paths), cell_id, facts.name, _MOST_ALIKE)
        return [run_id for run_id, *_ in found]

    def find_last(self, run_ids: Sequence[str], path: str) -> StoredResult | None:
        """The last result of the task at this path in the first of these runs that has one, able to serve or not.

        Raises:
            StoreError: the store can't be read.
        """
        query = """SELECT run_id, results.path, results.key, parts, data FROM json_each(?) AS wanted JOIN results
            ON run_id = wanted.value AND results.path = ? ORDER BY wanted.key, number DESC LIMIT 1"""
        for row in self._ask(query, json.dumps(run_ids), path):
            with suppress(*SIGNS_OF_DAMAGE):
                return _read_result(row)
        return None

    def find_last_run(self, name: str | None, but: str) -> RunFacts | None:
        """What is known of the last run of an ensemble of this name, but for this one.

        Raises:
            StoreError: the store can't be read.
        """
        query = "SELECT facts FROM runs WHERE name IS ? AND run_id != ? ORDER BY number DESC LIMIT 1"
        for (text,) in self._ask(query, name, but):
            with suppress(*SIGNS_OF_DAMAGE):
                facts: RunFacts = read_value(json.loads(text), RunFacts)
                return facts
        return None

    def close(self) -> None:
        """Let go of the file; another question opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, query: str, *values: object) -> Iterator[Any]:
        """The rows of an answer, one by one; none where there is no file."""
        try:
            if self._connection is None:
                if not self._path.exists():
                    return
                self._connection = open_file(self._path, is_new_allowed=False)
            # One by one: of many results of a key, mostly the first one serves.
            yield from self._connection.execute(query, values)
        except StoreError:
            raise
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StoreError(describe_fault(error, self._path)) from error


Pace = Callable[[Iterable[ev.Event]], Iterable[ev.Event]]


def make_trace(
    run: RememberedRun, events: Sequence[ev.Event], pace: Pace = iter, scores: Sequence[ScoreRecord] = ()
) -> ExecutionTrace:
    """The trace of these events, folded, so that what is wrong with them shows now.

    Args:
        run: that they are of.
        events: in order; the end of a run that was cut off need not be among them.
        pace: gives them one by one, for who folds them beside other work.
        scores: of the run, in the order in which they were given.

    Raises:
        StoreError: they are not those of one run.
    """
    events = complete_events(run, events)
    try:
        trace = ExecutionTrace(events, run.facts.cost, scores=scores)
        trace._fold = TraceFold.from_events(pace(events), run.facts.cost)
        if trace._fold.run is None:
            raise ValueError("no run has started")
        trace._fold.name = trace._fold.name or run.facts.name  # no event of earlier versions knows the variable
    except SIGNS_OF_DAMAGE as error:
        raise _explain(run.run_id, error, "its events are") from error
    return trace


def complete_events(run: RememberedRun, events: Sequence[ev.Event]) -> Sequence[ev.Event]:
    """The events, checked, with the end that a run that was cut off never came to.

    What was answered is stored before all else (T30), so a run may have no event: then it has begun, and that is all.

    Raises:
        StoreError: they are not those of one run.
    """
    from ensemble_notebook.trace.trace_file import check_events

    if not events and run.status is RunStatus.INTERRUPTED:
        events = [_make_start(run.facts)]
    try:
        check_events(events)
    except SIGNS_OF_DAMAGE as error:
        raise _explain(run.run_id, error, "its events are") from error
    return [*events, *_make_end(events)] if run.status is RunStatus.INTERRUPTED else events


def summarize_trace(trace: ExecutionTrace) -> RunSummary | None:
    """What a run came to; None for one that has not begun."""
    from ensemble_notebook.trace.analysis.small_picture import draw_small_picture
    from ensemble_notebook.trace.analysis.timeseries import measure_activity

    found = measure_activity(trace._fold)
    metrics = trace.metrics
    return (
        None
        if not found
        else RunSummary(
            tasks=0 if trace.plan is None else trace.plan.total_tasks,
            tasks_done=trace._fold.tree.task_counts[SpanStatus.OK],
            input_tokens=metrics.input_tokens,
            output_tokens=metrics.output_tokens,
            cost=metrics.cost,
            currency=metrics.currency,
            wall_ms=found[0].wall_ms,
            inputs=dict(trace.inputs),
            sums=Sums(**metrics._list_sums()),
            picture=draw_small_picture(trace._fold, found[0].wall_ms),
        )
    )


def _make_start(facts: RunFacts) -> ev.RunStarted:
    return ev.RunStarted(
        run_id=facts.run_id,
        seq=0,
        span_id=facts.run_id,
        parent_id=None,
        time=facts.started_at,
        offset_s=0.0,
        name=facts.name,
        workflow=Workflow.SEQUENTIAL.value,
        inputs={},
        max_concurrency=None,
        capture_mode=facts.capture_mode,
        resumed_from=facts.resumed_from,
        kind=facts.kind,
        forked_from_run=facts.forked_from_run,
        forked_from_span=facts.forked_from_span,
        changed=facts.changed,
    )


def _make_end(events: Sequence[ev.Event]) -> list[ev.Event]:
    """The last event of a run whose process was gone before; none where it has one, or has not begun."""
    if not events or isinstance(events[-1], ev.RunEnded):
        return []
    first, last = events[0], max(events, key=lambda event: event.offset_s)
    end = ev.RunEnded(
        run_id=first.run_id,
        seq=events[-1].seq + 1,
        span_id=first.span_id,
        parent_id=first.parent_id,
        time=last.time,
        offset_s=last.offset_s,
        status=RunStatus.INTERRUPTED,
        exit_reason=ExitReason.INTERRUPTED,
        is_cut_off=True,
    )
    return [end]
