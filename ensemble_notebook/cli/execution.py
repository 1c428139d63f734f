"""``run`` and ``validate``: a cell in a file, without a notebook. Results go to stdout, what happens to stderr."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ensemble_notebook.cell.option import MAGIC, Options, parse_options
from ensemble_notebook.domain.event import Event, LlmCallRetried, Noted, TaskCompleted, TaskFailed, TaskSkipped, Warned
from ensemble_notebook.domain.secret import mask
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.cell.cell import Cell
    from ensemble_notebook.ensemble.output import EnsembleOutput

STDIN: Final = "-"


def run_file(arguments: Namespace) -> None:
    """Run the cell in a file and print its table and its answer.

    Raises:
        EnsembleError, RunInterrupted: as reading and running a cell; the table is printed first.
    """
    if arguments.out is not None and arguments.out.suffix == ".json":
        raise ValidationError("--out takes the answer's text; trace files are not available in this version.")
    cell, options = _read(arguments, needs_inputs=True)
    sys.path.insert(0, str(Path.cwd()))  # dotted names in a cell may mean a module of the working folder
    ensemble = cell.build({})
    watched = replace(ensemble, listeners=(*ensemble.listeners, _tell))
    try:
        output = watched.run(cell.inputs, timeout=options.timeout)
    except (EnsembleError, RunInterrupted) as error:
        if error.output is not None:
            _print_table(error.output)
        raise
    _print_table(output)
    if arguments.out is None:
        print(f"\n{_printable(output.raw)}")
    else:
        arguments.out.write_text(output.raw, encoding="utf-8")
        print(f"\nThe answer is in {arguments.out}")


def validate_file(arguments: Namespace) -> None:
    """Check the cell in a file and print its plan. Imports and calls nothing.

    Raises:
        EnsembleError: with every mistake.
    """
    cell, _ = _read(arguments, needs_inputs=False)
    print(cell.plan._repr_mimebundle_()["text/plain"])
    if cell.missing:
        print(f"needs {', '.join(f'-i {name}=...' for name in cell.missing)}")


def _read(arguments: Namespace, *, needs_inputs: bool) -> tuple[Cell, Options]:
    """The cell of a file; the options on its first line count where the command line does not say otherwise."""
    from ensemble_notebook.cell.reader import read_cell

    try:
        text = sys.stdin.read() if arguments.file == STDIN else Path(arguments.file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{arguments.file} can't be read: {error}") from error
    first, _, rest = text.partition("\n")
    options = Options()
    if first.startswith(MAGIC):
        options = parse_options(first.removeprefix(MAGIC))
        text = f"\n{rest}"  # the line stays, so that mistakes have the numbers of the file's lines
    given = {name: getattr(arguments, name, None) for name in ("llm", "workflow", "name", "timeout")}
    options = replace(
        options,
        inputs={**options.inputs, **(arguments.inputs or {})},
        **{name: value for name, value in given.items() if value is not None},
    )
    cell = read_cell(text, overrides=options.overrides, needs_inputs=needs_inputs)
    for notice in cell.notices:
        print(f"line {notice.line}: {notice.message}", file=sys.stderr)
    return cell, options


def _tell(event: Event) -> None:
    """One line for each thing that a person who waits wants to know."""
    match event:
        case Noted() | Warned():
            line = event.message
        case TaskCompleted():
            line = f"{event.task}: done in {event.output.duration.total_seconds():.1f} s"
        case TaskFailed():
            line = f"{event.task}: {event.status.value}: {event.error}"
        case TaskSkipped():
            line = f"{event.task}: skipped: {event.reason}"
        case LlmCallRetried():
            line = f"{event.task}: attempt {event.attempt} failed ({event.reason}), next one in {event.delay_s:g} s"
        case _:
            return
    print(_printable(line), file=sys.stderr, flush=True)


def _print_table(output: EnsembleOutput) -> None:
    print(output._repr_mimebundle_()["text/plain"])


def _printable(text: str) -> str:
    """Without secrets, and without control characters, so that no model moves the cursor or writes a title."""
    return "".join(char for char in mask(text) if char.isprintable() or char in "\n\t")
