"""``%ensemble yaml`` and ``%ensemble python``: ensembles as text (C32)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_notebook.cell.reading.options import DEFAULT_OUT
from ensemble_notebook.cell.writing.editor_schema import make_editor_schema
from ensemble_notebook.errors import StoreError, ValidationError, find_nearest
from ensemble_notebook.notebook.live.frontend import has_reader, stands_alone, write_text
from ensemble_notebook.notebook.magics.run_commands import find_remembered, read_variable

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.trace.store.run_facts import RunOrigin


class CellText(str):
    """The text of a cell, which shows itself without quotes."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))


def give_cell(text: str, shell: Any) -> CellText | None:
    """Put a text into a new cell, if the line is a statement of its own and a person sees it.

    Returns:
        The text, if no cell was made, or the value is assigned: ``source = %ensemble python desk``.
    """
    if getattr(shell, "kernel", None) is not None:
        takes_cells = has_reader(shell)  # what executes a whole notebook makes none
    else:
        from IPython.terminal.interactiveshell import TerminalInteractiveShell

        takes_cells = isinstance(shell, TerminalInteractiveShell)
    if takes_cells and stands_alone(shell):
        shell.set_next_input(text.rstrip("\n"), replace=False)
        return None
    return CellText(text)


def write_as_cell(words: Sequence[str], shell: Any) -> CellText | None:
    """Write the ensemble of a variable as a cell that binds the same variable: to the ensemble, or to a run's output.

    A remembered run of a cell, by its id, its name, or -1, is written as the cell that it was.

    The rows of a map are not in its ensemble. Its cell defines the ensemble, as ``NAME_ensemble``.

    Raises:
        ValidationError: there is no such ensemble, or it holds an object that has no name in this notebook.
    """
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

    if (origin := _find_cell(words, shell)) is not None:
        return give_cell(f"%%ensemble {origin.options}".rstrip() + f"\n{origin.text}", shell)
    name, ensemble, result = _find_ensemble("yaml", words, shell)
    if result is None:
        options = f"--define -o {name}"
    else:
        options = f"--define -o {name}_ensemble" if isinstance(result, MapResult) else f"-o {name}"
    return give_cell(f"%%ensemble {options}\n{ensemble.to_yaml(shell.user_ns)}", shell)


def write_as_python(words: Sequence[str], shell: Any) -> CellText | None:
    """Write the ensemble of a variable as Python source that binds it: to the same variable, or ``NAME_ensemble``.

    A remembered run of a cell will do, as for `write_as_cell`.

    Raises:
        ValidationError: there is no such ensemble, or it holds an object that has no name in this notebook.
    """
    from ensemble_notebook.cell.writing.python_writer import write_python
    from ensemble_notebook.ensemble.ensemble import Ensemble

    if (origin := _find_cell(words, shell)) is not None:
        made = Ensemble.from_yaml(f"%%ensemble {origin.options}\n{origin.text}", shell.user_ns)
        return give_cell(write_python(made, shell.user_ns, f"{origin.variable or DEFAULT_OUT}_ensemble"), shell)
    name, ensemble, result = _find_ensemble("python", words, shell)
    return give_cell(write_python(ensemble, shell.user_ns, name if result is None else f"{name}_ensemble"), shell)


def _find_cell(words: Sequence[str], shell: Any) -> RunOrigin | None:
    """The cell of a remembered run; None where the word is a variable, or names no run.

    Raises:
        ValidationError: the run comes from no cell, or kept none.
    """
    if len(words) != 1 or words[0] in shell.user_ns:
        return None
    try:
        run = find_remembered(words[0], shell)
    except StoreError:
        return None
    origin = run.facts.origin
    if origin is None or not origin.text:
        raise ValidationError(
            f"No cell is kept of run {run.run_id}, which was begun in Python or keeps no texts. Name the variable of "
            f"its ensemble."
        )
    return origin


def _find_ensemble(
    command: str, words: Sequence[str], shell: Any
) -> tuple[str, Ensemble, EnsembleOutput | MapResult | None]:
    """The name of the variable, its ensemble, and the result that it holds; None if it holds the ensemble itself.

    Raises:
        ValidationError: it holds neither, or its run has not ended.
    """
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

    names, kinds = shell.user_ns, (Ensemble, EnsembleOutput, MapResult)
    known = [name for name, each in names.items() if isinstance(each, kinds) and name[:1] != "_"]
    here = f" Here are: {', '.join(known)}." if known else " A cell with --define -o NAME, or -o NAME, makes one."
    if len(words) != 1:
        raise ValidationError(f"%ensemble {command} takes one variable that holds an ensemble or an output.{here}")
    (name,) = words
    value = read_variable(name, shell)
    result = value if isinstance(value, EnsembleOutput | MapResult) else None
    ensemble = value if result is None else result.ensemble
    if not isinstance(ensemble, Ensemble):
        near = find_nearest(name, known)
        what = (
            f"{name} holds no ensemble, but a value of type {type(ensemble).__name__}."
            if name in names
            else f"there is no variable {name!r}.{f' Did you mean {near!r}?' if near else ''}"
        )
        raise ValidationError(f"%ensemble {command}: {what}{here}")
    return name, ensemble, result


def import_project(words: Sequence[str], shell: Any) -> CellText | None:
    """Write the agents and tasks of a crewAI project as a cell, and say what a cell does not have.

    Raises:
        ValidationError: another tool is named, or the folder has no such project. As a `CellError`: one of its files
            can't be read, or what it says can't run.
    """
    from ensemble_notebook.cell.cell_reader import read_cell
    from ensemble_notebook.cell.writing.crewai_project import write_crewai_cell

    if len(words) != 2 or words[0] != "crewai":
        raise ValidationError("%ensemble import takes `crewai` and the folder of the project.")
    text, notes = write_crewai_cell(Path(words[1]), shell.user_ns)
    read_cell(text, shell.user_ns, needs_inputs=False)
    for note in notes:
        write_text(f"{note}\n")
    return give_cell(f"%%ensemble\n{text}", shell)


class CellSchema(dict[str, Any]):
    """A schema that is shown as JSON: a tree where the page has one, else its text."""

    def _repr_json_(self) -> dict[str, Any]:
        return dict(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(json.dumps(self, indent=2))


def show_schema(words: Sequence[str], _shell: Any) -> CellSchema:
    """The schema of a cell, draft 2020-12.

    Raises:
        ValidationError: a word follows.
    """
    if words:
        raise ValidationError(
            f"%ensemble schema takes no {words[0]!r}. It gives the schema; `jupyter ensemble schema > FILE` writes it."
        )
    return CellSchema(make_editor_schema())
