"""Delegation: one agent hands work to another; what is asked, what comes back, who may forbid it (E23, E24).

And the hierarchical workflow, in which a manager delegates all work: its constraints, and the strategy for its prompts
(E22, E25). What the fields must be by themselves is checked here; what they must be for an ensemble, in
`planning.delegation`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.definition import Converted, Definition, converted, definition
from ensemble_notebook.domain.definitions.enums import DelegationPriority, DelegationStatus
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.errors import ValidationError

_REQUIRED: Final = {
    "agent_role": "Role of the agent that is to do it.",
    "task_description": "What is to be done, with all that the agent has to know; it sees nothing else.",
}
_TEXTS: Final = {name: {"type": "string", "description": text} for name, text in _REQUIRED.items()}
_EARLIER_PARAMETERS: Final = {"type": "object", "properties": _TEXTS, "required": [*_REQUIRED]}
DELEGATION_PARAMETERS: Final[Mapping[str, Any]] = _EARLIER_PARAMETERS | {
    "properties": {
        **_TEXTS,
        "scope": {"type": "object", "description": "Facts that the agent is given beside the task, by name."},
        "priority": {
            "type": "string",
            "enum": [each.value for each in DelegationPriority],
            "description": "How urgent it is; normal where it is left out.",
        },
    }
}
"""The JSON schema of what an agent gives to a delegation tool."""


def update_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a tool; of a delegation tool of an earlier version, which had no optional ones, those of now.

    A recording or a stored run in which an agent had such a tool answers to the tool of now: whatever was asked then
    can be asked now.
    """
    return DELEGATION_PARAMETERS if parameters == _EARLIER_PARAMETERS else parameters


_KINDS: Final = {
    "agent_role": str,
    "task_description": str,
    "scope": Mapping,
    "expected_output_schema": str | None,
    "max_output_retries": int,
    "metadata": Mapping,
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DelegationRequest(Record):
    """A request to delegate, made whenever an agent names a worker and a task.

    Attributes:
        task_id: UUID4; the response has the same one.
        agent_role: role of the worker.
        task_description: what the worker is to do.
        scope: facts for the worker's prompt, by name: from the agent that asks, and from policies.
        priority: a hint for policies and views, from the agent that asks.
        expected_output_schema: what the answer should look like, as text; None for the stock one.
        max_output_retries: corrections of an answer that does not match the schema, if that is a JSON schema.
        metadata: for policies and listeners.

    Raises:
        ValidationError: a field has a wrong type, for example as made by a policy.
    """

    agent_role: str
    task_description: str
    task_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    scope: Mapping[str, Any] = field(default_factory=dict)
    priority: DelegationPriority = DelegationPriority.NORMAL
    expected_output_schema: str | None = None
    max_output_retries: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the kinds: workers, policies and views rely on them."""
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                wanted = getattr(kind, "__name__", str(kind))
                raise ValidationError(f"DelegationRequest {name} must be {wanted}, got {type(value).__name__}.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DelegationResponse(Record):
    """The result of a `DelegationRequest`, refusals included.

    Attributes:
        task_id: of the request.
        status: FAILURE for refusals and failed workers, PARTIAL if the worker's answer was empty.
        worker_role: who was asked.
        raw_output: the worker's text; None if there is none.
        parsed_output: the typed value; None if there is none.
        artifacts: what the worker's tools gave as structured results, by their names, further ones of a tool as
            ``name#2``, ``name#3``; and its typed answer as ``parsed_output``.
        errors: why it failed; empty on success.
        metadata: of the request.
        duration: from the request to the response.
    """

    task_id: str
    status: DelegationStatus
    worker_role: str
    raw_output: str | None = None
    parsed_output: Any = None
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    duration: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DelegationContext(Record):
    """What a policy knows besides the request.

    Attributes:
        caller_role: who wants to delegate; ``"Manager"`` in the hierarchical workflow.
        depth: of this delegation, from 1.
        max_depth: the ensemble's `max_delegation_depth`.
        available_roles: who can be asked.
    """

    caller_role: str
    depth: int
    max_depth: int
    available_roles: tuple[str, ...]


class PolicyVerdict(StrEnum):
    """The kinds of `DelegationPolicyResult`."""

    ALLOW = "allow"
    REJECT = "reject"
    MODIFY = "modify"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DelegationPolicyResult(Record):
    """What a policy says.

    Attributes:
        verdict: what is to happen.
        reason: of a rejection; the delegating agent is told.
        request: the changed request, for the next policy and the worker.
    """

    verdict: PolicyVerdict
    reason: str = ""
    request: DelegationRequest | None = None

    @classmethod
    def allow(cls) -> DelegationPolicyResult:
        """No objection."""
        return cls(verdict=PolicyVerdict.ALLOW)

    @classmethod
    def reject(cls, reason: str) -> DelegationPolicyResult:
        """Refuse the delegation.

        No further policy is asked, the worker is not called, and the delegating agent gets the reason.

        Args:
            reason: why.
        """
        return cls(verdict=PolicyVerdict.REJECT, reason=reason)

    @classmethod
    def modify(cls, request: DelegationRequest) -> DelegationPolicyResult:
        """Go on with another request, which is checked against the guards and the constraints again.

        Args:
            request: replaces the one that was evaluated.
        """
        return cls(verdict=PolicyVerdict.MODIFY, request=request)


class DelegationPolicy(Protocol):
    """Decides about delegations; each policy is asked, in order.

    A plain function ``(request, context)`` will do, too.
    """

    def evaluate(self, request: DelegationRequest, context: DelegationContext, /) -> DelegationPolicyResult:
        """Allow, reject or modify the request; returning None is an error.

        Args:
            request: what is to be delegated.
            context: who asks, and how deep.
        """


PolicyFunction = Callable[
    [DelegationRequest, DelegationContext], DelegationPolicyResult | Awaitable[DelegationPolicyResult]
]


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
