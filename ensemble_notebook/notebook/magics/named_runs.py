"""Which run a word of ``%ensemble`` means: that of a variable, else a remembered one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from ensemble_notebook.errors import StoreError, ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.trace.execution_trace import ExecutionTrace
    from ensemble_notebook.trace.store.run_facts import RememberedRun

WAYS: Final = "(a variable such as report, an id or the beginning of one, a name, or -1 for the last)"
"""How a run is named, for messages."""


def find_trace(word: str, shell: Any) -> ExecutionTrace:
    """The trace of what a word names: a variable of the notebook that has a run, else a run of the store.

    Raises:
        ValidationError: the variable has a run that goes on.
        StoreError: no run is remembered by this name.
    """
    from ensemble_notebook.trace.store.run_store import RunStore

    trace = _read_variable(word, shell)
    return RunStore.open().load_trace(_find_run(word, shell)) if trace is None else trace


def find_remembered(word: str, shell: Any) -> RememberedRun:
    """The run of the store that a word names: also by a variable of the notebook that has it.

    Raises:
        ValidationError: the variable has a run that goes on.
        StoreError: no run is remembered by this name.
    """
    trace = _read_variable(word, shell)
    return _find_run(word if trace is None else trace.run_id, shell)


def list_earlier(run_id: str) -> Iterator[ExecutionTrace]:
    """The trace of a remembered run, and those of the runs that it went on with; without any that is forgotten."""
    from ensemble_notebook.trace.store.run_store import RunStore

    store, resumed_from = RunStore.open(), run_id
    while resumed_from:
        try:
            run = store.find_run(resumed_from)
            yield store.load_trace(run)
        except StoreError:
            return
        resumed_from = run.facts.resumed_from or ""


def _read_variable(word: str, shell: Any) -> ExecutionTrace | None:
    """The trace that a variable has; None where there is no such variable, or it has no run.

    Raises:
        ValidationError: the run goes on.
    """
    from ensemble_notebook.ensemble.many_runs.map_handle import MapHandle
    from ensemble_notebook.ensemble.run_handle import RunHandle
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

    value = _list_names(shell).get(word)
    if isinstance(value, RunHandle | MapHandle):
        if value.output is None:
            raise ValidationError(f"{word} is a run that goes on. Wait for it with {word}.result().")
        value = value.output
    if _has_output(value):
        value = value.trace
    return value if isinstance(value, ExecutionTrace) else None


def _find_run(word: str, shell: Any) -> RememberedRun:
    from ensemble_notebook.trace.store.run_store import RunStore

    try:
        return RunStore.open().find_run(word)
    except StoreError as error:
        names = _list_names(shell)
        outputs = [name for name, each in names.items() if _has_output(each) and name[:1] != "_"]
        other = f" The variable {word} holds no output of a run." if word in names else ""
        told = f" Variables that hold an output: {', '.join(outputs)}." if outputs else ""
        raise StoreError(f"{error}{other}{told}") from None


def _list_names(shell: Any) -> Mapping[str, Any]:
    return {} if shell is None else shell.user_ns


def _has_output(value: Any) -> TypeGuard[EnsembleOutput | MapResult]:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

    return isinstance(value, EnsembleOutput | MapResult)
