"""``%ensemble`` about runs: those that the store remembers, and those of variables; one word names a run in all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.binding.scorer_binder import find_scorers
from ensemble_notebook.cell.reading.mistakes import CellError, join_names
from ensemble_notebook.cell.reading.options import DEFAULT_OUT, parse_options
from ensemble_notebook.domain.definitions.enums import RunKind, TimelineView
from ensemble_notebook.domain.wording import format_size
from ensemble_notebook.ensemble.earlier_runs.resuming import check_resumable
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.loaded_map import load_result
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.errors import (
    RunInterrupted,
    ScoringError,
    StoreError,
    ValidationError,
    did_you_mean,
)
from ensemble_notebook.evaluation.scorer import describe_score
from ensemble_notebook.notebook.live.frontend import find_notebook, stands_alone, write_text
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunOrigin
from ensemble_notebook.trace.store.run_store import RunStore

if TYPE_CHECKING:
    import pandas as pd

    from ensemble_notebook.trace.analysis.run_diff import RunDiff, RunHistory

WAYS: Final = "(a variable such as report, an id or the beginning of one, a name, or -1 for the last)"
"""How a run is named, for messages."""

COMPARED: Final = 5
"""How many runs are compared where nobody says."""


def list_runs(words: Sequence[str], shell: Any) -> pd.DataFrame | RunHistory | None:
    """The remembered runs, newest first, which a page shows as a board.

    With ``--clear`` all that are over are forgotten instead. With ``--compare``, the last ones of this notebook, each
    with what changed since the one before; ``-n`` says how many.

    Raises:
        ValidationError: another word follows, or no number.
        StoreError: runs are not remembered, or the store can't be read.
    """
    from ensemble_notebook.notebook.live.run_board import RunsBoard

    most, flags = _read_options(words)
    store = RunStore.open()
    if "--compare" in flags:
        return compare_last_runs(store, most or COMPARED, shell.user_ns)
    if "--clear" not in flags:
        return RunsBoard.make(store, most)
    count = store.clear()
    write_text(f"{count} runs are forgotten.\n" if count != 1 else "1 run is forgotten.\n")
    return None


def show_run(words: Sequence[str], shell: Any) -> ExecutionTrace:
    """The trace of one run, which shows itself as its timeline.

    Raises:
        ValidationError: no run is named, or more than one, or it goes on.
        StoreError: there is no such run.
    """
    if len(words) != 1:
        raise ValidationError(f"%ensemble show takes one run {WAYS}.")
    return find_trace(words[0], shell)


def _read_options(words: Sequence[str]) -> tuple[int | None, set[str]]:
    """How many runs are told of, None for all; and the flags."""
    count, flags, left = None, set(), list(words)
    while left:
        word = left.pop(0)
        if re.fullmatch(r"(-n)?[0-9]+", word):
            left[:0] = ["-n", word.removeprefix("-n")]
        elif word == "-n":
            number = left.pop(0) if left else ""
            if not number.isdecimal() or int(number) == 0:
                raise ValidationError(f"-n takes how many runs to tell of, such as -n 5, got {number!r}.")
            count = int(number)
        elif word in ("--compare", "--clear"):
            flags.add(word)
        else:
            raise ValidationError(
                f"%ensemble runs knows no {word!r}.{did_you_mean(word, ['-n', '--compare', '--clear'])}"
            )
    if "--clear" in flags and len(words) > 1:
        raise ValidationError("%ensemble runs --clear forgets all runs that are over, and takes nothing else.")
    return count, flags


def diff_runs(words: Sequence[str], shell: Any) -> RunDiff:
    """What changed from one run to another; without words, from the last but one of this notebook to its last.

    Raises:
        ValidationError: one word, or more than two.
        StoreError: there is no such run, nor a variable that holds one.
    """
    if len(words) not in (0, 2):
        raise ValidationError(f"%ensemble diff takes two runs {WAYS}, or none for the last two of this notebook.")
    if words:
        first, second = (find_trace(word, shell) for word in words)
        return first.diff(second)
    store = RunStore.open()
    runs = _list_runs_here(store, shell.user_ns)
    if len(runs) < 2:
        raise StoreError(
            f"%ensemble diff compares the last two runs of this notebook, and {'one' if runs else 'none'} is "
            "remembered. %ensemble diff A B compares any two; %ensemble runs lists them."
        )
    return store.load_trace(runs[1]).diff(store.load_trace(runs[0]))


def compare_last_runs(store: RunStore, count: int, names: Mapping[str, Any]) -> RunHistory:
    """The last runs of this notebook, where that is known, else the last of all; each with what changed.

    Raises:
        StoreError: the store can't be read.
    """
    from ensemble_notebook.trace.analysis.run_diff import RunHistory

    runs = _list_runs_here(store, names)
    told = runs[:count]
    # What a run is compared with may be further back: runs of several ensembles take turns in a notebook.
    wanted = {run.run_id: run for run in told}
    for place, run in enumerate(told):
        origin = next((each for each in runs if each.run_id == run.facts.forked_from_run), None)
        alike = (each for each in runs[place + 1 :] if _is_alike(each, run))
        before = next(alike, None) if origin is None else origin
        if before is not None:
            wanted.setdefault(before.run_id, before)
    folds = [store.load_trace(run)._fold for run in wanted.values()]
    return RunHistory(folds, shown=len(told))


def _is_alike(run: RememberedRun, other: RememberedRun) -> bool:
    """Whether two runs can be compared; the tasks of calls that were made again are replies."""
    return run.facts.name == other.facts.name and RunKind.RERUN not in (run.facts.kind, other.facts.kind)


def _list_runs_here(store: RunStore, names: Mapping[str, Any]) -> list[RememberedRun]:
    """The runs of this notebook, newest first, where that is known and has any; else all."""
    notebook = find_notebook(names)
    runs = store.list_runs()
    here = [run for run in runs if notebook and run.facts.origin is not None and run.facts.origin.notebook == notebook]
    return here or runs


def export_run(words: Sequence[str], shell: Any) -> None:
    """Write a run to a file, as what the end of its name says, and say where it is.

    Raises:
        ValidationError: there are not two words, the variable has no run yet, or no format has this ending.
        StoreError: no run is remembered by this name.
        MissingPackageError: the format needs a package that is not installed.
    """
    if len(words) != 2:
        raise ValidationError(
            f"%ensemble export takes a run {WAYS} and a file that ends in .trace.json, .html, .svg, .parquet, "
            ".chrome.json or .otlp.json."
        )
    file = find_trace(words[0], shell).export(words[1])
    write_text(f"{words[0]} is in {file} ({format_size(file.stat().st_size)})\n")


_ANYWAY: Final = "--anyway"
_REPLACE: Final = "--replace"
_USAGE: Final = (
    f"%ensemble resume takes one run {WAYS}, and may take -o NAME, the variable for its output, --redo TOOL, whose "
    f"calls are made again although it is not known how they ended, --view VIEW, in which its timeline opens, and "
    f"--anyway, although another run resumes it now."
)


def resume_run(words: Sequence[str], shell: Any) -> EnsembleOutput | None:
    """Go on with a run: its cell runs again, with the names that the notebook has now.

    Gives the output, which is also bound to ``_ensemble``, or the name after ``-o``; nothing where the line stands for
    itself, since all is shown by then.

    Raises:
        ValidationError: no run is named, it comes from no cell, or its cell needs names that are not there.
        StoreError: there is no such run.
        EnsembleError: what the run raises.
    """
    words, anyway = [each for each in words if each != _ANYWAY], _ANYWAY in words
    out = [name for _, name in take_values(words, "-o", "--out")] or [DEFAULT_OUT]
    redo = [tool for _, tool in take_values(words, "--redo")]
    view = take_view(words, "%ensemble resume")
    if len(words) != 1 or len(out) != 1 or not out[0].isidentifier() or not all(redo):
        raise ValidationError(_USAGE)
    run = find_remembered(words[0], shell)
    check_resumable(run)  # without texts its cell is not kept either
    origin = run.facts.origin
    if origin is None or not origin.text:
        raise ValidationError(
            f"Run {run.run_id} was begun in Python, so there is no cell to run again. Resume it from Python: "
            f"ensemble.run(resume={run.run_id!r})."
        )
    options = parse_options(origin.options)
    options = replace(
        options,
        out=out[0],
        view=view or options.view,
        record=None,
        replay=None,
        replay_tools=None,
        pace=None,
        continue_from=None if run.facts.conversations is not None else options.continue_from,
        is_background=False,
    )
    magics = shell.magics_manager.registry["EnsembleMagics"]
    try:
        magics.run_again(origin, options, {"resume": run.run_id, "redo": redo, "anyway": anyway})
    except CellError as error:
        raise ValidationError(describe_missing(run, origin, error, f"%ensemble resume {run.run_id}")) from None
    output: EnsembleOutput = shell.user_ns[out[0]]
    return None if stands_alone(shell) else output


def take_values(words: list[str], *flags: str) -> Iterator[tuple[str, str]]:
    """Take these flags out, each with what stands behind it."""
    while flag := next((each for each in flags if each in words), None):
        at = words.index(flag)
        yield words[at], "".join(words[at + 1 : at + 2])
        del words[at : at + 2]


def take_arguments(command: str, words: list[str], flags: Sequence[str], shell: Any) -> Iterator[tuple[str, Any]]:
    """Take out what stands behind flags, each by the argument that it is; ``--llm`` may name a variable.

    Raises:
        ValidationError: nothing stands behind one of them.
    """
    for flag, text in take_values(words, *flags):
        if not text:
            raise ValidationError(f"%ensemble {command}: {flag} wants a value behind it.")
        value: Any = shell.user_ns.get(text, text) if flag == "--llm" and text.isidentifier() else text
        yield flag.removeprefix("--").replace("-", "_"), value


def take_view(words: list[str], command: str) -> str | None:
    """Take out the view in which the timeline is to open; None where none is given.

    Raises:
        ValidationError: there is no such view, or two are given; `command` begins its message.
    """
    views = [view for _, view in take_values(words, "--view")]
    if len(views) > 1:
        raise ValidationError(f"{command}: --view is given {len(views)} times. Keep one of them.")
    if views and views[0] not in list(TimelineView):
        known, nearest = ", ".join(TimelineView), did_you_mean(views[0], [*map(str, TimelineView)])
        raise ValidationError(f"{command}: --view can't be {views[0]!r}. It is one of {known}.{nearest}")
    return views[0] if views else None


def describe_missing(run: RememberedRun, origin: RunOrigin, error: CellError, again: str) -> str:
    """Say what the cell needs. It could run once, so it is the notebook that has changed.

    Args:
        run: of the cell.
        origin: of the run.
        error: what was wrong with the cell.
        again: the line that does it once that is there.
    """
    lines = ["", *origin.text.splitlines()]
    words = [
        lines[each.line][each.column - 1 : each.end_column - 1]
        for each in error.mistakes
        if not each.file and each.line < len(lines)
    ]
    cell = f"the cell of run {run.run_id}" + (f" ({origin.cell})" if origin.cell else "")
    missing = join_names(dict.fromkeys(filter(None, words)))
    remedy = f"First run the cells that define: {missing}. Then {again} goes on. "
    return (
        f"{cell[0].upper()}{cell[1:]} can't run with the names that this notebook has now. {remedy if missing else ''}"
        f"{error.mistakes[0].where.capitalize()}: {error.mistakes[0].message}"
    )


def score_run(words: Sequence[str], shell: Any) -> MapResult | EnsembleOutput:
    """Score a run, and bind what has the scores to the name after ``-o``, or ``_ensemble``.

    Raises:
        ValidationError: no run or no scorer is named, or one of them is wrong.
        StoreError: there is no such run.
        ScoringError: a scorer failed for each run; what has the scores is bound all the same.
    """
    rest, out = list(words), DEFAULT_OUT
    for flag, out in take_values(rest, "-o", "--out"):
        if not out.isidentifier():
            raise ValidationError(f"%ensemble score: {flag} wants the name of a variable, got {out!r}.")
    expected = [None, *(column for _, column in take_values(rest, "--expected"))][-1] or None
    replaces, rest = _REPLACE in rest, [each for each in rest if each != _REPLACE]
    if len(rest) < 2:
        raise ValidationError(
            f"%ensemble score takes a run {WAYS} and what scores it: %ensemble score RUN [NAME=]SCORER, such as "
            f"%ensemble score report \"contains('refund')\" -o scored."
        )
    found = read_variable(rest[0], shell)
    if not isinstance(found, EnsembleOutput | MapResult):
        found = load_result(find_remembered(rest[0], shell).run_id)
    scorers = find_scorers(rest[1:], shell.user_ns)
    try:
        scored = found.score(scorers, replace=replaces, expected=expected)
    except (ScoringError, RunInterrupted) as error:
        if error.output is not None:
            shell.user_ns[out] = error.output
        raise
    shell.user_ns[out] = scored
    if isinstance(scored, EnsembleOutput):
        told = (f"{each.name}: {describe_score(each)}" for each in scored.score_records if each.name in scorers)
        write_text("\n".join(told) + "\n")
    return scored


def find_trace(word: str, shell: Any) -> ExecutionTrace:
    """The trace of what a word names: a variable of the notebook that has a run, else a run of the store.

    Raises:
        ValidationError: the variable has a run that goes on.
        StoreError: no run is remembered by this name.
    """
    trace = _read_trace(word, shell)
    return RunStore.open().load_trace(_find_run(word, shell)) if trace is None else trace


def find_remembered(word: str, shell: Any) -> RememberedRun:
    """The run of the store that a word names: also by a variable of the notebook that has it.

    Raises:
        ValidationError: the variable has a run that goes on.
        StoreError: no run is remembered by this name.
    """
    trace = _read_trace(word, shell)
    return _find_run(word if trace is None else trace.run_id, shell)


def list_earlier(run_id: str) -> Iterator[ExecutionTrace]:
    """The trace of a remembered run, and those of the runs that it went on with; without any that is forgotten."""
    store, resumed_from = RunStore.open(), run_id
    while resumed_from:
        try:
            run = store.find_run(resumed_from)
            yield store.load_trace(run)
        except StoreError:
            return
        resumed_from = run.facts.resumed_from or ""


def read_variable(name: str, shell: Any) -> Any:
    """The value of a variable, and of a handle its output; None where there is no such variable.

    Raises:
        ValidationError: it has a run that goes on.
    """
    value = None if shell is None else shell.user_ns.get(name)
    if not isinstance(value, RunHandle | MapHandle):
        return value
    if value.output is None:
        raise ValidationError(f"{name} is a run that goes on. Wait for it with {name}.result().")
    return value.output


def _read_trace(word: str, shell: Any) -> ExecutionTrace | None:
    """The trace that a variable has; None where there is no such variable, or it has no run."""
    value = read_variable(word, shell)
    if isinstance(value, EnsembleOutput | MapResult):
        value = value.trace
    return value if isinstance(value, ExecutionTrace) else None


def _find_run(word: str, shell: Any) -> RememberedRun:
    try:
        return RunStore.open().find_run(word)
    except StoreError as error:
        names = {} if shell is None else shell.user_ns
        held = (name for name, each in names.items() if isinstance(each, EnsembleOutput | MapResult))
        outputs = ", ".join(name for name in held if name[:1] != "_")
        other = f" The variable {word} holds no output of a run." if word in names else ""
        told = f" Variables that hold an output: {outputs}." if outputs else ""
        raise StoreError(f"{error}{other}{told}") from None
