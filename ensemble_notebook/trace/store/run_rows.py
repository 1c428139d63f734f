"""The rows of one run: how the store writes them."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.codec.iso_time import format_instant
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.batch import encode_events, encode_exchanges
from ensemble_notebook.trace.store.batch_statement import ADD_BATCH
from ensemble_notebook.trace.store.owner import describe_owner
from ensemble_notebook.trace.store.result_rows import encode_results
from ensemble_notebook.trace.store.run_facts import RunFacts, RunSummary
from ensemble_notebook.trace.store.run_writer import (
    FinishedTask,
    MakeDocument,
    PendingResult,
    RunWriter,
    StoredExchange,
    Taken,
)
from ensemble_notebook.trace.store.schema import transaction

_TAKE_OVER: Final = (
    "INSERT INTO exchanges (run_id, number, data) SELECT ?, number, data FROM exchanges WHERE run_id = ?",
    """INSERT INTO results (run_id, path, key, parts, data)
    SELECT ?, path, key, parts, data FROM results WHERE run_id = ? ORDER BY number""",
)


Statement = tuple[str, Sequence[object] | Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class RunRows:
    """What a batch has of one run, ready to be written.

    Attributes:
        last_seq: number of its last event; -1 where it has none.
        statements: in order, with their values.
    """

    last_seq: int
    statements: Sequence[Statement]


def make_rows(run: RunWriter, taken: Taken, *, is_first: bool) -> RunRows:
    """Encode what one run has to write.

    Raises:
        ValueError, RecursionError: there is something in it that can't be written.
    """
    events: list[ev.Event] = []
    exchanges: list[MakeDocument] = []
    results: list[FinishedTask] = []
    read_count = 0
    for entry in taken.entries:
        if isinstance(entry, StoredExchange):
            exchanges.append(entry.make_document)
        elif isinstance(entry, PendingResult):
            _tell(run, events[read_count:])
            read_count = len(events)
            results.append(entry.make())
        else:
            events.append(entry)
    _tell(run, events[read_count:])
    run_id = run.facts.run_id
    statements = [*_begin_run(run.facts)] if is_first else []
    if taken.entries:
        rows, pieces = encode_results(results)
        values = {
            "run_id": run_id,
            "seq": events[0].seq if events else None,
            "events": encode_events(events) if events else None,
            "exchanges": encode_exchanges(exchanges) if exchanges else None,
            "results": rows,
            "pieces": pieces,
        }
        statements.append((ADD_BATCH, values))
    statements += _end_run(run_id, events, has_ended=taken.has_ended)
    return RunRows(events[-1].seq if events else -1, statements)


def _tell(run: RunWriter, events: Sequence[ev.Event]) -> None:
    for read in run.readers:
        read(events)


def show_life(run_ids: Iterable[str]) -> Iterator[Statement]:
    """Note that the process of these runs lives."""
    now = time.time()
    for run_id in run_ids:
        yield "UPDATE runs SET seen_at = ? WHERE run_id = ?", (now, run_id)


def write_summaries(connection: sqlite3.Connection, summaries: Mapping[str, RunSummary]) -> None:
    """What runs came to."""
    rows = [(json.dumps(to_plain(each)), run_id) for run_id, each in summaries.items()]
    with transaction(connection):
        connection.executemany("UPDATE runs SET summary = ? WHERE run_id = ?", rows)


def _begin_run(facts: RunFacts) -> Iterator[Statement]:
    """The row of a run that is going on; what it resumes is its own from here on, whatever becomes of that run."""
    name = None if facts.name is None else clean_text(facts.name)
    values = (facts.run_id, name, RunStatus.RUNNING.value, format_instant(facts.started_at), time.time())
    sql = "INSERT INTO runs (run_id, name, status, started_at, seen_at, owner, facts) VALUES (?, ?, ?, ?, ?, ?, ?)"
    yield sql, (*values, describe_owner(), json.dumps(to_plain(facts)))
    if facts.resumed_from is not None:
        for statement in _TAKE_OVER:
            yield statement, (facts.run_id, facts.resumed_from)


def _end_run(run_id: str, events: Sequence[ev.Event], *, has_ended: bool) -> Iterator[Statement]:
    """The status of a run that has ended. One that was given up without its last event was interrupted."""
    last = events[-1] if events else None
    sql = "UPDATE runs SET status = ?, ended_at = ? WHERE run_id = ? AND status = 'running'"
    if isinstance(last, ev.RunEnded):
        yield sql, (last.status.value, format_instant(last.time), run_id)
    elif has_ended:
        yield sql, (RunStatus.INTERRUPTED.value, None, run_id)
