"""The hierarchical workflow, declared: constraints on the manager, and the strategy for its prompts (E22, E25).

What the fields must be by themselves is checked here; what they must be for an ensemble, in `hierarchy_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.definition import Converted, Definition, converted, definition
from ensemble_notebook.domain.definitions.tool import TaskInput

MANAGER_ROLE: Final = "Manager"
MANAGER_GOAL: Final = "Have your workers do every task, check what they deliver, and make one final answer of it."

DELEGATE: Final = "delegate"
DELEGATE_TASK: Final = "delegate_task"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ManagedTask(TaskInput):
    """A task as the manager is told about it, before any work is done on it. Has the fields of `TaskInput`, too.

    Attributes:
        builds_on: names of the tasks whose results it needs.
        suggested_worker: role of the agent that the task names; None if it names none.
    """

    builds_on: tuple[str, ...] = ()
    suggested_worker: str | None = None


class ManagerPrompt(Protocol):
    """How the manager is told about its workers and tasks. Give an object with these methods as `manager_prompt`."""

    def system(self, workers: Sequence[Agent], /) -> str:
        """The system prompt.

        Args:
            workers: the agents that can be asked.
        """

    def user(self, tasks: Sequence[ManagedTask], /) -> str:
        """The user prompt.

        Args:
            tasks: to be done, in order; variables in their descriptions and expected outputs are filled in.
        """


@definition
class HierarchicalConstraints(Definition):
    """What the manager of a hierarchical ensemble may and must do.

    Roles are compared without case and surrounding space. A single role may stand where a list of roles may.

    Args:
        required_workers: roles; each must complete at least one delegation.
        allowed_workers: roles that may be asked; empty: all.
        max_calls_per_worker: the most delegations by role, each at least 1.
        global_max_delegations: the most delegations over all workers; 0: no limit.
        required_stages: lists of roles: every worker of a stage must complete once before any of the next stage is
            asked.

    Raises:
        ValidationError: a field is not of this form. Numbers and roles are checked with the ensemble.
    """

    required_workers: Converted[tuple[str, ...], Sequence[str] | str] = converted(default=())
    allowed_workers: Converted[tuple[str, ...], Sequence[str] | str] = converted(default=())
    max_calls_per_worker: Mapping[str, int] = field(default_factory=dict)
    global_max_delegations: int = 0
    required_stages: Converted[tuple[tuple[str, ...], ...], Sequence[Sequence[str] | str]] = converted(default=())

    def __post_init__(self) -> None:
        """Check the forms; numbers and roles are checked with the ensemble, all at once."""
        for name in ("required_workers", "allowed_workers"):
            self._set(name, self._copy_roles(name, getattr(self, name)))
        caps: Any = self.max_calls_per_worker
        if not isinstance(caps, Mapping):
            message = f"HierarchicalConstraints max_calls_per_worker must map roles to numbers, got {caps!r}."
            raise self._refuse("max_calls_per_worker", message)
        self._set("max_calls_per_worker", MappingProxyType(dict(caps)))
        self._make_tuple("required_stages")
        self._set("required_stages", tuple(self._copy_roles("required_stages", each) for each in self.required_stages))

    def _copy_roles(self, name: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if isinstance(value, set | frozenset):
            value = sorted(value, key=str)
        if not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
            raise self._refuse(name, f"HierarchicalConstraints {name} must be a list of roles, got {value!r}.")
        return tuple(value)


def normalize_role(role: str) -> str:
    """Normalize a role as it is compared: without case and surrounding space."""
    return role.strip().casefold()
