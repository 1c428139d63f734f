"""The agents of a run that can be asked to work, found by their roles (E23)."""

from __future__ import annotations

from collections.abc import Sequence

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.hierarchy import normalize_role
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
