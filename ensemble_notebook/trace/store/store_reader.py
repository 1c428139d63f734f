"""What the store tells: runs, their events, exchanges and results. The file is hostile until it is read (E71)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.codec.iso_time import parse_instant
from ensemble_notebook.trace.codec.record_reader import read_event, read_value
from ensemble_notebook.trace.store.batch import decode_event_piece, decode_piece
from ensemble_notebook.trace.store.owner import is_alive
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunFacts, RunSummary, StoredResult

T = TypeVar("T")

SIGNS_OF_DAMAGE: Final = (KeyError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
_RUN: Final = "SELECT status, ended_at, seen_at, owner, facts FROM runs"
_RESULT: Final = "SELECT run_id, path, key, parts, data FROM results"


def read_runs(connection: sqlite3.Connection, limit: int | None = None) -> Iterator[RememberedRun]:
    """The runs, newest first; what can't be read is left out."""
    for row in connection.execute(f"{_RUN} ORDER BY number DESC LIMIT ?", (-1 if limit is None else limit,)):
        try:
            yield _read_run(row)
        except SIGNS_OF_DAMAGE:
            continue


def read_run(connection: sqlite3.Connection, run_id: str) -> RememberedRun | None:
    """One run by its whole id.

    Raises:
        StoreError: its row is damaged.
    """
    row = connection.execute(f"{_RUN} WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else _locate(run_id, lambda: _read_run(row))


def read_summaries(connection: sqlite3.Connection) -> dict[str, RunSummary]:
    """The summaries that are kept, by run; what can't be read is made again."""
    found = {}
    for run_id, summary in connection.execute("SELECT run_id, summary FROM runs WHERE summary IS NOT NULL"):
        with suppress(*SIGNS_OF_DAMAGE):
            found[run_id] = read_value(json.loads(summary), RunSummary)
    return found


def read_events(connection: sqlite3.Connection, run_id: str) -> Iterator[Event]:
    """The events of a run, in order, see `decode_events`."""
    yield from decode_events(run_id, read_pieces(connection, run_id))


def read_pieces(connection: sqlite3.Connection, run_id: str) -> list[tuple[Any, Any]]:
    """The events of a run as they are stored: pieces, each with the number of its first event."""
    return connection.execute("SELECT seq, data FROM events WHERE run_id = ? ORDER BY seq", (run_id,)).fetchall()


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


def read_result(connection: sqlite3.Connection, key: str, path: str = "") -> StoredResult | None:
    """The newest result of this key that can serve again, that of this path first; what is damaged is passed over."""
    for row in connection.execute(f"{_RESULT} WHERE key = ? ORDER BY path = ? DESC, number DESC", (key, path)):
        try:
            found = _read_result(row)
        except SIGNS_OF_DAMAGE:
            continue
        if found.obstacle is None:
            return found
    return None


def read_results(connection: sqlite3.Connection, run_id: str) -> Iterator[StoredResult]:
    """The results of a run, in order; what is damaged is passed over."""
    for row in connection.execute(f"{_RESULT} WHERE run_id = ? ORDER BY number", (run_id,)):
        with suppress(*SIGNS_OF_DAMAGE):
            yield _read_result(row)


def read_last_result(connection: sqlite3.Connection, name: str | None, path: str) -> StoredResult | None:
    """The last result of a task in an ensemble of this name; None where there is none."""
    row = connection.execute(
        "SELECT run_id, path, key, parts, data FROM results JOIN runs USING (run_id) WHERE path = ? AND runs.name IS ? "
        "ORDER BY results.number DESC LIMIT 1",
        (path, name),
    ).fetchone()
    try:
        return None if row is None else _read_result(row)
    except SIGNS_OF_DAMAGE:
        return None


def read_last_facts(connection: sqlite3.Connection, name: str | None, but: str) -> RunFacts | None:
    """What is known of the last run of an ensemble of this name, but for this one; None where there is none."""
    row = connection.execute(
        "SELECT facts FROM runs WHERE name IS ? AND run_id != ? ORDER BY number DESC LIMIT 1", (name, but)
    ).fetchone()
    try:
        found: RunFacts | None = None if row is None else read_value(json.loads(row[0]), RunFacts)
    except SIGNS_OF_DAMAGE:
        return None
    return found


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


def _explain(run_id: str, error: Exception) -> StoreError:
    reason = f"{type(error).__name__}: {error}"
    return StoreError(f"Run {run_id} can't be read from the store: a row is damaged ({reason}).")
