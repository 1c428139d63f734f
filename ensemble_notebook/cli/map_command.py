"""``map``: a cell in a file, run for each row of a file, scored and held to marks, without a notebook (V13)."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.binding.scorer_binder import find_scorers
from ensemble_notebook.cell.reading.mistakes import in_cell_words
from ensemble_notebook.cell.reading.options import check_early_end
from ensemble_notebook.cli.cell_files import check_place, read_command, remove_unprintable, say
from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.events import PlanMade, TaskCompleted, TaskFailed, TaskReused
from ensemble_notebook.domain.outputs.score import find_name
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ScoringError, ValidationError, did_you_mean
from ensemble_notebook.evaluation.scored_runs import LEAVE_OUT
from ensemble_notebook.evaluation.scorer import ReadyScorer
from ensemble_notebook.evaluation.summary import UNPAIRED

if TYPE_CHECKING:
    from ensemble_notebook.cell.cell_reader import Cell
    from ensemble_notebook.cell.reading.options import Options
    from ensemble_notebook.ensemble.many_runs.early_end import EarlierMap
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
    from ensemble_notebook.evaluation.comparison import Comparison
    from ensemble_notebook.evaluation.summary import Gate

_PROGRESS_S: Final = 2.0
_TRACE: Final = ".json"
_ASKED: Final = ": more than 5% of the rows are in one map alone; --allow-unpaired asks it of the others"
_DONE: Final = (TaskCompleted, TaskFailed, TaskReused)


def map_file(arguments: Namespace) -> bool:
    """Run the cell of a file for each row of another one, and print what came of it.

    Returns:
        Whether every gate is open; without gates, whether all rows are done.

    Raises:
        EnsembleError, RunInterrupted: there is a mistake, or the map was stopped.
    """
    from ensemble_notebook.ensemble.many_runs.early_end import EarlierMap
    from ensemble_notebook.ensemble.many_runs.map_files import check_export
    from ensemble_notebook.trace.row_files import read_row_file

    rows = read_row_file(Path(arguments.rows))
    cell, options = read_command(arguments, needs_inputs=False)
    sys.path.insert(0, str(Path.cwd()))  # dotted names in a cell may mean a module of the working folder
    if arguments.out is not None:
        check_place("-o", arguments.out)
        check_export(arguments.out)
    if arguments.summary is not None:
        check_place("--summary", arguments.summary)
    names = _load_names(arguments.scores or ())
    if names and not arguments.score:
        raise ValidationError("--scores says where scorers are: say which with --score NAME.")
    scorers = find_scorers(arguments.score or (), names, "--score ")
    marks = _read_marks(arguments, scorers)
    earlier = None if arguments.against is None else _load_earlier(arguments.against, scorers)
    against = None
    if earlier is not None and marks.loss is not None:
        against = EarlierMap(earlier, marks.loss, LEAVE_OUT if marks.failed is None else marks.failed)
    result, fault = _run(cell, options, rows, scorers or None, arguments, against)
    print(remove_unprintable(result._repr_mimebundle_()["text/plain"]))
    if arguments.out is not None:
        result.export(arguments.out)
        say(f"The map is in {arguments.out}")
    if fault is not None:
        say(remove_unprintable(str(fault)))
    verdict = _judge(result, marks, earlier)
    for line in verdict.lines:
        print(remove_unprintable(line))
    if arguments.summary is not None:
        arguments.summary.parent.mkdir(parents=True, exist_ok=True)
        with arguments.summary.open("a", encoding="utf-8") as out:
            out.write("\n".join(_write_markdown(result, verdict)) + "\n")
    if fault is not None or (marks.is_gate and not verdict.gates):
        return False
    return all(verdict.gates) if marks.is_gate else result.status is RunStatus.COMPLETED


# --- What is asked for ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    """What is to be reached.

    Attributes:
        least: by the name of a score, what its mean is to be at least.
        loss: what may be lost against an earlier map; None where nothing is said of that.
        allow_unpaired: whether that is asked also where many rows are in one of the two maps alone.
        failed: what a row that failed counts as, where a score is a number.
    """

    least: Mapping[str, float]
    loss: float | None
    allow_unpaired: bool
    failed: Any

    @property
    def is_gate(self) -> bool:
        """Whether anything is to be reached."""
        return bool(self.least) or self.loss is not None


def _read_marks(arguments: Namespace, scorers: Mapping[str, Any]) -> _Marks:
    """Read the marks, and check what can be checked before anything is paid.

    Raises:
        ValidationError: a mark is no number, or of a score that nothing gives.
    """
    if arguments.not_worse_by is not None and arguments.against is None:
        raise ValidationError("--not-worse-by is about an earlier map: name it with --against RUN or FILE.")
    if arguments.against is not None and not scorers:
        raise ValidationError("--against compares scores, and nothing scores. Name a scorer with --score, too.")
    if arguments.allow_unpaired and arguments.not_worse_by is None:
        raise ValidationError("--allow-unpaired is about --not-worse-by LOSS: name that, too, or leave it out.")
    if arguments.until_clear is not None and arguments.not_worse_by is None:
        raise ValidationError(
            "--until-clear ends the rows when it is clear whether they are worse than an earlier map: name that with "
            "--against RUN or FILE, and --not-worse-by LOSS."
        )
    check_early_end(arguments.until_clear, seed=arguments.seed)
    loss = None if arguments.not_worse_by is None else _read_number("--not-worse-by", arguments.not_worse_by)
    if loss is not None and loss <= 0:
        raise ValidationError(f"--not-worse-by must be above 0, the most that may be lost, got {loss:g}.")
    if loss is not None and _give_shares(scorers) and loss >= 1:
        raise ValidationError(f"--not-worse-by {loss:g}: nothing can lose so much; it is a share, as 0.05.")
    failed = arguments.failed
    for option, value in (("--failed", failed), ("--expected", arguments.expected)):
        if value is not None and not scorers:
            raise ValidationError(f"{option} is about scores, and nothing scores. Name a scorer with --score, too.")
    return _Marks(
        least=_read_least(arguments, scorers),
        loss=loss,
        allow_unpaired=arguments.allow_unpaired,
        failed=failed if failed in (None, "leave out") else _read_number("--failed", failed),
    )


def _read_least(arguments: Namespace, scorers: Mapping[str, Any]) -> dict[str, float]:
    """What the means of scores are to be at least.

    Raises:
        ValidationError: as `_read_marks`.
    """
    least: dict[str, float] = {}
    for text in arguments.fail_under or ():
        given, _, value = text.rpartition("=")
        name = find_name(given, scorers)
        if not name or name in least:
            raise ValidationError(f"--fail-under wants NAME=MARK, each name once, as accuracy=0.9; got {text!r}.")
        least[name] = _read_number("--fail-under", value)
        if not scorers:
            raise ValidationError(f"--fail-under {text}: nothing scores. Name a scorer with --score, too.")
        if name not in scorers and (_give_shares(scorers) or did_you_mean(name, scorers).startswith(" Did")):
            raise ValidationError(f"--fail-under {text}: no scorer gives {name!r}.{did_you_mean(name, scorers)}")
        if isinstance(scorers.get(name), ReadyScorer) and not 0 <= least[name] <= 1:
            raise ValidationError(f"--fail-under {text}: the mark must be a share between 0 and 1, as 0.9.")
    return least


def _read_number(option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValidationError(f"{option} wants a number, got {text!r}.")
    return number


def _give_shares(scorers: Mapping[str, Any]) -> bool:
    """Whether all scores pass or fail, and are called as is known before; functions and judges may give others."""
    return bool(scorers) and all(isinstance(each, ReadyScorer) for each in scorers.values())


def _load_names(places: Sequence[str]) -> dict[str, Any]:
    """The functions and ensembles that scorers are looked for among: of Python files, and ``module:function``.

    Raises:
        ValidationError: there is no such file, module or function.
    """
    names: dict[str, Any] = {}
    for place in places:
        if place.endswith(".py"):
            path = Path(place)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None or not path.is_file():
                raise ValidationError(f"--scores {path}: there is no such file.")
            loaded = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(path.stem, loaded)  # so that its functions can be sent to workers
            spec.loader.exec_module(loaded)
            names.update({name: value for name, value in vars(loaded).items() if not name.startswith("_")})
            continue
        module, _, function = place.partition(":")
        if not function:
            raise ValidationError(f"--scores wants FILE.py or module:function, got {place!r}.")
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            raise ValidationError(f"--scores {place}: {error}.") from error
        if not hasattr(found, function):
            near = did_you_mean(function, [name for name in vars(found) if not name.startswith("_")])
            raise ValidationError(f"--scores {place}: {module} has no {function!r}.{near}")
        names[function] = getattr(found, function)
    return names


def _load_earlier(word: str, scorers: Mapping[str, Any]) -> MapResult:
    """The map that is compared with: of a trace file, or one that the store remembers.

    Raises:
        EnsembleError: there is none.
    """
    from ensemble_notebook.ensemble.many_runs.loaded_map import load_map, make_map_result
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

    if word.endswith(_TRACE) and not Path(word).is_file():
        raise ValidationError(f"--against {word}: there is no such file.")
    found = make_map_result(ExecutionTrace.load(word)) if word.endswith(_TRACE) else load_map(word)
    if not found.score_records:
        raise ValidationError(
            f"--against {word}: that map has no scores. Add some, with `%ensemble score` or in Python."
        )
    before = {each.current_name for each in found.score_records}
    if _give_shares(scorers) and not before & scorers.keys():
        known = ", ".join(map(repr, sorted(before)))
        raise ValidationError(f"--against {word}: that map has none of these scores, but {known}.")
    for name in scorers:
        if not any(each == name or each.startswith(f"{name}.") for each in before):
            shown = ", ".join(map(repr, sorted(before)))
            say(f"The earlier map has no score {name!r}, but {shown}: only what is called so can be compared.")
    return found


# --- The run ----------------------------------------------------------------------------------------------------------


def _run(
    cell: Cell,
    options: Options,
    rows: Any,
    scorers: Mapping[str, Any] | None,
    arguments: Namespace,
    against: EarlierMap | None,
) -> tuple[MapResult, ScoringError | None]:
    """Run all rows, and say how far they have come; a map that was cut short is a result, too.

    Raises:
        EnsembleError, RunInterrupted: there is a mistake, or somebody stopped it; what is done is printed first.
    """
    from ensemble_notebook.ensemble.many_runs.map_run import start_map
    from ensemble_notebook.ensemble.many_runs.map_settings import MapArguments, MapSettings
    from ensemble_notebook.ensemble.person import InterruptGuard
    from ensemble_notebook.ensemble.run_settings import RunSettings

    map_settings = MapSettings(
        score=scorers,
        expected=arguments.expected,
        id=arguments.id,
        repeat=arguments.repeat,
        attach=arguments.attach,
        until_clear=arguments.until_clear,
        seed=arguments.seed or 0,
    )
    given = MapArguments(rows, RunSettings(**options.run_settings), map_settings)
    handle = start_map(cell.build({}), given, cell.inputs, against=against)
    progress = _Progress(handle)
    with InterruptGuard() as guard:
        handle._begin()
        arguments.has_begun = True
        guard.call(handle.cancel)
        try:
            return handle.result(while_waiting=progress.tell), None
        except ScoringError as error:
            return error.result, error
        except (EnsembleError, RunInterrupted) as error:
            result: Any = error.output
            if result is None or isinstance(error, RunInterrupted):
                if result is not None:
                    print(remove_unprintable(result._repr_mimebundle_()["text/plain"]))
                raise in_cell_words(error) from error.__cause__
            say(remove_unprintable(str(error)))
            return result, None
        finally:
            progress.tell(is_last=True)


class _Progress:
    """Says how many rows are done, now and then.

    Args:
        handle: of the map.
    """

    def __init__(self, handle: MapHandle) -> None:
        self._handle = handle
        self._read = 0
        self._rows: frozenset[str] = frozenset()
        self._done = 0
        self._told = 0
        self._told_at = time.monotonic()

    def tell(self, *, is_last: bool = False) -> None:
        """Say it, if it is time and there is something new."""
        events = self._handle.events
        for event in events[self._read :]:
            if isinstance(event, PlanMade) and not self._rows:
                self._rows = frozenset(event.task_span_ids)
            self._done += isinstance(event, _DONE) and event.span_id in self._rows
            self._read += 1
        now = time.monotonic()
        if self._done > self._told and (is_last or now - self._told_at >= _PROGRESS_S):
            say(f"{self._done:,} of {pluralize(len(self._rows), 'run')} done")
            self._told, self._told_at = self._done, now


# --- The verdict ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is said at the end.

    Attributes:
        scores: what each score comes to.
        gates: the marks, each with its name.
        comparisons: with an earlier map.
    """

    scores: Sequence[str]
    named_gates: Sequence[tuple[str, Gate]]
    comparisons: Sequence[Comparison]

    @property
    def gates(self) -> list[Gate]:
        return [gate for _, gate in self.named_gates]

    @property
    def lines(self) -> list[str]:
        gates = [
            f"{'✓' if gate else '✕'} {name}: {gate.status}{_ASKED if gate.status == UNPAIRED else ''}"
            for name, gate in self.named_gates
        ]
        return [*self.scores, *map(repr, self.comparisons), *gates]


