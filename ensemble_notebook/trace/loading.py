"""Many runs at once, from the store or from files, as the same tables (T24); and the table of remembered runs."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.local_paths import list_paths
from ensemble_notebook.domain.outputs.score import ScoreRecord, list_current
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import StoreError, ValidationError, did_you_mean
from ensemble_notebook.importers.span_documents import has_spans
from ensemble_notebook.trace.analysis.timeseries import TIMESERIES
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.session_files import (
    find_sessions,
    is_session,
    read_content,
    read_sessions,
    without_collection,
)
from ensemble_notebook.trace.store.families import FamilyPlace, list_by_family
from ensemble_notebook.trace.store.kept_tables import KeptTables, encode_tables, find_mark, read_kept, write_kept
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunSummary
from ensemble_notebook.trace.store.run_filter import EVERY_RUN, RunFilter, RunLine
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.store_file import opened
from ensemble_notebook.trace.store.store_reader import (
    SIGNS_OF_DAMAGE,
    complete_events,
    decode_events,
    make_trace,
    read_begun,
    read_pieces,
    read_runs,
    read_scores,
    summarize_trace,
)
from ensemble_notebook.trace.tables.frame_tables import EVENTS, SCORES, list_logged_events
from ensemble_notebook.trace.tables.table import (
    UTC_TIME,
    Column,
    FrameProperty,
    Table,
    TableColumns,
    document_table,
    join_values,
    list_frames,
    make_known,
)
from ensemble_notebook.trace.trace_file import read_span_runs

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]
_SQLITE = b"SQLite format 3\0"


FRAMES: Final = list_frames(Frames)
TABLES: Final[Mapping[str, Table]] = {name: each.table for name, each in FRAMES.items()}
"""The tables of the frames by their names."""


class RunTables:
    """The tables of one run, which is in memory.

    Args:
        trace: of the run.
    """

    def __init__(self, trace: ExecutionTrace) -> None:
        self._trace = trace

    def count_rows(self, name: str) -> int | None:
        """How many rows a table has; None where that can't be told at once."""
        return FRAMES[name].count_rows(self._trace.frames)

    def read_columns(self, name: str, columns: Collection[str] | None = None) -> TableColumns:
        """The rows of a table, column by column: those of these names, or all.

        Raises:
            StoreError: they have to be made from events in the store, which are gone or damaged.
        """
        return FRAMES[name].read_columns(self._trace.frames, columns)

    def load_trace(self) -> ExecutionTrace:
        """The trace of the run, with its scores.

        Raises:
            StoreError: its events are in the store, and gone or damaged.
        """
        return self._trace

    def timeseries(self, dt: float | timedelta | None) -> pd.DataFrame:
        """The run over time, see `Frames.timeseries`.

        Raises:
            StoreError: as for `load_trace`.
        """
        return self.load_trace().frames.timeseries(dt)

    def with_scores(self, scores: Iterable[ScoreRecord]) -> RunTables:
        """The same with more scores, which are written nowhere."""
        return RunTables(self._trace._with_scores(scores))


class JoinedFrames(Frames):
    """The frames of several runs: the same tables, run after run, each with the column `run_id`.

    Ids of spans are unique across runs. Names and numbers of messages and events are those of their run.

    Args:
        parts: the tables of each run, by its id.
    """

    def __init__(self, parts: Mapping[str, RunTables]) -> None:
        self._parts = dict(parts)

    def make_frame(self, frame: FrameProperty) -> pd.DataFrame:
        """The frame of the rows of all runs, with `run_id` as a column."""
        tables = {run_id: each.read_columns(frame.name) for run_id, each in self._parts.items()}
        made = frame.table.join([*tables.values()])
        if frame.finish is None and "run_id" not in [each.name for each in frame.table.all_columns]:
            made["run_id"] = join_values([(each.count, [run_id]) for run_id, each in tables.items()], "category")
        return made

    def _load_trace(self, run_id: str) -> ExecutionTrace:
        """The trace of one of the runs.

        Args:
            run_id: of the run.

        Raises:
            ValidationError: it is none of these; names the nearest.
            StoreError: it is gone, or damaged.
        """
        if run_id not in [*self._parts]:  # a list may be asked for whatever somebody gives
            raise ValidationError(f"No run {run_id!r} is among these.{did_you_mean(str(run_id), self._parts)}")
        return self._parts[run_id].load_trace()

    def _count_rows(self) -> dict[str, int | None]:
        """How many rows each frame has or will have, by its name; None where that is not known before it is made."""
        counts = {name: [each.count_rows(name) for each in self._parts.values()] for name in TABLES}
        return {name: None if None in each else sum(filter(None, each)) for name, each in counts.items()}

    def describe(self) -> str:
        """How many runs and spans there are, and from when to when, in one line."""
        if not self._parts:
            return "No runs."
        spans = self._count_rows()["spans"] or 0
        begun, ended = self.runs.start_time.min(), self.runs[["start_time", "end_time"]].max().max()
        counts = f"{pluralize(len(self._parts), 'run')}, {pluralize(spans, 'span')}"
        return f"{counts}, {begun:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M} UTC"

    def __repr__(self) -> str:
        """What there is, and the names of the frames."""
        return f"{self.describe()}\nframes: {', '.join(TABLES)}, timeseries(dt)"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("frames", self)

    @document_table(TIMESERIES)
    def timeseries(self, dt: float | timedelta | None = None) -> pd.DataFrame:
        """Each run over time, from its own start, in bins of length `dt`; see `Frames.timeseries`."""
        import pandas as pd

        made = {run_id: each.timeseries(dt) for run_id, each in self._parts.items()}
        # Categories of runs in several currencies are none when they are joined.
        joined = pd.concat([*made.values()]).astype({"currency": "category"}) if made else TIMESERIES.to_frame([])
        joined["run_id"] = join_values([(len(each), [run_id]) for run_id, each in made.items()], "category")
        return joined


