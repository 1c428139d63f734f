"""``run`` and ``validate``: a cell in a file, without a notebook. Results go to stdout, what happens to stderr."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ensemble_notebook.cell.language.options import RUN_OPTIONS, Options
from ensemble_notebook.cell.language.remedies import use_cell_words
from ensemble_notebook.cli.run_progress import ask, remove_unprintable, report_event, say
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.cell.cell import Cell
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput

STDIN: Final = "-"


def run_file(arguments: Namespace) -> None:
    """Run the cell in a file and print its table and its answer; ``--out FILE.json`` gets the trace, failed or not.

    Raises:
        EnsembleError, RunInterrupted: as reading and running a cell; the table is printed first.
    """
    cell, options = _read(arguments, needs_inputs=True)
    sys.path.insert(0, str(Path.cwd()))  # dotted names in a cell may mean a module of the working folder
    ensemble = cell.build({})
    watched = replace(
        ensemble,
        listeners=(*ensemble.listeners, report_event),
        review_handler=ensemble.review_handler or ask,
    )
    try:
        output = _run(watched, cell, options)
    except (EnsembleError, RunInterrupted) as error:
        use_cell_words(error)
        if error.output is not None:
            _show(error.output, arguments.out)
        raise
    _show(output, arguments.out)
    if arguments.out is not None and not _is_trace(arguments.out):
        arguments.out.write_text(output.raw, encoding="utf-8")
        print(f"\nThe answer is in {arguments.out}")
    elif (
        output.trace.capture_mode is CaptureMode.METADATA
    ):  # what is printed is kept: in scrollback, in a job's log (T6a)
        say("The answer is not shown, since capture mode metadata keeps no text. -o FILE writes it to a file.")
    else:
        print(f"\n{remove_unprintable(output.raw)}")


def _run(ensemble: Ensemble, cell: Cell, options: Options) -> EnsembleOutput:
    """Run to the end. An interrupt is a call that stops the run; a second one ends the wait for it.

    Raises:
        EnsembleError, RunInterrupted: as `Ensemble.run`.
    """
    from ensemble_notebook.ensemble.interrupt_guard import InterruptGuard

    with InterruptGuard() as guard:
        handle = ensemble.start(
            cell.inputs,
            timeout=options.timeout,
            record=options.record,
            replay=options.replay,
            replay_tools=options.replay_tools,
            pace=options.pace,
            reuse=options.reuse,
            only=options.only,
        )
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
    cell, _ = _read(arguments, needs_inputs=False)
    print(cell.plan._repr_mimebundle_()["text/plain"])
    for warning in cell.warnings:
        say(warning)
    if cell.missing:
        print(f"needs {', '.join(f'-i {name}=...' for name in cell.missing)}")


def _read(arguments: Namespace, *, needs_inputs: bool) -> tuple[Cell, Options]:
    """The cell of a file; the options on its first line count where the command line does not say otherwise."""
    from ensemble_notebook.cell.cell_file import read_cell_file, split_cell
    from ensemble_notebook.cell.cell_reader import read_cell

    kept = split_cell(sys.stdin.read()) if arguments.file == STDIN else read_cell_file(Path(arguments.file))
    if kept.options.map is not None:
        raise ValidationError(f"--map {kept.options.map} names a variable of a notebook, and there is none here.")
    given = {name: getattr(arguments, name, None) for name in RUN_OPTIONS}
    options = replace(
        kept.options,
        inputs={**kept.options.inputs, **(arguments.inputs or {})},
        **{name: value for name, value in given.items() if value is not None},
    )
    body, file = ("", kept) if kept.name else (kept.body, None)
    cell = read_cell(body, overrides=options.overrides, needs_inputs=needs_inputs, file=file)
    for notice in cell.notices:
        say(f"{notice.where}: {notice.message}")
    return cell, options


def _show(output: EnsembleOutput, file: Path | None) -> None:
    """The table, and the trace where a file for it is named."""
    print(output._repr_mimebundle_()["text/plain"])
    if file is not None and _is_trace(file):
        output.trace.save(file)
        print(f"\nThe trace is in {file}")


def _is_trace(file: Path | None) -> bool:
    return file is not None and file.suffix == ".json"
