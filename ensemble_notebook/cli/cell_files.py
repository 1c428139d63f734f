"""``run`` and ``validate``: a cell in a file, without a notebook. Results go to stdout, what happens to stderr."""

from __future__ import annotations

import os
import select
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.reading.mistakes import in_cell_words
from ensemble_notebook.cell.reading.options import OVERRIDES, Options
from ensemble_notebook.domain.definitions.amounts import AmountError, read_budget
from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewHandler, ReviewRequest
from ensemble_notebook.domain.events import (
    BudgetWarning,
    DelegationFailed,
    DelegationStarted,
    Event,
    LlmCallRetried,
    Noted,
    PhaseRetried,
    PhaseSkipped,
    TaskCompleted,
    TaskFailed,
    TaskFellBack,
    TaskNotReused,
    TaskRetried,
    TaskReused,
    TaskSkipped,
    Warned,
)
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.private_files import make_private
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.engine.review_queue import SharedReviewer
from ensemble_notebook.ensemble.person import is_terminal
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError
from ensemble_notebook.trace.run_files import find_format

if TYPE_CHECKING:
    from ensemble_notebook.cell.cell_reader import Cell
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput


# --- What a person who waits for a run is told: a line for an event, on stderr. Results go to stdout, elsewhere -------


_LINES: Final[Mapping[type[Event], Callable[[Any], str]]] = {
    Noted: lambda event: event.message,
    Warned: lambda event: event.message,
    BudgetWarning: lambda event: event.message,
    TaskCompleted: lambda event: f"{event.task}: done in {format_duration(event.output.duration)}",
    TaskReused: lambda event: f"{event.task}: reused, which saves {format_duration(event.saved_ms)}: {event.reason}",
    TaskNotReused: lambda event: f"{event.task}: not reused: {event.reason}",
    TaskFailed: lambda event: f"{event.task}: {event.status.value}: {event.error}",
    TaskSkipped: lambda event: f"{event.task}: skipped: {event.reason}",
    TaskRetried: lambda event: (
        f"{event.task}: sent back: {event.feedback}"
        if event.error is None
        else f"{event.task}: failed ({event.error}), next attempt in {format_duration(event.delay_s * 1000)}"
    ),
    TaskFellBack: lambda event: f"{event.task}: {event.agent} takes over: {event.error}",
    PhaseSkipped: lambda event: f"{event.phase}: skipped: {event.reason}",
    PhaseRetried: lambda event: f"{event.phase}: sent back: {event.feedback}",
    LlmCallRetried: lambda event: (
        f"{event.task}: attempt {event.attempt} failed ({event.reason}), "
        f"next one in {format_duration(event.delay_s * 1000)}"
    ),
    DelegationStarted: lambda event: f"{event.delegator} asks {event.request.agent_role}",
    DelegationFailed: lambda event: f"{event.request.agent_role}: {'; '.join(event.response.errors)}",
}


def report_event(event: Event) -> None:
    """A listener: one line for each thing that a person who waits wants to know."""
    line = _LINES.get(type(event))
    if line is not None:
        say(line(event))


def say(text: str) -> None:
    """A line on stderr."""
    print(remove_unprintable(text), file=sys.stderr, flush=True)


def find_asker(*, is_read: bool) -> ReviewHandler | None:
    """A review handler that asks whoever sits at the terminal, or takes answers that are piped in; None for nobody.

    Args:
        is_read: whether the cell was read from standard input, so that no answers can come from there.
    """
    return SharedReviewer(ask) if not is_read and _may_answer() else None


def _may_answer() -> bool:
    """Whether a line may come from standard input: it is a terminal that sees the question, or has not ended yet."""
    if is_terminal(sys.stdin):
        return is_terminal(sys.stderr)
    try:
        if select.select([sys.stdin], [], [], 0)[0]:
            buffer: Any = sys.stdin.buffer
            return bool(buffer.peek(1))
    except (OSError, ValueError, AttributeError, TypeError):  # none, closed, or no file: on Windows, no pipe either
        return sys.stdin is not None and not sys.stdin.closed
    return True


def ask(request: ReviewRequest) -> ReviewDecision:
    """A review handler: asks whoever sits at the terminal; where nobody does, the review's `on_timeout` decides.

    Raises:
        TimeoutError: nobody does.
    """
    from ensemble_notebook.ensemble.review_handlers import NOBODY_ERRORS, ask_in_text

    try:
        return ask_in_text(request, _read_line, say)
    except NOBODY_ERRORS as error:
        raise TimeoutError(f"Nobody can be asked here: {error}") from error


ask.is_person = True  # type: ignore[attr-defined]  # for `name_reviewer`


def remove_unprintable(text: str) -> str:
    """Without secrets, and without control characters, so that no model moves the cursor or writes a title."""
    return "".join(char for char in mask(text) if char.isprintable() or char in "\n\t")