def load_run_tables(
    where: PathLike | Sequence[PathLike] | None, wanted: RunFilter = EVERY_RUN, names: Collection[str] = TABLES
) -> dict[str, RunTables]:
    """The tables of all runs in these places, by run. Those that are in several places are taken once.

    Args:
        where: None for all runs that the store remembers, in order of their start; the path of a ``*.trace.json``, of a
            session of a coding agent, of a folder of these, or of another store; a pattern such as
            ``"traces/**/*.trace.json"``; or a list of these.
        wanted: which of these; of a store, no other one is read.
        names: of the tables that will be asked for; others are made from the events.

    Raises:
        ValidationError: no run is called as it says, or `where` is no path or pattern, or an address.
        StoreError: nothing is remembered since the store is off, or it can't be read. Single runs in it that can't be
            read are left out with a warning.
        FileNotFoundError: there is no such file, or none fits the pattern.
        TraceFormatError: a file is no trace, or not a whole one.
    """
    places = None if where is None else list_paths(where, "where", "a path, a pattern, or a list of these")
    paths = [RunStore.open().path] if places is None else [path for place in places for path in _find_files(place)]
    traces: dict[str, ExecutionTrace] = {}
    stored: dict[str, tuple[Path, RememberedRun]] = {}
    lines: dict[str, RunLine] = {}
    loaded: list[ExecutionTrace] = []
    sessions: list[Path] = []
    named = [path for place in places or () if (path := Path(place).expanduser()).is_file()]
    with without_collection():
        for path in paths:
            if places is None or _is_store(path):
                for run, line in _list_stored(path.absolute(), wanted):
                    if run.run_id not in lines:
                        stored[run.run_id] = path.absolute(), run
                        lines[run.run_id] = line
            elif is_session(path):
                sessions.append(path)
            else:
                loaded += _load_file(path)
        # Together, since a session that was resumed has lines of the older one.
        for trace in chain(loaded, map(ExecutionTrace.from_events, read_sessions(sessions, named))):
            if trace.run_id not in lines and trace.started_at is not None:
                traces[trace.run_id] = trace
                lines[trace.run_id] = RunLine(trace.name, trace.started_at, trace.status)
    chosen = wanted.choose(lines)
    by_store: dict[Path, list[RememberedRun]] = {}
    for path, run in (stored[run_id] for run_id in chosen if run_id in stored):
        by_store.setdefault(path, []).append(run)
    found = {run_id: RunTables(traces[run_id]) for run_id in chosen if run_id in traces}
    for path, runs in by_store.items():
        found |= _load_stored(path, runs, names)
    return {run_id: found[run_id] for run_id in chosen if run_id in found}


def _load_file(path: Path) -> Iterable[ExecutionTrace]:
    """The runs in a file: of spans, those of all traces in it."""
    content = read_content(path)
    if has_spans(content):
        return map(ExecutionTrace.from_events, read_span_runs(content, path))
    return [ExecutionTrace.load(path)]


