"""What a fork or a rerun has changed, for whoever writes it into the cell that the run came from (F5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ensemble_notebook.trace.store.run_facts import RunOrigin


class Reworded(NamedTuple):
    """A prompt as it was sent, and as it is wanted."""

    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCall:
    """A change of a model call, a tool call or a task.

    Attributes:
        names: the arguments that say what is different.
        task: the path of the task, with its phase; None where the call is of none.
        agent: the role of the agent.
        is_delegated: the agent was asked by another one, whose words the prompt is.
        is_nested: it is in a run inside the run, of another ensemble.
        system, user: the prompts that are others.
        is_conversation: more is changed than these, which no cell has.
        llm: who is asked; None: as before.
        parameters: of that model, beside those that it has.
        lost: arguments whose values are not kept.
    """

    names: tuple[str, ...]
    task: str | None
    agent: str | None
    is_delegated: bool = False
    is_nested: bool = False
    system: Reworded | None = None
    user: Reworded | None = None
    is_conversation: bool = False
    llm: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSource:
    """What is to be put into a cell.

    Attributes:
        changes: in order.
        cell: that the run came from; None where it came from none, or no text of it is kept.
        ensemble: that ran.
        inputs: of the run.
    """

    changes: Sequence[ChangedCall]
    cell: RunOrigin | None
    ensemble: Any
    inputs: Mapping[str, Any]
