"""``%ensemble resume``: goes on with a run of a cell, in this notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.language.options import DEFAULT_OUT, parse_options
from ensemble_notebook.cell.text.mistakes import CellError, join_names
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.notebook.magics.named_runs import WAYS, find_remembered
from ensemble_notebook.notebook.magics.new_cell import stands_alone
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunOrigin

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput

_USAGE: Final = f"%ensemble resume takes one run {WAYS}, and may take -o NAME, the variable for its output."


def resume_run(words: Sequence[str], shell: Any) -> EnsembleOutput | None:
    """Go on with a run: its cell runs again, with the names that the notebook has now.

    Gives the output, which is also bound to ``_ensemble``, or the name after ``-o``; nothing where the line stands for
    itself, since all is shown by then.

    Raises:
        ValidationError: no run is named, it comes from no cell, or its cell needs names that are not there.
        StoreError: there is no such run.
        EnsembleError: what the run raises.
    """
    word, out = _read_words(words)
    run = find_remembered(word, shell)
    origin = run.facts.origin
    if origin is None or not origin.text:
        raise ValidationError(
            f"Run {run.run_id} was begun in Python, so there is no cell to run again. Resume it from Python: "
            f"ensemble.run(resume={run.run_id!r})."
        )
    options = parse_options(origin.options)
    options = replace(
        options,
        out=out,
        record=None,
        replay=None,
        replay_tools=None,
        pace=None,
        continue_from=None if run.facts.conversations is not None else options.continue_from,
        is_background=False,
    )
    magics = shell.magics_manager.registry["EnsembleMagics"]
    try:
        magics.run_again(origin, options, run.run_id)
    except CellError as error:
        raise ValidationError(_describe_missing(run, origin, error)) from None
    output: EnsembleOutput = shell.user_ns[out]
    return None if stands_alone(shell) else output


def _read_words(words: Sequence[str]) -> tuple[str, str]:
    """The run and the name of the variable."""
    rest, out = list(words), DEFAULT_OUT
    if flag := next((each for each in ("-o", "--out") if each in rest), None):
        at = rest.index(flag)
        out = "".join(rest[at + 1 : at + 2])
        del rest[at : at + 2]
    if len(rest) != 1 or not out.isidentifier():
        raise ValidationError(_USAGE)
    return rest[0], out


def _describe_missing(run: RememberedRun, origin: RunOrigin, error: CellError) -> str:
    """Say what the cell needs. It could run once, so it is the notebook that has changed."""
    lines = ["", *origin.text.splitlines()]
    words = [
        lines[each.line][each.column - 1 : each.end_column - 1]
        for each in error.mistakes
        if not each.file and each.line < len(lines)
    ]
    cell = f"the cell of run {run.run_id}" + (f" ({origin.cell})" if origin.cell else "")
    missing = join_names(dict.fromkeys(filter(None, words)))
    remedy = f"First run the cells that define: {missing}. Then %ensemble resume {run.run_id} goes on. "
    return (
        f"{cell[0].upper()}{cell[1:]} can't run with the names that this notebook has now. {remedy if missing else ''}"
        f"{error.mistakes[0].where.capitalize()}: {error.mistakes[0].message}"
    )
