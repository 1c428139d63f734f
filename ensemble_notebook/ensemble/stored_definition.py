"""What a run of the store was a run of (T94): the ensemble that the text of its cell declares."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.ensemble.earlier_runs.fork_origin import refuse_foreign
from ensemble_notebook.errors import StoreError, ValidationError
from ensemble_notebook.trace.store.run_facts import RememberedRun
from ensemble_notebook.trace.store.run_store import RunStore

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble


def read_definition(run_id: str, names: Mapping[str, Any] | None = None) -> RunnableEnsemble:
    """The ensemble of a run, read anew from its cell; of a fork made in Python, from that of the run that it forks.

    Args:
        run_id: of the run.
        names: the variables that the cell names; None for those of the notebook.

    Raises:
        StoreError: the run is not in the store, or that can't be read.
        ValidationError: its cell is not known, or names what is not there.
    """
    store, parent, found = RunStore.open(), run_id, dict[str, RememberedRun]()
    while parent and parent not in found:
        if (run := store.find_exact(parent)) is None:
            break
        found[parent] = run
        origin = run.facts.origin
        if origin is not None and origin.text:
            return _read_cell(run, names)
        parent = run.facts.forked_from_run or run.facts.resumed_from or ""
    if run_id not in found:
        raise StoreError(
            f"Run {run_id} is not in the store {store.path}, and a trace alone has neither what ran nor all that was "
            f"answered, so that it can't be forked, nor run again. trace.rerun(span, llm=...) makes a call of it again."
        )
    refuse_foreign(found[run_id])
    if not found[run_id].facts.keeps_texts:
        raise ValidationError(
            f"Run {run_id} can't be forked: this run kept no texts (capture_mode {CaptureMode.METADATA.value})."
        )
    raise ValidationError(
        f"Run {run_id} was begun in Python, so no cell tells what ran. Go on with the ensemble itself: "
        f"ensemble.fork({run_id!r}, span)."
    )


def _read_cell(run: RememberedRun, names: Mapping[str, Any] | None) -> RunnableEnsemble:
    """What the cell of a run declares."""
    origin = run.facts.origin
    assert origin is not None
    if names is None:  # nobody has a notebook who has no IPython
        names = render_view("notebook_names", None) if "IPython" in sys.modules else {}
    try:
        made: RunnableEnsemble = render_view("from_cell", f"%%ensemble {origin.options}\n{origin.text}", names)
    except ValidationError as error:
        cell = f" ({origin.cell})" if origin.cell else ""
        where = "this notebook has now" if names else "are known here; load_output(ID, globals()) gives yours"
        raise ValidationError(
            f"The cell of run {run.run_id}{cell} can't be read with the names that {where}: {error}"
        ) from error
    return made


def fork_stored(run_id: str, span: Any, change: Mapping[str, Any]) -> EnsembleOutput:
    """Fork a run of the store, with the names that the notebook has now. Errors as of `read_definition` and `fork`."""
    return read_definition(run_id).fork(run_id, span, **change)
