"""The rows of one run: how the store writes them."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.value_text import format_instant
from ensemble_notebook.trace.codec.event_codec import make_secret_search, to_plain
from ensemble_notebook.trace.codec.records import read_groups, read_value, write_events, write_plain, write_record
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.run_facts import RunFacts, RunSummary, describe_owner, is_alive, make_claim_error
from ensemble_notebook.trace.store.run_writer import (
    FinishedTask,
    MakeDocument,
    PendingResult,
    RunWriter,
    StoredExchange,
    Taken,
)
from ensemble_notebook.trace.store.store_file import transaction

# --- Events and documents as the store holds them: JSON, several in one piece, secrets masked (T7) --------------------
#
# What is large is compressed. A short text would hardly get shorter.


LARGEST: Final = 1 << 30
"""Bytes that a piece may unfold to: more is an attack, or nothing that could be read anyway."""

_LEVEL: Final = 1
_SHORT: Final = 2_048


def encode_events(events: Iterable[Event]) -> bytes:
    """One piece of events, in order.

    Raises:
        ValueError: one of them can't be written.
    """
    return fold(write_events(events))


def encode_document(document: Any) -> bytes:
    """One document: plain values, or what can be made plain.

    Raises:
        ValueError, RecursionError: it can't be written.
    """
    from pydantic_core import to_json

    return fold(to_json([to_plain(document)], inf_nan_mode="null"))


def encode_exchanges(makers: Sequence[Callable[[bool], Mapping[str, Any]]]) -> bytes:
    """One piece of exchanges, to be given again.

    Args:
        makers: make a document each: secrets masked, or, where they are told so, perhaps not yet.
    """
    from pydantic_core import to_json

    try:
        text = to_json([make(False) for make in makers])
        is_clean = not make_secret_search()(text)
    except ValueError:  # half a character somewhere, which is given again as it was
        is_clean = False
    if not is_clean:
        text = json.dumps([make(True) for make in makers], default=str, separators=(",", ":")).encode()
    return fold(text)


def fold(text: bytes) -> bytes:
    """A JSON array as a piece."""
    return text if len(text) < _SHORT else zlib.compress(text, _LEVEL)


def decode_piece(data: object) -> list[Any]:
    """The groups of events, or the documents, in a piece, as plain values.

    Raises:
        ValueError: it is none.
    """
    from pydantic_core import from_json

    if not isinstance(data, bytes):
        raise ValueError("no piece of bytes")
    text = data if data.startswith(b"[") else unfold(data)
    try:
        values = from_json(text, allow_inf_nan=False)
    except ValueError:  # it may be half a character in an exchange, which is taken as it is
        try:
            values = json.loads(text)
        except RecursionError as error:
            raise ValueError("values that lie too deep in each other") from error
    if not isinstance(values, list):
        raise ValueError("no list of values")
    return values


def decode_event_piece(data: object) -> list[Any]:
    """The events in a piece, as plain values, in order.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is none.
    """
    return read_groups(decode_piece(data))


def unfold(data: bytes) -> bytes:
    """What was compressed.

    Raises:
        ValueError: it is damaged, cut off, or too large.
    """
    return unfold_first(data)[0]


def unfold_first(data: bytes) -> tuple[bytes, bytes]:
    """What was compressed, and the bytes that stand after it.

    Raises:
        ValueError: as of `unfold`.
    """
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("a piece that is cut off, or too large")
    return text, unpacker.unused_data


# ----------------------------------------------------------------------------------------------------------------------
# The results of finished tasks as the store holds them; what may have a secret in it is masked text by text (T7).


MASKED: Final = "its output holds what looks like a secret, which is never kept"

Row = tuple[bytes, bytes]
"""Parts of the key as JSON, and the document."""


def encode_results(tasks: Sequence[FinishedTask]) -> list[Row]:
    """What is kept of each result.

    Raises:
        ValueError, RecursionError: one of them can't be written.
    """
    search = make_secret_search()
    quick = _encode_quickly(tasks, search)
    if quick is not None:
        return quick
    # One of them holds something; the others are as quick as before.
    return [row for task in tasks for row in _encode_quickly([task], search) or [_mask(task)]]


def _encode_quickly(tasks: Sequence[FinishedTask], search: Callable[[bytes], bool]) -> list[Row] | None:
    """The same, searched for secrets at once; None where something has to be left out, or may have to be."""
    try:
        written = [(write_plain(task.parts), _write(task)) for task in tasks]
    except ValueError:  # half a character somewhere, or a value of a user's
        return None
    if search(b",".join(chain.from_iterable(written))):
        return None
    return [(parts, fold(document)) for parts, document in written]


def _write(task: FinishedTask) -> bytes:
    """The document, quickly, and as it is.

    Raises:
        ValueError: something has to be left out, or may have to be. A value of a user's is one of these: what is in it
            is masked on its way, so that nobody could see that it was. And so is half a character.
    """
    outputs = (task.output, *task.delegated)
    if task.obstacle is not None or any(each.parsed_output is not None for each in outputs):
        raise ValueError("a result that is written text by text")
    output, *delegated = map(write_record, outputs)
    return b'[{"facts":%b,"output":%b,"delegated":[%b]}]' % (write_plain(task.facts), output, b",".join(delegated))


def _mask(task: FinishedTask) -> Row:
    """The same, text by text."""
    outputs = (task.output, *task.delegated)
    plain = [to_plain(output) for output in outputs]
    obstacle = task.obstacle
    for output, told in zip(outputs, plain, strict=True):
        # A secret was masked in what the task gave: it would be another output.
        is_other = _is_json(output.parsed_output) and told.get("parsedOutput") != output.parsed_output
        if told.get("raw", "") != output.raw or is_other:
            obstacle = obstacle or MASKED
    document: dict[str, Any] = {"obstacle": obstacle, "facts": to_plain(task.facts)}
    if obstacle is None:
        document |= {"output": plain[0], "delegated": plain[1:]}
        document["hasLostValue"] = not _is_json(task.output.parsed_output)
    return write_plain(to_plain(task.parts)), encode_document(document)


def _is_json(value: Any) -> bool:
    """Whether a value is exactly what JSON has, so that it comes back as it was."""
    if isinstance(value, list):
        return type(value) is list and all(map(_is_json, value))
    if isinstance(value, dict):
        return type(value) is dict and all(type(key) is str and _is_json(each) for key, each in value.items())
    return value is None or type(value) in (str, int, float, bool)


_ADD_RUN: Final = (
    "INSERT INTO runs (run_id, name, status, started_at, seen_at, owner, facts) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_TAKE_OVER: Final = (
    "INSERT INTO exchanges (run_id, number, data) SELECT ?, number, data FROM exchanges WHERE run_id = ?",
    """INSERT INTO results (run_id, path, key, parts, data)
    SELECT ?, path, key, parts, data FROM results WHERE run_id = ? ORDER BY number""",
)
_ADD_EVENTS: Final = "INSERT INTO events (run_id, seq, data) VALUES (?, ?, ?)"
_ADD_EXCHANGES: Final = """INSERT INTO exchanges (run_id, number, data)
    SELECT :run_id, coalesce(max(number) + 1, 0), :data FROM exchanges WHERE run_id = :run_id"""
_ADD_SCORE: Final = "INSERT OR IGNORE INTO scores (run_id, score_id, data) VALUES (?, ?, ?)"
_ADD_RESULT: Final = "INSERT INTO results (run_id, path, key, parts, data) VALUES (?, ?, ?, ?, ?)"


Statement = tuple[str, Sequence[Sequence[object] | Mapping[str, object]]]
"""A statement of SQL, and the values of each row."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """What a batch has of one run, ready to be written.

    Attributes:
        last_seq: number of its last event; -1 where it has none.
        statements: in order.
    """

    last_seq: int
    statements: Sequence[Statement]


def make_first_rows(facts: RunFacts, exchanges: Sequence[StoredExchange], *, is_first: bool) -> RunRows:
    """Encode what comes before all else: the run itself, and what it was answered, which was paid for.

    Raises:
        ValueError, RecursionError: there is something in it that can't be written.
    """
    statements = [*_begin_run(facts)] if is_first else []
    if exchanges:
        data = encode_exchanges([each.make_document for each in exchanges])
        statements.append((_ADD_EXCHANGES, [{"run_id": facts.run_id, "data": data}]))
    return RunRows(-1, statements)


def make_rows(run: RunWriter, taken: Taken) -> RunRows:
    """Encode all else that one run has to write.

    Raises:
        ValueError, RecursionError: there is something in it that can't be written.
    """
    events: list[ev.Event] = []
    results: list[FinishedTask] = []
    scores: list[ScoreRecord] = []
    read_count = 0
    for entry in taken.entries:
        if isinstance(entry, PendingResult):
            _tell(run, events[read_count:])
            read_count = len(events)
            results.append(entry.make())
        elif isinstance(entry, ScoreRecord):
            scores.append(entry)
        elif isinstance(entry, ev.Event):
            events.append(entry)
    _tell(run, events[read_count:])
    run_id = run.facts.run_id
    statements: list[Statement] = []
    if events:
        statements.append((_ADD_EVENTS, [(run_id, events[0].seq, encode_events(events))]))
    if results:
        pairs = zip(results, encode_results(results), strict=True)
        rows = [(run_id, task.path, task.key, parts.decode(), document) for task, (parts, document) in pairs]
        statements.append((_ADD_RESULT, rows))
    if scores:
        statements.append(add_scores(run.facts, scores))
    # One that was given up without its last event was interrupted.
    last = events[-1] if events else None
    end = "UPDATE runs SET status = ?, ended_at = ? WHERE run_id = ? AND status = 'running'"
    if isinstance(last, ev.RunEnded):
        statements.append((end, [(last.status.value, format_instant(last.time), run_id)]))
    elif taken.has_ended:
        statements.append((end, [(RunStatus.INTERRUPTED.value, None, run_id)]))
    return RunRows(events[-1].seq if events else -1, statements)


def add_scores(facts: RunFacts, scores: Iterable[ScoreRecord]) -> Statement:
    """Add scores to a run; those that it has already are left as they are.

    Args:
        facts: of the run.
        scores: of it; they are kept without texts where the run is.
    """
    kept = scores if facts.keeps_texts else [each.without_texts() for each in scores]
    return _ADD_SCORE, [(facts.run_id, each.id, json.dumps(to_plain(each))) for each in kept]


def _tell(run: RunWriter, events: Sequence[ev.Event]) -> None:
    for read in run.readers:
        read(events)


def show_life(run_ids: Iterable[str]) -> Statement:
    """Note that the process of these runs lives."""
    now = time.time()
    return "UPDATE runs SET seen_at = ? WHERE run_id = ?", [(now, run_id) for run_id in run_ids]


def check_unclaimed(connection: sqlite3.Connection, run_id: str) -> None:
    """Check that no run goes on with this one now; the claim of one whose process is gone is none.

    Raises:
        ValidationError: one does; says which, and where.
    """
    rows = connection.execute(
        "SELECT owner, seen_at, facts FROM runs WHERE status = 'running' AND run_id != ?", (run_id,)
    )
    for owner, seen_at, text in rows:
        facts = read_value(json.loads(text), RunFacts)
        if facts.resumed_from == run_id and is_alive(owner, seen_at):
            raise make_claim_error(run_id, facts.run_id, owner, facts.origin, facts.started_at)


def begin_resuming(connection: sqlite3.Connection, facts: RunFacts, *, is_only: bool) -> None:
    """Begin a run that goes on with another one: from here on it has what that one has.

    Raises:
        ValidationError: it `is_only` to go on where no other run does so, and one does.
    """
    with transaction(connection):
        if is_only and facts.resumed_from is not None:
            check_unclaimed(connection, facts.resumed_from)
        for statement, rows in _begin_run(facts):
            connection.executemany(statement, rows)


def write_exchange(connection: sqlite3.Connection, run_id: str, make_document: MakeDocument) -> None:
    """Add one exchange to a run, after those that it has."""
    values = {"run_id": run_id, "data": encode_exchanges([make_document])}
    with transaction(connection):
        connection.execute(_ADD_EXCHANGES, values)


def write_summaries(connection: sqlite3.Connection, summaries: Mapping[str, RunSummary]) -> None:
    """What runs came to."""
    rows = [(json.dumps(to_plain(each)), run_id) for run_id, each in summaries.items()]
    with transaction(connection):
        connection.executemany("UPDATE runs SET summary = ? WHERE run_id = ?", rows)


def _begin_run(facts: RunFacts) -> Iterator[Statement]:
    """The row of a run that is going on; what it resumes is its own from here on, whatever becomes of that run."""
    name = None if facts.name is None else clean_text(facts.name)
    values = (facts.run_id, name, RunStatus.RUNNING.value, format_instant(facts.started_at), time.time())
    yield _ADD_RUN, [(*values, describe_owner(), json.dumps(to_plain(facts)))]
    if facts.resumed_from is not None:
        for statement in _TAKE_OVER:
            yield statement, [(facts.run_id, facts.resumed_from)]
