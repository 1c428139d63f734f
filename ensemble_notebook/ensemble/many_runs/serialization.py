"""Pickles what is sent to other processes: an ensemble with its models, tools and functions, and the values of rows.

Elsewhere, pickles of definitions leave live objects out (E63); here those are what is sent. Functions and classes
defined in cells are pickled by value (cloudpickle).
"""

from __future__ import annotations

import io
import pickle
from types import MappingProxyType
from typing import Any

import cloudpickle

from ensemble_notebook.domain.definitions.definition import Definition, list_given
from ensemble_notebook.domain.planning.ensemble_texts import list_tasks
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.errors import Problem, ValidationError, summarize_error
from ensemble_notebook.errors.pickling import get_state, make_blank, make_view, set_state

_FAULTS = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError, OSError, ImportError)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no types
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Definition):
            return make_blank, (type(value),), get_state(value), None, None, set_state
        if isinstance(value, MappingProxyType):
            return make_view, (dict(value),)
        return super().reducer_override(value)


def pack(value: Any) -> bytes:
    """Pickle a value, so that `unpack` can restore it in any process with the same packages.

    Raises:
        Exception: something in it can't be pickled.
    """
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


def unpack(data: bytes) -> Any:
    """Restore a packed value. Only for bytes from this user's own workers: pickles can run code."""
    return pickle.loads(data)


def pack_ensemble(ensemble: RunnableEnsemble) -> bytes:
    """Pickle an ensemble, with its live objects.

    Raises:
        ValidationError: lists every object in it that can't be pickled.
    """
    try:
        return pack(ensemble)
    except _FAULTS as error:
        reason = summarize_error(error)
    tasks = list_tasks(ensemble)
    agents = [each for task in tasks for each in (task.agent, task.fallback)]
    problems = [
        Problem(
            f"{field} can't go to another process: {fault}. Give a model as a spec, or leave out executor=.",
            owner,
            field,
        )
        for owner in dict.fromkeys((*tasks, *agents, *ensemble.agents, ensemble))
        if owner is not None
        for field, value in list_given(owner)
        if not isinstance(value, Definition) and field not in ("tasks", "phases", "agents", "context", "when")
        if (fault := _find_fault(value)) is not None
    ]
    raise ValidationError(problems or [Problem(f"The ensemble can't go to another process: {reason}.", ensemble)])


def _find_fault(value: Any) -> str | None:
    try:
        pack(value)
    except _FAULTS as error:
        return summarize_error(error)
    return None
