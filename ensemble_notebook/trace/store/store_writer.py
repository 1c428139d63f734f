"""The thread that writes the runs of this process to the store: batch by batch, one commit each (T30).

`Intake` decides when a batch is taken, see `run_writer`; `StoreWriter` writes it.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Final

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.value_text import format_instant
from ensemble_notebook.errors import summarize_error
from ensemble_notebook.trace.store.run_facts import SIGN_OF_LIFE_S, is_alive
from ensemble_notebook.trace.store.run_rows import RunRows, add_scores, make_first_rows, make_rows, show_life
from ensemble_notebook.trace.store.run_writer import Intake, RunWriter, Taken
from ensemble_notebook.trace.store.store_file import (
    NOT_REMEMBERED,
    bring_up,
    describe_fault,
    is_damage,
    keep_aside,
    open_file,
    transaction,
)
from ensemble_notebook.trace.store.store_reader import read_run
from ensemble_notebook.trace.store.used_answers import forget_answers

# --- What the store forgets, and when (T32). A run that goes on, in whatever process, is never forgotten --------------


INTERVAL_S: Final = 3600.0
"""How long a process waits until it looks again whether there is something to forget."""

_STEP: Final = 20


def trim(connection: sqlite3.Connection) -> None:
    """Forget runs that are older than ``config.store_max_days``, then the oldest, until ``config.store_max_mb`` do."""
    if config.store_max_days is not None:
        oldest = format_instant(datetime.now(UTC) - timedelta(days=config.store_max_days))
        forget(connection, [run_id for run_id, started_at in list_over(connection) if started_at < oldest])
    if config.store_max_mb is not None:
        over = [run_id for run_id, _ in list_over(connection)]
        while over:
            # What is in the file, without room that was given up.
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            if (pages - free) * size <= config.store_max_mb * 1e6:
                break
            forget(connection, over[:_STEP])
            del over[:_STEP]


def forget(connection: sqlite3.Connection, run_ids: Sequence[str]) -> int:
    """Forget these runs with all that belongs to them, and give the room back; says how many there were."""
    if not run_ids:
        return 0
    with transaction(connection):
        cursor = connection.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in run_ids])
        forget_answers(connection)
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return cursor.rowcount


def write_scores(connection: sqlite3.Connection, run_id: str, scores: Sequence[ScoreRecord]) -> bool:
    """Add scores to a run, and say whether it is there.

    Raises:
        StoreError: its row is damaged.
    """
    run = read_run(connection, run_id)
    if run is None:
        return False
    with transaction(connection):
        bring_up(connection)
        connection.executemany(*add_scores(run.facts, scores))
    return True


def list_over(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The runs that are over, the oldest first, each with the instant of its start."""
    rows = connection.execute("SELECT run_id, started_at, status, owner, seen_at FROM runs ORDER BY number").fetchall()
    return [
        (run_id, started_at)
        for run_id, started_at, status, owner, seen_at in rows
        if status != "running" or not is_alive(owner, seen_at)
    ]


