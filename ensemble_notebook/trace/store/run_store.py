"""The run store (T30): what runs leave behind, so that they can be shown, compared, resumed and reused.

Begin a run with `RunStore.begin`, which gives its writer; read with the other methods, each of which opens the file
for itself, so that nothing has to be closed. Several kernels may use the same file.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ensemble_notebook.domain.definitions.enums import RunKind, RunStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.errors import StoreError, ValidationError, did_you_mean, summarize_error
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunFacts, RunSummary, StoredResult
from ensemble_notebook.trace.store.run_rows import begin_resuming, check_unclaimed, write_exchange, write_summaries
from ensemble_notebook.trace.store.run_writer import MakeDocument, RunWriter
from ensemble_notebook.trace.store.store_file import OFF, VARIABLE, find_store, opened
from ensemble_notebook.trace.store.store_reader import (
    ResultReader,
    make_trace,
    read_events,
    read_exchanges,
    read_new_scores,
    read_parents,
    read_reply_sizes,
    read_results,
    read_run,
    read_runs,
    read_runs_elsewhere,
    read_scores,
    read_summaries,
    summarize_trace,
)
from ensemble_notebook.trace.store.store_writer import StoreWriter, forget, list_over, write_scores
from ensemble_notebook.trace.store.used_answers import UsedAnswer, read_answers, use_answer

T = TypeVar("T")

SHORTEST_ID: Final = 4
"""Characters of an id that name a run; fewer may be a slip, or a name that is gone."""

_open_stores: Final[dict[Path, RunStore]] = {}
_lock: Final = threading.Lock()


class RunStore:
    """The store in one file. One object per file and process: `RunStore.open`.

    Attributes:
        path: of the file; it may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: StoreWriter | None = None
        self._keeper: TableKeeper | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path | None = None) -> RunStore:
        """The store in this file; None: the one that is configured. Nothing is opened or made yet.

        Raises:
            StoreError: none is configured.
        """
        found = find_store() if path is None else path
        if found is None:
            raise StoreError(f"No runs are remembered: the store is {OFF!r} in config.store or {VARIABLE}.")
        with _lock:
            return _open_stores.setdefault(found, cls(found))

    @classmethod
    def find(cls) -> RunStore | None:
        """The configured store; None where it is switched off."""
        return None if find_store() is None else cls.open()

    def check_unclaimed(self, run_id: str) -> None:
        """Check that no run goes on with this one now.

        Raises:
            ValidationError: one does; says which, and where.
            StoreError: the store can't be read.
        """
        self._read(lambda connection: check_unclaimed(connection, run_id), None)

    def begin(self, facts: RunFacts, *, is_only: bool = True) -> RunWriter:
        """Begin to write a run. What is wrong with the file, the writer tells.

        Returns at once, but where the run goes on with another one: what that one has is its own from here on.

        Args:
            facts: of the run.
            is_only: whether to refuse to go on with a run that another one goes on with.

        Raises:
            ValidationError: it is refused; says why.
        """
        has_begun = False
        if facts.resumed_from is not None:
            # It is in the file then, so that no other run goes on from there; else the writer tries again.
            with suppress(StoreError), opened(self.path) as connection:
                begin_resuming(connection, facts, is_only=is_only)
                has_begun = True
        with self._lock:
            if self._writer is None or self._keeper is None:
                self._writer, self._keeper = StoreWriter(self.path), TableKeeper(self.path)
            keep_late = partial(self._keep_late, facts.run_id)
            run, keeper = RunWriter(facts, self._writer.intake, keep_late), self._keeper
            keeper.begin()
            self._writer.begin(run, has_begun=has_begun)
        run.closed.add_done_callback(lambda _: keeper.end(run.facts.run_id, is_written=not run.is_given_up))
        return run

    def _keep_late(self, run_id: str, make_document: MakeDocument) -> None:
        """Add an exchange to a run that has been written to its end."""
        try:
            with opened(self.path) as connection:
                write_exchange(connection, run_id, make_document)
        except Exception as error:  # noqa: BLE001 - on the thread of a tool, where nobody hears of it
            _log.warning("What a tool of run %s has answered late can't be kept: %s", run_id, summarize_error(error))

    def list_runs(self, limit: int | None = None) -> list[RememberedRun]:
        """The runs, newest first; all of them, or so many."""
        return self._read(lambda connection: list(read_runs(connection, limit)), [])

    def list_runs_elsewhere(self, since: datetime) -> list[RememberedRun]:
        """The runs of other processes that began at this time or later."""
        return self._read(lambda connection: read_runs_elsewhere(connection, since), [])

    def find_run(self, word: str) -> RememberedRun:
        """The run that a person means: by its place from the end (``-1``), its id, its name, or a beginning of its id.

        Of several with the same name it is the newest, before calls that were made again in its name.

        Raises:
            StoreError: there is none, or more than one.
        """
        runs = self.list_runs()
        if not runs:
            raise StoreError(f"No run {word!r} is remembered: there is none yet in {self.path}.")
        if re.fullmatch(r"-[0-9]{1,9}", word):
            place = int(word[1:])
            if 1 <= place <= len(runs):
                return runs[place - 1]
            several = f"{len(runs)} are remembered, from -1, the last, to -{len(runs)}"
            raise StoreError(f"There is no run -{place}: {several if len(runs) > 1 else 'only -1 is remembered'}.")
        meant = [each for each in runs if word in (each.run_id, each.facts.name)]
        meant.sort(key=lambda each: each.facts.kind is RunKind.RERUN)
        begun = [each for each in runs if len(word) >= SHORTEST_ID and each.run_id.startswith(word)]
        if meant or len(begun) == 1:
            return (meant or begun)[0]
        if begun:
            told = [
                f"{each.run_id} ({'' if each.facts.name is None else f'{each.facts.name}, '}"
                f"{each.facts.started_at:%Y-%m-%d %H:%M:%S} UTC, {each.status.value.replace('_', ' ')})"
                for each in begun[:5]
            ]
            ids = ", ".join(told) + (", ..." if len(begun) > 5 else "")
            raise StoreError(f"{word!r} may be any of {len(begun)} runs: {ids}. Type more of the id.")
        known = dict.fromkeys([*(each.facts.name for each in runs if each.facts.name), *(each.run_id for each in runs)])
        raise StoreError(f"No run {word!r} is remembered.{did_you_mean(word, known)} %ensemble runs lists them.")

    def find_exact(self, run_id: str) -> RememberedRun | None:
        """The run of this whole id; None where it is not there.

        Raises:
            StoreError: it is damaged.
        """
        return self._read(lambda connection: read_run(connection, run_id), None)

    def load_events(self, run_id: str) -> list[Event]:
        """The events of a run, in order; none where it is not there. Pieces of streamed text are not among them.

        Raises:
            StoreError: they are damaged.
        """
        return self._read(lambda connection: list(read_events(connection, run_id)), [])

    def load_trace(self, run: RememberedRun) -> ExecutionTrace:
        """The trace of a run, as far as it has come.

        Raises:
            StoreError: it is damaged.
        """
        return make_trace(run, self.load_events(run.run_id), scores=self.load_scores(run.run_id))

    def load_scores(self, run_id: str) -> list[ScoreRecord]:
        """The scores of a run, in the order in which they were given, those that were replaced included."""
        return self._read(lambda connection: read_scores(connection, run_id).get(run_id, []), [])

    def load_scores_of(self, name: str) -> dict[str, list[ScoreRecord]]:
        """The scores of all runs of this name, by run, as `load_scores` gives those of one.

        Raises:
            StoreError: the store can't be read.
        """
        return self._read(lambda connection: read_scores(connection, name=name), {})

    def load_new_scores(self, after: int) -> tuple[dict[str, list[ScoreRecord]], int]:
        """The scores of all runs that came after the one of this number, by run, and the number of the last one.

        Raises:
            StoreError: the store can't be read.
        """
        nothing: tuple[dict[str, list[ScoreRecord]], int] = {}, after
        return self._read(lambda connection: read_new_scores(connection, after), nothing)

    def add_scores(self, run_id: str, scores: Sequence[ScoreRecord]) -> bool:
        """Add scores to a run, beside those that anybody else adds meanwhile.

        Args:
            run_id: of a run, or of a map with scores of its rows.
            scores: of it; one that is there already stays as it is.

        Returns:
            Whether they are kept: False where the store does not have the run.

        Raises:
            StoreError: the store can't be written.
        """
        return self._read(lambda connection: write_scores(connection, run_id, scores), False)

    def load_summaries(self, run_ids: Sequence[str] | None = None) -> dict[str, RunSummary]:
        """The summaries that are kept, by the ids of their runs: of all runs, or of these."""
        return self._read(lambda connection: read_summaries(connection, run_ids), {})

    def load_parents(self) -> dict[str, str | None]:
        """The ids of all runs, oldest first, each with that of the run which it forks, calls again or goes on with."""
        return self._read(read_parents, {})

    def summarize(self, run_id: str) -> RunSummary | None:
        """Make the summary of a run, and keep it where the run is over; None for one that has not begun.

        Raises:
            StoreError: it is gone, or damaged.
        """
        run = self.find_exact(run_id)
        if run is None:
            raise StoreError(f"Run {run_id} is no longer in the store {self.path}.")
        summary = summarize_trace(self.load_trace(run))
        if summary is not None and run.status is not RunStatus.RUNNING:
            self.keep_summaries({run_id: summary})
        return summary

    def keep_summaries(self, summaries: Mapping[str, RunSummary]) -> None:
        """Keep these with their runs; nothing is lost where that fails, since they can be made again."""
        if summaries:
            with suppress(StoreError), opened(self.path) as connection:
                write_summaries(connection, summaries)

    def clear(self) -> int:
        """Forget all runs that are over, and say how many they were. Running ones go on unharmed.

        Raises:
            StoreError: the store can't be written.
        """
        return self._read(lambda connection: forget(connection, [each for each, _ in list_over(connection)]), 0)

    def forget(self, run_ids: Collection[str]) -> int:
        """Forget these runs, with all that belongs to them, and say how many they were.

        Raises:
            ValidationError: one of them goes on; none is forgotten then.
            StoreError: the store can't be written.
        """

        def forget_if_over(connection: sqlite3.Connection) -> int:
            over = [run_id for run_id, _ in list_over(connection) if run_id in run_ids]
            running = {run.run_id for run in read_runs(connection)} & set(run_ids) - set(over)
            if running:
                raise ValidationError(f"Run {min(running)} goes on, and can't be forgotten. Stop it first.")
            return forget(connection, over)

        return self._read(forget_if_over, 0)

    def load_exchanges(self, run_id: str) -> list[dict[str, Any]]:
        """The documents of a recording of this run, in order.

        Raises:
            StoreError: they are damaged.
        """
        return self._read(lambda connection: list(read_exchanges(connection, run_id)), [])

    def load_answers(self, call_ids: Collection[str]) -> dict[str, UsedAnswer]:
        """The answers that were used of these calls, by their ids.

        Raises:
            StoreError: the store can't be read.
        """
        return self._read(lambda connection: read_answers(connection, call_ids), {})

    def use_answer(self, call_id: str, asked_in: str, answer: UsedAnswer) -> UsedAnswer | None:
        """Note an answer before it is used, for all processes; gives the one that was used before, if there is one.

        Args:
            call_id: of the call that waited.
            asked_in: the run in which it was left pending.
            answer: what was said.

        Raises:
            StoreError: the store can't be written.
        """
        with opened(self.path) as connection:
            return use_answer(connection, call_id, asked_in, answer)

    def open_results(self) -> ResultReader:
        """What finds results by their keys, of whatever run or kernel; the caller closes it."""
        return ResultReader(self.path)

    def load_reply_sizes(self, name: str, paths: Collection[str]) -> dict[str, float]:
        """The mean length, in bytes, of what tasks put out in the last runs of this name, by their paths.

        Args:
            name: of the runs.
            paths: of the tasks in a run; in a map, in that of a row.

        Raises:
            StoreError: the store can't be read.
        """
        return self._read(lambda connection: read_reply_sizes(connection, name, paths), {})

    def load_results(self, run_id: str) -> list[StoredResult]:
        """The results of the finished tasks of a run, in the order in which they were done.

        A task that was done several times has one for each. What is damaged is left out.

        Raises:
            StoreError: the store can't be read.
        """
        return self._read(lambda connection: list(read_results(connection, run_id)), [])

    def _read(self, read: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """What is read from the file; `nothing` where there is none.

        Raises:
            StoreError: it can't be read.
        """
        if not self.path.exists():
            return nothing
        with opened(self.path) as connection:
            return read(connection)

    def __repr__(self) -> str:
        """Say its file."""
        return f"RunStore({str(self.path)!r})"


if hasattr(os, "register_at_fork"):  # a forked process has no threads: it begins anew
    os.register_at_fork(after_in_child=_open_stores.clear)


# --- The thread that makes the tables of runs that have ended, so that many runs load quickly later -------------------
#
# It works while no run of this process goes on, and lets one that begins have the processor at once. What it has not
# come to when the process ends is made when the runs are loaded. Knows no tables: what makes them is imported once
# there is something to make, since a run waits for what is imported before it.

QUIET_S: Final = 0.5
"""How long there has been no run before it begins: mostly, another one follows at once."""

_STOP_S: Final = 5.0

_log: Final = logging.getLogger("ensemble_notebook.store")


class _StoppedError(Exception):
    """The process ends."""


class TableKeeper:
    """Makes and keeps the tables of the runs in one file. Its thread lives as long as there is something to do.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._open_count = 0
        self._quiet_since = 0.0
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        atexit.register(self.stop)

    def begin(self) -> None:
        """A run begins, for which all waits."""
        with self._changed:
            self._open_count += 1

    def end(self, run_id: str, *, is_written: bool) -> None:
        """A run is over; its tables are to be made if it is in the file."""
        with self._changed:
            self._open_count -= 1
            self._quiet_since = time.monotonic()
            if is_written:
                self._waiting.append(run_id)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="ensemble-tables", daemon=True)
                    self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        while (run_id := self._take()) is not None:
            try:
                from ensemble_notebook.trace.store.kept_tables import make_kept

                make_kept(self._path, run_id, self._pause)
            except _StoppedError:
                return
            except StoreError as error:
                _log.debug("%s", error)
            except Exception as error:  # noqa: BLE001 - the next one may go well, and nobody waits for this one
                _log.warning("The tables of run %s can't be kept: %s", run_id, summarize_error(error))

    def _take(self) -> str | None:
        """The next run, once it is quiet; None where there is none."""
        with self._changed:
            while True:
                if self._is_stopped or not self._waiting:
                    self._thread = None
                    return None
                left_s = self._quiet_since + QUIET_S - time.monotonic()
                if not self._open_count and left_s <= 0:
                    return self._waiting.popleft()
                self._changed.wait(None if self._open_count else left_s)

    def _pause(self) -> None:
        """Let runs that go on have the processor.

        Raises:
            _StoppedError: the process ends.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or not self._open_count)
            if self._is_stopped:
                raise _StoppedError

    def stop(self) -> None:
        """Give up what is left, since the process ends: no thread may be inside a library then."""
        if self._pid != os.getpid():
            return
        with self._changed:
            self._is_stopped, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_STOP_S)
