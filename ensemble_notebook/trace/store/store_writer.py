"""The thread that writes the runs of this process to the store: batch by batch, one commit each (T30).

Not the room of when a batch is taken: `intake` knows that.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from ensemble_notebook.errors import summarize_error
from ensemble_notebook.trace.store.batch_statement import take_batches
from ensemble_notebook.trace.store.faults import NOT_REMEMBERED, is_damage, keep_aside, warn_of_fault
from ensemble_notebook.trace.store.intake import Intake
from ensemble_notebook.trace.store.owner import SIGN_OF_LIFE_S
from ensemble_notebook.trace.store.retention import INTERVAL_S, trim
from ensemble_notebook.trace.store.run_rows import RunRows, make_rows, show_life
from ensemble_notebook.trace.store.run_writer import RunWriter, Taken
from ensemble_notebook.trace.store.schema import open_file, transaction


class StoreWriter:
    """Writes to one file. Its thread lives as long as there are runs.

    Args:
        path: of the file; made when it is not there.

    Attributes:
        intake: where runs put what they have to write.
    """

    def __init__(self, path: Path) -> None:
        self.intake = Intake()
        self._path = path
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._begun: set[RunWriter] = set()
        self._shown_at = time.monotonic()
        self._trimmed_at = -INTERVAL_S

    def begin(self, run: RunWriter) -> None:
        """Take up a run; nothing has to be there yet."""
        with self._lock:
            self.intake.add(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ensemble-store", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            batch = self.intake.take(SIGN_OF_LIFE_S)
            try:
                self._write(batch)
            except Exception as error:  # noqa: BLE001 - see below; the runs tell it
                # Whoever waits for a run must not wait for ever, whatever is wrong here.
                self._give_up(batch, f"The run store {self._path} failed: {summarize_error(error)}")
            for run, taken in batch.items():
                if taken.has_ended:
                    self._finish(run)
            self._trim()
            with self._lock:
                if not self.intake.runs:
                    self._thread = None
                    self._close()
                    return

    def _trim(self) -> None:
        """Forget what is too old or too much, now and then, while no run waits for this thread (T32)."""
        now = time.monotonic()
        if self._connection is not None and not self._begun and now - self._trimmed_at > INTERVAL_S:
            self._trimmed_at = now
            with suppress(sqlite3.Error):  # it is tried again later
                trim(self._connection)

    def _finish(self, run: RunWriter) -> None:
        self.intake.remove(run)
        self._begun.discard(run)
        run.note_closed()

    def _write(self, batch: Mapping[RunWriter, Taken]) -> None:
        """Write a batch in one transaction. Runs that can't be written are given up, with a warning each."""
        rows = self._encode(batch)
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
            self._give_up(rows, warn_of_fault(error, self._path))

    def _encode(self, batch: Mapping[RunWriter, Taken]) -> dict[RunWriter, RunRows]:
        """What there is to write; before the file is locked for it, since this takes longer than the writing."""
        rows = {}
        for run, taken in batch.items():
            if not run.is_given_up:
                try:
                    rows[run] = make_rows(run, taken, is_first=run not in self._begun)
                except Exception as error:  # noqa: BLE001 - whatever objects of users raise that are to be written
                    reason = summarize_error(error)
                    self._give_up([run], f"The run can't be kept in the run store {self._path}: {reason}")
        return rows

    def _write_rows(self, rows: Mapping[RunWriter, RunRows]) -> None:
        connection = self._connect()
        statements = [each for run_rows in rows.values() for each in run_rows.statements]
        if time.monotonic() - self._shown_at > SIGN_OF_LIFE_S:
            statements += show_life(run.facts.run_id for run in self.intake.runs)
            self._shown_at = time.monotonic()
        # One statement is a transaction by itself.
        with transaction(connection) if len(statements) > 1 else nullcontext():
            for statement, values in statements:
                connection.execute(statement, values)
        self._begun.update(rows)
        for run, each in rows.items():
            run.note_written(each.last_seq)

    def _replace_damaged(self, runs: Iterable[RunWriter]) -> None:
        """Keep a broken file aside. Runs that began in it can't go on in the next one."""
        self._close()
        warning = keep_aside(self._path)
        self._give_up([run for run in runs if run in self._begun], f"{warning} {NOT_REMEMBERED}")
        for run in runs:
            if not run.is_given_up:
                run.warn(warning)

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_file(self._path, is_new_allowed=True)
            take_batches(self._connection)
        return self._connection

    def _give_up(self, runs: Iterable[RunWriter], warning: str) -> None:
        for run in runs:
            run.give_up(warning)

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
