"""``%ensemble yaml`` and ``%ensemble python``: ensembles as text (C32)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ensemble_notebook.errors import ValidationError, find_nearest
from ensemble_notebook.notebook.magics.new_cell import CellText, give_cell

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult


def write_as_cell(words: Sequence[str], shell: Any) -> CellText | None:
    """Write the ensemble of a variable as a cell that binds the same variable: to the ensemble, or to a run's output.

    The rows of a map are not in its ensemble. Its cell defines the ensemble, as ``NAME_ensemble``.

    Raises:
        ValidationError: there is no such ensemble, or it holds an object that has no name in this notebook.
    """
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

    name, ensemble, result = _find_ensemble("yaml", words, shell)
    if result is None:
        options = f"--define -o {name}"
    else:
        options = f"--define -o {name}_ensemble" if isinstance(result, MapResult) else f"-o {name}"
    return give_cell(f"%%ensemble {options}\n{ensemble.to_yaml(shell.user_ns)}", shell)


def write_as_python(words: Sequence[str], shell: Any) -> CellText | None:
    """Write the ensemble of a variable as Python source that binds it: to the same variable, or ``NAME_ensemble``.

    Raises:
        ValidationError: there is no such ensemble, or it holds an object that has no name in this notebook.
    """
    from ensemble_notebook.cell.writing.python_writer import write_python

    name, ensemble, result = _find_ensemble("python", words, shell)
    return give_cell(write_python(ensemble, shell.user_ns, name if result is None else f"{name}_ensemble"), shell)


def _find_ensemble(
    command: str, words: Sequence[str], shell: Any
) -> tuple[str, Ensemble, EnsembleOutput | MapResult | None]:
    """The name of the variable, its ensemble, and the result that it holds; None if it holds the ensemble itself.

    Raises:
        ValidationError: it holds neither, or its run has not ended.
    """
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_handle import MapHandle
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.ensemble.run_handle import RunHandle

    names, kinds = shell.user_ns, (Ensemble, EnsembleOutput, MapResult)
    known = [name for name, each in names.items() if isinstance(each, kinds) and name[:1] != "_"]
    here = f" Here are: {', '.join(known)}." if known else " A cell with --define -o NAME, or -o NAME, makes one."
    if len(words) != 1:
        raise ValidationError(f"%ensemble {command} takes one variable that holds an ensemble or an output.{here}")
    (name,) = words
    value = names.get(name)
    if isinstance(value, RunHandle | MapHandle):
        if value.output is None:
            raise ValidationError(f"{name} is a run that goes on. Wait for it with {name}.result().")
        value = value.output
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