class Encoding:
    """A batch on its way to rows, on a thread of its own.

    Args:
        batch: without exchanges.
        tell: called once it is over, where that is later than somebody waits.

    Attributes:
        made: the rows of each run.
        faults: why there are none of others.
        is_over: whether nothing is left to make.
    """

    def __init__(self, batch: Mapping[RunWriter, Taken], tell: Callable[[], object]) -> None:
        self.batch = batch
        self.made: dict[RunWriter, RunRows] = {}
        self.faults: dict[RunWriter, Exception] = {}
        self._tell = tell
        self._is_late = False
        self.is_over = False
        self._thread = threading.Thread(target=self._work, name="ensemble-encode", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # there are too many threads, or the interpreter ends
            self._work()

    def wait(self, seconds: float | None) -> None:
        """Wait until it is over, no longer than so many seconds."""
        if not self.is_over:
            self._thread.join(seconds)
        self._is_late = True

    def _work(self) -> None:
        for run, taken in self.batch.items():
            if not run.is_given_up:
                try:
                    self.made[run] = make_rows(run, taken)
                except Exception as error:  # noqa: BLE001 - whatever objects of users raise that are to be written
                    self.faults[run] = error
        self.is_over = True
        if self._is_late:
            self._tell()


class StoreWriter:
    """Writes to one file. Its thread lives as long as there are runs.

    Args:
        path: of the file; made when it is not there.

    Attributes:
        intake: where runs put what they have to write.
    """

    PATIENCE_S: ClassVar[float | None] = 0.05
    """How long exchanges wait for what is encoded beside them, so that they share a commit; None: to the end."""

    def __init__(self, path: Path) -> None:
        self.intake = Intake()
        self._path = path
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._begun: set[RunWriter] = set()
        self._held: dict[RunWriter, Taken] = {}
        self._encoding: Encoding | None = None
        self._shown_at = time.monotonic()
        self._trimmed_at = -INTERVAL_S

    def begin(self, run: RunWriter, *, has_begun: bool = False) -> None:
        """Take up a run; nothing has to be there yet, in the file neither unless it `has_begun`."""
        with self._lock:
            if has_begun:
                self._begun.add(run)
            self.intake.add(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ensemble-store", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            for run, taken in self.intake.take(SIGN_OF_LIFE_S).items():
                self._held.setdefault(run, Taken([], has_ended=False)).add(taken)
            encoding = None
            flushing = [(run, each) for run, taken in self._held.items() for each in taken.take_flushing()]
            try:
                first = self._make_first()
                encoding = self._encode_rest()
                self._write(first, {} if encoding is None else encoding.made)
            except Exception as error:  # noqa: BLE001 - see below; the runs tell it
                # Whoever waits for a run must not wait for ever, whatever is wrong here.
                self._give_up(self.intake.runs, f"The run store {self._path} failed: {summarize_error(error)}")
            for run, each in flushing:  # exchanges are written in the turn in which they are taken
                each.set_result(not run.is_given_up)
            for run, taken in () if encoding is None else encoding.batch.items():
                if taken.has_ended:
                    self._finish(run)
            if self._held and self._encoding is None:
                self.intake.hurry()
            now = time.monotonic()
            if self._connection is not None and not self._begun and now - self._trimmed_at > INTERVAL_S:
                # Now and then, while no run waits for this thread.
                self._trimmed_at = now
                with suppress(sqlite3.Error):  # it is tried again later
                    trim(self._connection)
            with self._lock:
                if not self.intake.runs:
                    self._thread = None
                    self._close()
                    return

    def _make_first(self) -> dict[RunWriter, RunRows]:
        """Take the exchanges out of what is held, and make their rows, and those of new runs."""
        first = {run: taken.split() for run, taken in self._held.items()}
        made = {}
        for run, exchanges in first.items():
            is_first = run not in self._begun
            if (exchanges or is_first) and not run.is_given_up:
                try:
                    made[run] = make_first_rows(run.facts, exchanges, is_first=is_first)
                except Exception as error:  # noqa: BLE001 - whatever objects of users raise that are to be written
                    self._give_up([run], self._describe_unwritable(error))
        return made

    def _encode_rest(self) -> Encoding | None:
        """Have all else encoded: gives what is done, or None while it goes on, for which nothing that follows waits.

        At first, schemas are made and prices looked up, which takes seconds on a busy machine.
        """
        if self._encoding is None:
            batch = {run: taken for run, taken in self._held.items() if taken.entries or taken.has_ended}
            self._held = {}
            if not batch:
                return None
            self._encoding = Encoding(batch, self.intake.hurry)
            self._encoding.wait(self.PATIENCE_S)
        if not self._encoding.is_over:
            return None
        encoding, self._encoding = self._encoding, None
        for run, error in encoding.faults.items():
            self._give_up([run], self._describe_unwritable(error))
        return encoding

    def _describe_unwritable(self, error: Exception) -> str:
        return f"The run can't be kept in the run store {self._path}: {summarize_error(error)}"

    def _finish(self, run: RunWriter) -> None:
        later = self._held.get(run)  # its end is taken again as long as this has not come
        if later is not None and later.entries:
            return  # it ends with the next batch
        self._held.pop(run, None)
        self.intake.remove(run)
        self._begun.discard(run)
        run.note_closed()

    def _write(self, first: Mapping[RunWriter, RunRows], rest: Mapping[RunWriter, RunRows]) -> None:
        """Write both in one transaction. Runs that can't be written are given up, with a warning each."""
        rows = {
            run: [each[run] for each in (first, rest) if run in each]
            for run in dict.fromkeys((*first, *rest))
            if not run.is_given_up
        }
        if not rows and time.monotonic() - self._shown_at < SIGN_OF_LIFE_S:
            return
        try:
            try:
                self._write_rows(rows)
            except (sqlite3.Error, OSError) as error:
                if not is_damage(error):
                    raise
                self._replace_damaged(rows)
                self._write_rows({run: each for run, each in rows.items() if not run.is_given_up})
        except (sqlite3.Error, OSError) as error:
            self._close()
            self._give_up(rows, f"{describe_fault(error, self._path)} {NOT_REMEMBERED}")

    def _write_rows(self, rows: Mapping[RunWriter, Sequence[RunRows]]) -> None:
        if self._connection is None:
            self._connection = open_file(self._path, is_new_allowed=True)
        connection = self._connection
        statements = [each for parts in rows.values() for part in parts for each in part.statements]
        if time.monotonic() - self._shown_at > SIGN_OF_LIFE_S:
            statements.append(show_life(run.facts.run_id for run in self.intake.runs))
            self._shown_at = time.monotonic()
        with transaction(connection):
            for statement, values in statements:
                connection.executemany(statement, values)
        self._begun.update(rows)
        for run, parts in rows.items():
            run.note_written(max(part.last_seq for part in parts))

    def _replace_damaged(self, runs: Iterable[RunWriter]) -> None:
        """Keep a broken file aside. Runs that began in it can't go on in the next one."""
        self._close()
        warning = keep_aside(self._path)
        self._give_up([run for run in runs if run in self._begun], f"{warning} {NOT_REMEMBERED}")
        for run in runs:
            if not run.is_given_up:
                run.warn(warning)

    def _give_up(self, runs: Iterable[RunWriter], warning: str) -> None:
        for run in runs:
            run.give_up(warning)

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
