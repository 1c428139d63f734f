"""The seam between the engine and what writes down its requests: which task of the run each of them is for.

It goes with the context, so that what stands between them need not know of tasks.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from ensemble_notebook.domain.outputs.secrets import mask

_asking_task: Final[ContextVar[str | None]] = ContextVar("ensemble_asking_task", default=None)


def make_task_path(task: str, phase: str | None) -> str:
    """What a task is found by: ``"phase/task"`` or ``"task"``."""
    return task if phase is None else f"{phase}/{task}"


def set_asking_task(task: str, phase: str | None) -> None:
    """What is asked from here on in this context is for this task."""
    _asking_task.set(make_task_path(task, phase))


def get_asking_task() -> str | None:
    """The path of the task that this code works for; None where it works for none."""
    return _asking_task.get()


def find_asking_task() -> str | None:
    """The same as it is written down: secrets masked."""
    path = _asking_task.get()
    return None if path is None else mask(path)
