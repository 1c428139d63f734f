"""A task as it is when it starts: its texts with their variables filled, and the outputs that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.engine.specs.revision import FIRST_ATTEMPT, Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingOutput:
    """An output that the task reads and that is not there (E32, E33): whose, and why in a few words."""

    name: str
    agent_role: str
    description: str
    reason: str


# Not frozen: one is made for each task, and setting the fields of a frozen one takes several times as long.
@dataclass(slots=True, kw_only=True)
class ResolvedTask:
    """One start of a task.

    Attributes:
        node: the task itself. What it declares is read from there, never copied from here to there.
        description: resolved.
        expected_output: resolved.
        context: the outputs that the task reads and that are there, in the order of its ``context``.
        missing: those that are not there.
        revision: which attempt this is, and what it is to do better.
        item_source: the output whose items it runs for; None where they come from elsewhere, or it runs once.
        is_item: whether this is one item of a task (E53). item: the item.
        is_last: whether `ReviewPolicy.AFTER_LAST_TASK` means this one.
    """

    node: TaskNode
    description: str
    expected_output: str
    context: tuple[TaskOutput, ...] = ()
    missing: tuple[MissingOutput, ...] = ()
    revision: Revision = FIRST_ATTEMPT
    is_last: bool = False
    item_source: TaskOutput | None = None
    is_item: bool = False
    item: Any = None