def _judge(result: MapResult, marks: _Marks, earlier: MapResult | None) -> _Verdict:
    """Sum up, compare and hold to the marks.

    Raises:
        ValidationError: a mark is of a score that nobody gave, or rows failed under a number, and `--failed` is not
            said.
    """
    from ensemble_notebook.evaluation.verdicts import describe_scores

    gates = [
        (f"{name} at least {mark:g}", result.passes(name, mark, failed=marks.failed))
        for name, mark in marks.least.items()
    ]
    comparisons = []
    if earlier is not None:
        before = {each.current_name for each in earlier.score_records}
        names = dict.fromkeys(each.current_name for each in result.score_records if each.measure not in (None, "label"))
        for name in names:
            if name not in before:
                say(f"The earlier map has no score {name!r}, so there is nothing to compare it with.")
                continue
            comparison = result.compare(earlier, result, score=name, failed=marks.failed)
            comparisons.append(comparison)
            if marks.loss is not None:
                gate = comparison.not_worse(marks.loss, allow_unpaired=marks.allow_unpaired)
                gates.append((f"{name} not worse by {marks.loss:g}", gate))
    return _Verdict(describe_scores(result, marks.failed), gates, comparisons)


def _write_markdown(result: MapResult, verdict: _Verdict) -> Iterator[str]:
    """The verdict as pull requests show it: sentences, gates, and a drawing in characters."""
    yield f"### {_escape(result.describe())}\n"
    for name, gate in verdict.named_gates:
        yield f"- {'✅' if gate else '❌'} **{_escape(name)}**: {_escape(repr(gate))}"
    for line in (*verdict.scores, *map(repr, verdict.comparisons)):
        yield f"- {_escape(line)}"
    for comparison in verdict.comparisons:
        if drawing := render_view("comparison_text", comparison):
            yield f"\n```text\n{remove_unprintable(drawing)}\n```"


def _escape(text: str) -> str:
    """A text that no reader of Markdown takes for more than one."""
    plain = " ".join(remove_unprintable(text).split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>|~#" else char for char in plain)
