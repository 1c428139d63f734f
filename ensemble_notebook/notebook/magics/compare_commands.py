"""``%ensemble diff`` and ``%ensemble runs --compare``: runs beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ensemble_notebook.errors import StoreError, ValidationError
from ensemble_notebook.notebook.live.cell_names import find_notebook
from ensemble_notebook.notebook.magics.named_runs import WAYS, find_trace

if TYPE_CHECKING:
    from ensemble_notebook.trace.comparison.run_diff import RunDiff
    from ensemble_notebook.trace.comparison.run_history import RunHistory
    from ensemble_notebook.trace.store.run_facts import RememberedRun
    from ensemble_notebook.trace.store.run_store import RunStore


def diff_runs(words: Sequence[str], shell: Any) -> RunDiff:
    """What changed from one run to another; without words, from the last but one of this notebook to its last.

    Raises:
        ValidationError: one word, or more than two.
        StoreError: there is no such run, nor a variable that holds one.
    """
    from ensemble_notebook.trace.store.run_store import RunStore

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
    from ensemble_notebook.trace.comparison.run_history import RunHistory

    runs = _list_runs_here(store, names)
    told = runs[:count]
    # What a run is compared with may be further back: runs of several ensembles take turns in a notebook.
    wanted = {run.run_id: run for run in told}
    for place, run in enumerate(told):
        before = next((each for each in runs[place + 1 :] if each.facts.name == run.facts.name), None)
        if before is not None:
            wanted.setdefault(before.run_id, before)
    folds = [store.load_trace(run).fold for run in wanted.values()]
    return RunHistory(folds, shown=len(told))


def _list_runs_here(store: RunStore, names: Mapping[str, Any]) -> list[RememberedRun]:
    """The runs of this notebook, newest first, where that is known and has any; else all."""
    notebook = find_notebook(names)
    runs = store.list_runs()
    here = [run for run in runs if notebook and run.facts.origin is not None and run.facts.origin.notebook == notebook]
    return here or runs