def _is_store(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _find_files(place: PathLike) -> Iterable[Path]:
    """The files that a path or a pattern names, in order of their names."""
    path = Path(place).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        return find_sessions(path)
    found = sorted(Path(each) for each in glob.glob(str(path), recursive=True))  # noqa: PTH207 - it may be absolute
    if not found:
        raise FileNotFoundError(f"There is no trace {str(place)!r}.")
    return [each for each in found if each.is_file()]


_WRITTEN_AT_ONCE: Final = 20

Piece = tuple[Any, Any]
"""Some events of a run as they are stored, with the number of the first."""


class StoredTables(RunTables):
    """The tables of one run that is over, in the store.

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
        if name == "scores":
            return len(self._scores)
        kept = self._kept.tables.get(name)
        return None if kept is None else kept.count

    def read_columns(self, name: str, columns: Collection[str] | None = None) -> TableColumns:
        if name == "events":  # they are not folded
            events = complete_events(self._run, _read_events(self._path, self._run)[0])
            return EVENTS.read_columns(list_logged_events(events), columns)
        if name == "scores":
            return SCORES.read_columns(self._scores, columns)
        if name not in self._kept.tables:
            return RunTables(_read_trace(self._path, self._run)[0]).read_columns(name, columns)
        try:
            return self._kept.tables[name].decode(name, columns)
        except SIGNS_OF_DAMAGE:
            trace, mark = _read_trace(self._path, self._run)
            self._kept = encode_tables(trace, mark)
            _write(self._path, {self._run.run_id: self._kept})
            return RunTables(trace).read_columns(name, columns)

    def load_trace(self) -> ExecutionTrace:
        return _read_trace(self._path, self._run)[0]._with_scores(self._scores)

    def with_scores(self, scores: Iterable[ScoreRecord]) -> StoredTables:
        return StoredTables(self._path, self._run, self._kept, (*self._scores, *scores))


def _list_stored(path: Path, wanted: RunFilter) -> list[tuple[RememberedRun, RunLine]]:
    """The runs in a store that have begun, the oldest first, and what is known of each before it is read.

    Raises:
        StoreError: the file can't be read.
    """
    if not path.exists():
        return []
    with opened(path) as connection:
        begun = read_begun(connection)
        listed = []
        for run in [run for run in read_runs(connection) if run.run_id in begun][::-1]:
            began = run.facts.started_at
            if wanted.is_near(began):
                with suppress(StoreError):
                    began = next(decode_events(run.run_id, read_pieces(connection, run.run_id, 1))).time
            listed.append((run, RunLine(run.facts.name, began, run.status)))
        return listed


def _load_stored(path: Path, runs: Sequence[RememberedRun], names: Collection[str]) -> dict[str, RunTables]:
    """The tables of these runs of a store; with a warning of what can't be read.

    Raises:
        StoreError: the file can't be read.
    """
    tables: dict[str, RunTables] = {}
    problems: list[StoreError] = []
    made: dict[str, KeptTables] = {}
    # The file stays open meanwhile: whoever closes it last has SQLite tidy it up, which takes longer than a small run.
    with opened(path) as connection:
        all_kept, scores = read_kept(connection, [run.run_id for run in runs], names), read_scores(connection)
        for run in runs:
            if not (pieces := read_pieces(connection, run.run_id)):
                continue  # forgotten meanwhile
            kept, of_run = all_kept.get(run.run_id), scores.get(run.run_id, [])
            try:
                mark = find_mark(run, pieces)
                if run.status is RunStatus.RUNNING:
                    tables[run.run_id] = RunTables(_make_trace(run, pieces, of_run))
                    continue
                if kept is None or kept.mark != mark:
                    kept = made[run.run_id] = encode_tables(_make_trace(run, pieces), mark)
                tables[run.run_id] = StoredTables(path, run, kept, of_run)
            except StoreError as error:
                problems.append(error)
            if len(made) >= _WRITTEN_AT_ONCE:
                _write(path, made)
                made = {}
    if made:
        _write(path, made)
    if problems:
        more = f", and {len(problems) - 1} more. They are" if len(problems) > 1 else ". It is"
        warnings.warn(f"{path}: {str(problems[0]).rstrip('.')}{more} left out.", UserWarning, stacklevel=4)
    return tables


def _make_trace(run: RememberedRun, pieces: Iterable[Piece], scores: Sequence[ScoreRecord] = ()) -> ExecutionTrace:
    return make_trace(run, [*decode_events(run.run_id, pieces)], scores=scores)


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


# --- The table of remembered runs: what each was, and what it took ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with its summary, None where its events can't be read, and where it stands in its family.

    Attributes:
        total_cost: the known cost of it and of all that it goes on with.
    """

    run: RememberedRun
    summary: RunSummary | None
    place: FamilyPlace
    total_cost: Decimal | None = None


def _read(name: str) -> Any:
    return lambda row: None if row.summary is None else getattr(row.summary, name)


def _read_origin(name: str) -> Any:
    return lambda row: row.run.facts.origin and (getattr(row.run.facts.origin, name) or None)


REMEMBERED_RUNS: Final = Table(
    "remembered run. Families stand together, in the order of their newest run: what forks, calls again or goes on "
    "with a run behind that, newest first",
    make_known("run_id", "string", "unique", "run.run_id"),
    (
        Column("name", "category", "of the ensemble, else of the variable that has its output", "run.facts.name"),
        Column(
            "kind",
            "category",
            "run, map, rerun or fork; NA in runs of earlier versions",
            lambda row: row.run.facts.kind and row.run.facts.kind.value,
        ),
        Column("status", "category", "how it ended, or stands", "run.status.value"),
        Column("start_time", UTC_TIME, "when it started", "run.facts.started_at"),
        Column("tasks_done", "Int64", "tasks of the plan that completed", _read("tasks_done")),
        Column("tasks", "Int64", "tasks of the plan", _read("tasks")),
        Column("wall_ms", "Float64", "from start to end, or to its last event", _read("wall_ms")),
        Column("input_tokens", "Int64", "known part", _read("input_tokens")),
        Column("output_tokens", "Int64", "known part", _read("output_tokens")),
        Column("cost", "Float64", "known part, in currency", _read("cost")),
        Column("total_cost", "Float64", "with that of the runs that it goes on with; known part, in currency"),
        Column("currency", "category", "of the cost", _read("currency")),
        Column("inputs", "object", "dict of the template variables, as text", _read("inputs")),
        Column("notebook", "category", "file of the notebook", _read_origin("notebook")),
        Column("cell", "category", "what the notebook calls the cell", _read_origin("cell")),
        Column("framework", "category", "what told of a run of another framework; NA of ours", "run.facts.framework"),
        Column("resumed_from", "string", "the run that it goes on with", "run.facts.resumed_from"),
        Column("forked_from_run", "string", "the run that it forks, or calls again from", "run.facts.forked_from_run"),
        Column("forked_from_span", "string", "where: the span of that run", "run.facts.forked_from_span"),
        Column(
            "changed", "object", "what it changes there; NA where nothing", lambda row: row.run.facts.changed or None
        ),
        Column(
            "family", "string", "the run that it and others came of, its own id where there is none", "place.family"
        ),
        Column(
            "generation", "Int64", "0 for that run, 1 for what came of it, 2 for what came of that", "place.generation"
        ),
        Column("capture_mode", "category", "metadata, off, standard or full", "run.facts.capture_mode.value"),
    ),
)


def make_run_table(store: RunStore) -> pd.DataFrame:
    """The runs in a store as a frame.

    Raises:
        StoreError: the store can't be read.
    """
    return REMEMBERED_RUNS.to_frame(list_runs(store))


def list_runs(store: RunStore) -> list[ListedRun]:
    """The runs in a store with what they came to, by families, see `list_by_family`.

    A summary is made of the trace when it is first asked for, by the same fold as all else, and kept.
    """
    summaries = store.load_summaries()
    made: dict[str, RunSummary] = {}
    runs = {run.run_id: run for run in store.list_runs()}
    parents = {run_id: each.facts.forked_from_run or each.facts.resumed_from for run_id, each in runs.items()}
    listed = []
    for run_id, place in list_by_family(runs, parents):
        run = runs[run_id]
        summary = summaries.get(run.run_id)
        if summary is None:
            with suppress(StoreError):  # it is damaged, or has not begun
                summary = summarize_trace(store.load_trace(run))
            if summary is not None and run.status is not RunStatus.RUNNING:
                made[run.run_id] = summary
        listed.append(ListedRun(run, summary, place))
    store.keep_summaries(made)
    known = {each.run.run_id: each for each in listed}
    return [replace(each, total_cost=_sum_costs(each, known)) for each in listed]


def _sum_costs(listed: ListedRun, known: Mapping[str, ListedRun]) -> Decimal | None:
    """What a run and those that it goes on with cost, as far as that is known, and in its currency."""
    costs, currency, seen = [], listed.summary and listed.summary.currency, set[str]()
    run: ListedRun | None = listed
    while run is not None and run.run.run_id not in seen:  # a file may say anything (E71)
        seen.add(run.run.run_id)
        if run.summary is not None and run.summary.cost is not None and run.summary.currency == currency:
            costs.append(run.summary.cost)
        run = known.get(run.run.facts.resumed_from or "")
    return sum(costs[1:], costs[0]) if costs else None
