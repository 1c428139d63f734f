"""The agents of a run that can be asked to work, found by their roles (E23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import DELEGATE, normalize_role
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TeamMember


class TeamMembers:
    """Members by role, in any case; of two with the same role, the first."""

    def __init__(self, members: Sequence[TeamMember]) -> None:
        self._members: dict[str, TeamMember] = {}
        for member in members:
            self._members.setdefault(normalize_role(member.agent.role), member)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """All of them."""
        return tuple(member.agent for member in self._members.values())

    def list_roles(self, besides: str = "") -> tuple[str, ...]:
        """Who is there besides the one of this role."""
        return tuple(each.agent.role for role, each in self._members.items() if role != normalize_role(besides))

    def spell_role(self, role: str) -> str:
        """A role as its agent spells it; trimmed where there is no such agent."""
        member = self._members.get(normalize_role(role))
        return role.strip() if member is None else member.agent.role

    def get_member(self, role: str) -> TeamMember:
        """The member of a role.

        Raises:
            KeyError: there is none.
        """
        return self._members[normalize_role(role)]

    def find_objection(self, role: str, asked_by: str = "") -> str | None:
        """That there is nobody of this role, and who there is; None where there is somebody."""
        if normalize_role(role) in self._members:
            return None
        return f"There is no agent {role!r}. Available: {quote_roles(self.list_roles(asked_by))}"


def quote_roles(roles: Sequence[str]) -> str:
    """Write roles into a sentence."""
    return ", ".join(map(repr, roles)) or "nobody"


# --- Who delegates, and to whom it may --------------------------------------------------------------------------------


class Delegator(Protocol):
    """Who delegates.

    Attributes:
        role: its own.
        tool: name of the tool by which it asks.
        depth: of what it asks for, from 1.
        work_prefix: begins the names of the work that it asks for.
    """

    @property
    def role(self) -> str: ...

    @property
    def tool(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def work_prefix(self) -> str: ...

    def list_roles(self) -> tuple[str, ...]:
        """The roles of those whom it can ask."""

    def find_objection(self, role: str) -> str | None:
        """Why it may not ask this one now; None where it may."""

    def note_approved(self, role: str) -> None:
        """It has asked this one, and the work begins."""

    def note_refused(self, role: str, reason: str) -> None:
        """What it asked of this one was refused, or has failed."""

    def note_completed(self, output: TaskOutput) -> None:
        """The work is done."""


class PeerDelegator:
    """An agent that may ask the others of its team."""

    tool: Final = DELEGATE

    def __init__(self, role: str, work: str, depth: int, max_depth: int, team: TeamMembers) -> None:
        self.role = role
        self.depth = depth
        self.work_prefix = f"{work}."
        self._max_depth = max_depth
        self._team = team

    def list_roles(self) -> tuple[str, ...]:
        return self._team.list_roles(besides=self.role)

    def find_objection(self, role: str) -> str | None:
        if self.depth > self._max_depth:
            return f"The delegation depth limit of {self._max_depth} is reached; do the work yourself"
        if normalize_role(role) == normalize_role(self.role):
            return f"Agent {self.role!r} can't delegate to itself. Available: {quote_roles(self.list_roles())}"
        return self._team.find_objection(role, asked_by=self.role)

    def note_approved(self, role: str) -> None:
        """Nothing is counted."""

    def note_refused(self, role: str, reason: str) -> None:
        """Nothing is kept: nobody has to be asked."""

    def note_completed(self, output: TaskOutput) -> None:
        """Nothing is kept: it is part of the delegator's own work."""
