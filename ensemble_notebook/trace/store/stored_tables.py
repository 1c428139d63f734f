"""The tables of all runs in a store, for frames of many runs (T24): decoded where they are kept, else made and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.score_record import ScoreRecord, list_current
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.analysis.event_log import EVENTS, list_logged_events
from ensemble_notebook.trace.analysis.score_table import SCORES
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.joined_frames import FoldedTables, RunTables
from ensemble_notebook.trace.store.faults import opened
from ensemble_notebook.trace.store.kept_tables import KeptTables, encode_tables, find_mark, read_kept, write_kept
from ensemble_notebook.trace.store.loaded_trace import complete_events, make_trace
from ensemble_notebook.trace.store.run_facts import RememberedRun
from ensemble_notebook.trace.store.store_reader import (
    SIGNS_OF_DAMAGE,
    decode_events,
    read_pieces,
    read_runs,
    read_scores,
)
from ensemble_notebook.trace.tables.table import TableColumns

if TYPE_CHECKING:
    import pandas as pd

_WRITTEN_AT_ONCE: Final = 20

Piece = tuple[Any, Any]
"""Some events of a run as they are stored, with the number of the first."""


class StoredTables:
    """The tables of one run that is over.

    Args:
        path: of the store.
        run: as it stands there.
        kept: its tables; what is missing or damaged is made from the events when it is asked for.
        scores: its own, which are beside the events.
    """

    def __init__(self, path: Path, run: RememberedRun, kept: KeptTables, scores: Sequence[ScoreRecord]) -> None:
        self._path = path
        self._run = run
        self._kept = kept
        self._scores = list_current(scores)

    def count_rows(self, name: str) -> int | None:
        """How many rows a table has; None for one that is not kept."""
        if name == "scores":
            return len(self._scores)
        kept = self._kept.tables.get(name)
        return None if kept is None else kept.count

    def read_columns(self, name: str) -> TableColumns:
        """The rows of a table, column by column.

        Raises:
            StoreError: they have to be made from the events, which are gone or damaged.
        """
        if name == "events":  # they are not folded
            events = complete_events(self._run, _read_events(self._path, self._run)[0])
            return EVENTS.read_columns(list_logged_events(events))
        if name == "scores":
            return SCORES.read_columns(self._scores)
        if name not in self._kept.tables:
            return FoldedTables(_read_trace(self._path, self._run)[0]).read_columns(name)
        try:
            return self._kept.tables[name].decode(name)
        except SIGNS_OF_DAMAGE:
            trace, self._kept = _make_tables(self._path, self._run)
            _write(self._path, {self._run.run_id: self._kept})
            return FoldedTables(trace).read_columns(name)

    def timeseries(self, dt: float | timedelta | None) -> pd.DataFrame:
        """The run over time, see `Frames.timeseries`.

        Raises:
            StoreError: the events are gone or damaged.
        """
        return _read_trace(self._path, self._run)[0].frames.timeseries(dt)

    def load_trace(self) -> ExecutionTrace:
        """The trace of the run, with its scores.

        Raises:
            StoreError: the events are gone or damaged.
        """
        return _read_trace(self._path, self._run)[0].with_scores(self._scores)


def load_tables(path: Path) -> tuple[dict[str, RunTables], list[StoreError]]:
    """The tables of all runs that have begun, the oldest first, and what is wrong with those that can't be read.

    Raises:
        StoreError: the file can't be read.
    """
    tables: dict[str, RunTables] = {}
    problems: list[StoreError] = []
    made: dict[str, KeptTables] = {}
    for run, pieces, kept, scores in _iterate_kept(path):
        try:
            mark = find_mark(run, pieces)
            if run.status is RunStatus.RUNNING:
                tables[run.run_id] = FoldedTables(_make_trace(run, pieces, scores))
                continue
            if kept is None or kept.mark != mark:
                kept = made[run.run_id] = encode_tables(_make_trace(run, pieces), mark)
            tables[run.run_id] = StoredTables(path, run, kept, scores)
        except StoreError as error:
            problems.append(error)
        if len(made) >= _WRITTEN_AT_ONCE:
            _write(path, made)
            made = {}
    if made:
        _write(path, made)
    return tables, problems


def _iterate_kept(
    path: Path,
) -> Iterator[tuple[RememberedRun, list[Piece], KeptTables | None, Sequence[ScoreRecord]]]:
    """The runs that have events, the oldest first, with these as they are stored, what is kept, and their scores.

    The file stays open meanwhile: whoever closes it last has SQLite tidy it up, which takes longer than a small run.
    """
    if not path.exists():
        return
    with opened(path) as connection:
        kept, scores = read_kept(connection), read_scores(connection)
        for run in [*read_runs(connection)][::-1]:
            if pieces := read_pieces(connection, run.run_id):
                yield run, pieces, kept.get(run.run_id), scores.get(run.run_id, [])


def _make_trace(run: RememberedRun, pieces: Iterable[Piece], scores: Sequence[ScoreRecord] = ()) -> ExecutionTrace:
    return make_trace(run, [*decode_events(run.run_id, pieces)], scores=scores)


def _make_tables(path: Path, run: RememberedRun) -> tuple[ExecutionTrace, KeptTables]:
    trace, mark = _read_trace(path, run)
    return trace, encode_tables(trace, mark)


def _read_trace(path: Path, run: RememberedRun) -> tuple[ExecutionTrace, bytes]:
    """The trace of a run, and the mark of what it was made from."""
    events, mark = _read_events(path, run)
    return make_trace(run, events), mark


def _read_events(path: Path, run: RememberedRun) -> tuple[list[Event], bytes]:
    """The events of a run, and the mark of what they were read from."""
    with opened(path) as connection:
        pieces = read_pieces(connection, run.run_id)
    if not pieces:
        raise StoreError(f"Run {run.run_id} is no longer in the store {path}. Load the traces again.")
    return [*decode_events(run.run_id, pieces)], find_mark(run, pieces)


def _write(path: Path, made: Mapping[str, KeptTables]) -> None:
    """Keep these. Nothing is lost where that fails, since they can be made again."""
    with suppress(StoreError), opened(path) as connection:
        write_kept(connection, made)
