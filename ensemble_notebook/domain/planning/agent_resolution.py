"""The agents of one run: fills in the variables in their texts (E6).

The engine and all views see the resolved agents; definitions keep the declared ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints, normalize_role
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, TeamMember

AGENT_TEXTS: Final = ("role", "goal", "background", "response_format")


def list_agent_texts(agent: Agent) -> Iterator[str]:
    """The texts of an agent that may hold variables, in the order of its fields."""
    return (text for name in AGENT_TEXTS if (text := getattr(agent, name)))


class AgentResolver:
    """Makes the agents of one run. A declared agent becomes one resolved agent, however often it is used."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._inputs = inputs
        self._resolved: dict[Agent, Agent] = {}

    def resolve(self, agent: Agent) -> Agent:
        """The agent with its texts filled in; itself where they hold no variable.

        Raises:
            ValidationError: its role or goal is blank then.
        """
        if agent not in self._resolved:
            texts: dict[str, Any] = {
                name: render(text, self._inputs) for name in AGENT_TEXTS if (text := getattr(agent, name))
            }
            is_same = all(text == getattr(agent, name) for name, text in texts.items())
            self._resolved[agent] = agent if is_same else replace(agent, **texts)
        return self._resolved[agent]

    def resolve_graph(self, graph: Graph) -> Graph:
        """The graph with the agents of the run."""
        return replace(
            graph,
            tasks=tuple(map(self._resolve_node, graph.tasks)),
            phases=tuple(
                phase if phase.reviewer is None else replace(phase, reviewer=self._resolve_node(phase.reviewer))
                for phase in graph.phases
            ),
            team=tuple(map(self._resolve_member, graph.team)),
            managed=tuple(map(self._resolve_node, graph.managed)),
        )

    def _resolve_node(self, node: TaskNode) -> TaskNode:
        agent = None if node.agent is None else self.resolve(node.agent)
        fallback = None if node.fallback is None else self.resolve(node.fallback)
        if agent is node.agent and fallback is node.fallback:
            return node
        return replace(node, agent=agent, fallback=fallback)

    def _resolve_member(self, member: TeamMember) -> TeamMember:
        return replace(member, agent=self.resolve(member.agent))


def resolve_constraints(constraints: HierarchicalConstraints, graph: Graph) -> HierarchicalConstraints:
    """The constraints, which name declared roles, with the roles of the run, which manager and policies know."""
    roles = {normalize_role(member.declared_role): member.agent.role for member in graph.team}

    def resolve(role: str) -> str:
        return roles.get(normalize_role(role), role)

    return replace(
        constraints,
        required_workers=tuple(map(resolve, constraints.required_workers)),
        allowed_workers=tuple(map(resolve, constraints.allowed_workers)),
        max_calls_per_worker={resolve(role): cap for role, cap in constraints.max_calls_per_worker.items()},
        required_stages=tuple(tuple(map(resolve, stage)) for stage in constraints.required_stages),
    )
