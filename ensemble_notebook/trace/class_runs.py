"""What a class has done (C124): each student's last run of each exercise, its checks, its cost, and where it got stuck.

A student is a folder with trace files, or a run store, or both; an exercise is what its runs are called. What students
have left is read and never written, and a file that can't be read takes nothing from the others.
"""

from __future__ import annotations

import glob
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ensemble_notebook.domain.definitions.enums import RunKind, RunStatus
from ensemble_notebook.domain.local_paths import list_paths, read_path
from ensemble_notebook.domain.outputs.score import CHECK, ScoreRecord
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.errors import EnsembleError, StoreError, ValidationError, summarize_error
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table, document_table, make_known

if TYPE_CHECKING:
    import pandas as pd

UNNAMED: Final = "(no name)"

_TRACES: Final = (".trace.json", ".trace.json.gz")
_STORES: Final = (".db", ".sqlite", ".sqlite3")
_NO_EXERCISE: Final = (RunKind.RERUN, RunKind.NESTED)
_FAULTS: Final = (EnsembleError, OSError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseRun:
    """A student's last run of an exercise.

    Attributes:
        student: the name of the folder.
        exercise: what its runs are called.
        trace: of the run.
        earlier: the runs of the same exercise before it, oldest first.
        also_in: other students in whose folder the very same run is.
    """

    student: str
    exercise: str
    trace: ExecutionTrace
    earlier: tuple[ExecutionTrace, ...] = ()
    also_in: tuple[str, ...] = ()

    @property
    def checks(self) -> list[ScoreRecord]:
        """The scores that checks have left in the run, in the order in which they were given."""
        return [each for each in self.trace.scores if each.name.startswith(CHECK)]

    @property
    def passed(self) -> int:
        """How many of them hold."""
        return sum(each.passed is True for each in self.checks)

    @property
    def total_cost(self) -> Decimal | None:
        """The known cost of all runs of the exercise, in the currency of the last."""
        metrics = [each.metrics for each in (*self.earlier, self.trace)]
        costs = [each.cost for each in metrics if each.cost is not None and each.currency == metrics[-1].currency]
        return sum(costs, Decimal(0)) if costs else None

    @property
    def first_mistake(self) -> tuple[str, str] | None:
        """What first went wrong in the run, in names, and its text; None where nothing did."""
        if self.trace.status is not RunStatus.COMPLETED:
            if errors := self.trace.errors:
                return _name_error(errors[0]), errors[0].error_message or ""
            return self.trace.status.value.replace("_", " "), ""
        missed = next((each for each in self.checks if each.passed is not True), None)
        return None if missed is None else (missed.name, missed.reason or missed.error or "")

    @property
    def frequent_error(self) -> tuple[str, int, str] | None:
        """The error that came most often in all runs of the exercise, how often, and what it said last; None: none."""
        errors = [error for trace in (*self.earlier, self.trace) for error in trace.errors]
        if not errors:
            return None
        ((name, count),) = Counter(map(_name_error, errors)).most_common(1)
        return name, count, next(each.error_message or "" for each in reversed(errors) if _name_error(each) == name)


def _name_error(span: Span) -> str:
    place = span.name or span.task
    return f"{span.error_type or 'error'} in {place}" if place else span.error_type or "error"


CLASS: Final = Table(
    "student and exercise: the last run of it. A student without a run has no row",
    None,
    (
        make_known("student", "string", "name of the folder"),
        make_known("exercise", "string", "what the run is called"),
        make_known("run_id", "string", "of the run", "trace.run_id"),
        Column("start_time", UTC_TIME, "when it started", "trace.started_at"),
        make_known("status", "category", "how it ended", "trace.status.value"),
        make_known("runs", "Int64", "runs of the exercise, this one included", lambda row: len(row.earlier) + 1),
        make_known("checks", "Int64", "expectations that were checked", lambda row: len(row.checks)),
        make_known("checks_passed", "Int64", "of these that hold", "passed"),
        Column("cost", "Float64", "of the run, known part, in currency", "trace.metrics.cost"),
        Column("total_cost", "Float64", "of all runs of the exercise, known part, in currency"),
        Column("currency", "category", "of the cost", "trace.metrics.currency"),
        Column(
            "first_mistake",
            "string",
            "the first error of a run that did not complete, else the first check that does not hold",
            lambda row: (row.first_mistake or [None])[0],
        ),
        Column(
            "frequent_error",
            "string",
            "the error that came most often in all runs of the exercise",
            lambda row: (row.frequent_error or [None])[0],
        ),
        Column("frequent_error_count", "Int64", "how often", lambda row: (row.frequent_error or [None, None])[1]),
        Column("also_in", "object", "other students who have the very same run", lambda row: row.also_in or None),
    ),
)
_TEXTS: Final = (
    Column("mistake_text", "string", "what the first mistake says", lambda row: (row.first_mistake or [0, None])[1]),
    Column("error_text", "string", "what the error says", lambda row: (row.frequent_error or [0, 0, None])[2]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRuns:
    """What a class has done; made by `load_class`.

    Attributes:
        students: the names of the folders, in order; those without a run, too.
        runs: each student's last run of each exercise, by students and then in the order of the first run of it.
        problems: what could not be read, in sentences.
        has_texts: whether texts of errors and reasons are shown.
    """

    students: tuple[str, ...]
    runs: tuple[ExerciseRun, ...]
    problems: tuple[str, ...] = ()
    has_texts: bool = False

    @property
    def idle(self) -> tuple[str, ...]:
        """The students without a run."""
        busy = {each.student for each in self.runs}
        return tuple(each for each in self.students if each not in busy)

    @property
    def exercises(self) -> dict[str, list[ExerciseRun]]:
        """The runs by exercise, in the order in which the class came to them."""
        began: dict[str, datetime] = {}
        found: defaultdict[str, list[ExerciseRun]] = defaultdict(list)
        for each in self.runs:
            found[each.exercise].append(each)
            times = [trace.started_at for trace in (*each.earlier, each.trace) if trace.started_at is not None]
            began[each.exercise] = min([*times, *([began[each.exercise]] if each.exercise in began else [])])
        return {name: found[name] for name in sorted(found, key=began.__getitem__)}

    @property
    @document_table(CLASS)
    def frame(self) -> pd.DataFrame:
        """The same as a DataFrame; with the columns `mistake_text` and `error_text` where texts were asked for."""
        table = Table(CLASS.grain, None, (*CLASS.columns, *_TEXTS)) if self.has_texts else CLASS
        return table.to_frame(self.runs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file.

        Args:
            path: one that ends in ``.html`` is one page for the teacher, one in ``.csv`` the frame.

        Raises:
            ValidationError: the name has another ending, or it is an address.
            OSError: the file can't be written.
        """
        file = read_path(path, "path")
        match file.suffix.lower():
            case ".html":
                text = render_view("class_page", self)
            case ".csv":
                text = self.frame.to_csv(index=False)
            case _:
                raise ValidationError(
                    f"What a class has done goes to a file that ends in .html or .csv, not {file.name!r}."
                )
        file.write_text(text, encoding="utf-8")
        return file

    def __repr__(self) -> str:
        """How much there is."""
        return f"ClassRuns({len(self.students)} students, {len(self.exercises)} exercises)"


def load_class(where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, texts: bool = False) -> ClassRuns:
    """Read what a class has done, from a folder for each student.

    ::

        load_class("RUNS/*").frame

    Args:
        where: the folders, or a pattern of them.
        texts: whether texts of errors, and reasons of checks, are shown beside names and numbers.

    Raises:
        ValidationError: it names no folders, there is no such folder, or no run in any.
    """
    folders = list(dict.fromkeys(_find_folders(list_paths(where, "where", "a folder, a pattern, or a list of these"))))
    problems: list[str] = []
    found = {name: _read_student(name, folder, problems) for name, folder in _name_students(folders).items()}
    if not any(found.values()):
        said = f" {problems[0]}" if problems else ""
        raise ValidationError(f"There is no run in {', '.join(map(str, folders[:3]))}.{said} {_HINT}")
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for name, traces in found.items():
        for each in traces:
            owners[each.run_id].append(name)
    runs = [run for name, traces in found.items() for run in _choose_last(name, traces, owners)]
    return ClassRuns(students=tuple(found), runs=tuple(runs), problems=tuple(problems), has_texts=texts)


_HINT: Final = "Name a folder for each student, with *.trace.json files or a run store in it, such as RUNS/*."


def _find_folders(places: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    for place in places:
        path = Path(place).expanduser()
        if path.is_dir():
            yield path
        elif path.exists():  # beside the folders there may be a list of students
            continue
        else:
            found = sorted(Path(each) for each in glob.glob(str(path)))  # noqa: PTH207 - it may be absolute
            if not found:
                raise ValidationError(f"There is no folder {str(place)!r}. {_HINT}")
            yield from (each for each in found if each.is_dir())


def _name_students(folders: Sequence[Path]) -> dict[str, Path]:
    """By the names of the folders; where two are called the same, by their paths."""
    names = Counter(each.resolve().name for each in folders)
    return {clean_text(each.resolve().name if names[each.resolve().name] == 1 else str(each)): each for each in folders}


def _read_student(name: str, folder: Path, problems: list[str]) -> list[ExecutionTrace]:
    """All runs in a folder, the oldest first, each once."""
    found: dict[str, ExecutionTrace] = {}
    for trace in _read_files(name, folder, problems):
        known = found.get(trace.run_id)
        if known is None or len(trace.scores) > len(known.scores):
            found[trace.run_id] = trace
    judges = {score.judge_run_id for trace in found.values() for score in trace.scores}
    runs = [each for each in found.values() if each.kind not in _NO_EXERCISE and each.run_id not in judges]
    return sorted(runs, key=lambda each: each.started_at.timestamp() if each.started_at else 0.0)


def _read_files(name: str, folder: Path, problems: list[str]) -> Iterator[ExecutionTrace]:
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts) or not file.is_file():
            continue
        try:
            if file.name.endswith(_TRACES):
                trace = ExecutionTrace.load(file)
                if trace.started_at is not None:
                    yield trace
            elif file.suffix in _STORES:
                yield from _read_store(file, f"{name}/{inside}", problems)
        except _FAULTS as error:
            problems.append(_describe_fault(f"{name}/{inside}", error))


def _read_store(file: Path, shown: str, problems: list[str]) -> Iterator[ExecutionTrace]:
    store = RunStore(file.absolute())
    for run in reversed(store.list_runs()):
        try:
            trace = store.load_trace(run)
            if trace.started_at is not None:
                yield trace
        except StoreError as error:
            problems.append(_describe_fault(shown, error))


def _describe_fault(shown: str, error: BaseException) -> str:
    return clean_text(f"{shown} can't be read: {summarize_error(error)}")


def _choose_last(student: str, traces: Sequence[ExecutionTrace], owners: dict[str, list[str]]) -> Iterator[ExerciseRun]:
    by_name: defaultdict[str, list[ExecutionTrace]] = defaultdict(list)
    for each in traces:
        by_name[each.name or UNNAMED].append(each)
    for exercise, (*earlier, last) in by_name.items():
        yield ExerciseRun(
            student=student,
            exercise=exercise,
            trace=last,
            earlier=tuple(earlier),
            also_in=tuple(each for each in owners[last.run_id] if each != student),
        )