def _read_line(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError("standard input is at its end.")
    return line


# --- ``run`` and ``validate``: a cell in a file, without a notebook. Results go to stdout, what happens to stderr -----


STDIN: Final = "-"


def run_file(arguments: Namespace) -> bool:
    """Run the cell in a file and print its table and its answer; ``--out FILE.json`` gets the trace, failed or not.

    Returns:
        Whether the run is complete.

    Raises:
        EnsembleError, RunInterrupted: as reading and running a cell; the table is printed first.
    """
    trace = arguments.out if arguments.out is not None and arguments.out.suffix == ".json" else None
    if arguments.out is not None:
        check_place("-o", arguments.out)
    if trace is not None:
        find_format(trace)
    cell, options = read_command(arguments, needs_inputs=True)
    sys.path.insert(0, str(Path.cwd()))  # dotted names in a cell may mean a module of the working folder
    ensemble = cell.build({})
    watched = replace(
        ensemble,
        listeners=(*ensemble.listeners, report_event),
        review_handler=ensemble.review_handler or find_asker(is_read=arguments.file == STDIN),
    )
    try:
        output = _run(watched, cell, options, arguments)
    except (EnsembleError, RunInterrupted) as error:
        if error.output is not None:
            _show(error.output, trace)
        raise in_cell_words(error) from error.__cause__
    _show(output, trace)
    if arguments.out is not None and trace is None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        make_private(arguments.out)
        arguments.out.write_text(output.raw, encoding="utf-8")
        print(f"\nThe answer is in {arguments.out}")
    elif (
        output.trace.capture_mode is CaptureMode.METADATA
    ):  # what is printed is kept: in scrollback, in a job's log (T6a)
        say("The answer is not shown, since capture mode metadata keeps no text. -o FILE writes it to a file.")
    else:
        print(f"\n{remove_unprintable(output.raw)}")
    return output.status in (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS)


def _run(ensemble: Ensemble, cell: Cell, options: Options, arguments: Namespace) -> EnsembleOutput:
    """Run to the end. An interrupt is a call that stops the run; a second one ends the wait for it.

    Raises:
        EnsembleError, RunInterrupted: as `Ensemble.run`.
    """
    from ensemble_notebook.ensemble.person import InterruptGuard

    with InterruptGuard() as guard:
        handle = ensemble.start(cell.inputs, **options.run_settings)
        arguments.has_begun = True
        guard.call(handle.cancel)
        try:
            return handle.result()
        except RunInterrupted:
            raise
        except KeyboardInterrupt:
            return handle.interrupted()


def validate_file(arguments: Namespace) -> None:
    """Check the cell in a file and print its plan. Imports and calls nothing.

    Raises:
        EnsembleError: with every mistake.
    """
    from ensemble_notebook.ensemble.run_settings import RunSettings
    from ensemble_notebook.models.recording.recording_file import check_path
    from ensemble_notebook.models.recording.replayer import ReplaySource

    cell, options = read_command(arguments, needs_inputs=False, is_dry_run=True)
    RunSettings(**options.run_settings)
    if options.record is not None:
        check_path(read_path(options.record, "record"))
    if options.replay is not None:
        ReplaySource(options.replay)
    print(cell.plan._repr_mimebundle_()["text/plain"])
    for warning in cell.warnings:
        say(warning)
    for refusal in cell.list_refusals():
        say(f"It would be refused: {refusal}")
    if cell.missing:
        print(f"needs {', '.join(f'-i {name}=...' for name in cell.missing)}")


def read_command(arguments: Namespace, *, needs_inputs: bool, is_dry_run: bool = False) -> tuple[Cell, Options]:
    """The cell of a file; the options on its first line count where the command line does not say otherwise.

    Args:
        arguments: of the command.
        needs_inputs: whether a missing input is a mistake.
        is_dry_run: whether a misspelt one is, and others are told.

    Raises:
        EnsembleError: with every mistake.
    """
    from ensemble_notebook.cell.cell_reader import read_cell, read_cell_file, split_cell

    kept = split_cell(sys.stdin.read()) if arguments.file == STDIN else read_cell_file(Path(arguments.file))
    if kept.options.map is not None:
        raise ValidationError(f"--map {kept.options.map} names a variable of a notebook, and there is none here.")
    if kept.options.repeat is not None:
        raise ValidationError(f"--repeat {kept.options.repeat} makes many runs, and this command makes one.")
    given = {name: getattr(arguments, name, None) for name in (*OVERRIDES, *kept.options.run_settings)}
    options = replace(
        kept.options,
        inputs={**kept.options.inputs, **(arguments.inputs or {})},
        **{name: value for name, value in given.items() if value is not None},
    )
    if options.budget is not None:
        try:
            read_budget(options.budget)  # a variable is none that this could name
        except AmountError as error:
            raise ValidationError(f"--budget {options.budget}: {error} {error.hint}") from None
    body, file = ("", kept) if kept.name else (kept.body, None)
    cell = read_cell(
        body,
        overrides=options.overrides,
        needs_inputs=needs_inputs,
        is_dry_run=is_dry_run,
        file=file,
        only=options.only,
    )
    for notice in cell.notices:
        say(f"{notice.where}: {notice.message}")
    return cell, options


def check_place(option: str, file: Path) -> None:
    """See whether a file can be written, so that nobody pays for what is then lost; its folders are made later.

    Args:
        option: that names it.
        file: with its place.

    Raises:
        ValidationError: it can't be.
    """
    read_path(file, option)
    if file.is_dir():
        raise ValidationError(f"{option} {file}: that is a folder. Name a file in it.")
    folder = next(each for each in (file.absolute().parent, *file.absolute().parents) if each.exists())
    if not folder.is_dir():
        raise ValidationError(f"{option} {file}: {folder} is no folder.")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise ValidationError(f"{option} {file}: nothing can be written there.")


def _show(output: EnsembleOutput, file: Path | None) -> None:
    """The table, and the trace where a file for it is named."""
    print(output._repr_mimebundle_()["text/plain"])
    if file is not None:
        output.trace.save(file)
        print(f"\nThe trace is in {file}")
