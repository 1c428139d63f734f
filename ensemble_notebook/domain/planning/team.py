"""The agents that can be asked to work by delegation (E22, E23), and all agents as one run has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import (
    MANAGER_GOAL,
    MANAGER_ROLE,
    HierarchicalConstraints,
    normalize_role,
)
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import SYSTEM_PLACES, fill_system_prompt, hide_places, render
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, TeamMember, price_llm, resolve_llm

MANAGER_NAME: Final = "manager"


def build_team(ensemble: EnsembleDefinition, graph: Graph) -> tuple[TeamMember, ...]:
    """Build the team: the ensemble's `agents`, else those of its tasks; agents derived for one role are one."""
    if ensemble.agents:
        return tuple(_make_member(agent, ensemble) for agent in dict.fromkeys(ensemble.agents))
    named = dict.fromkeys(node.task.agent for node in graph.tasks if node.task.agent is not None)
    taken = {normalize_role(agent.role) for agent in named}
    derived: dict[str, Agent] = {}
    for node in graph.tasks:
        if node.agent is not None and node.task.agent is None and normalize_role(node.role) not in taken:
            derived.setdefault(node.role, node.agent)
    return tuple(_make_member(agent, ensemble) for agent in (*named, *derived.values()))


def list_agents(ensemble: EnsembleDefinition, graph: Graph) -> list[Agent]:
    """List the agents to declare for the same effect: the declared ones, else those of the tasks, or the team.

    The team it is where work is delegated: then it matters who could be asked.
    """
    named = dict.fromkeys(node.task.agent for node in graph.all_tasks if node.task.agent is not None)
    if ensemble.agents or not named:
        return list(dict.fromkeys(ensemble.agents))
    if ensemble.workflow is Workflow.HIERARCHICAL or any(find_delegators(graph)):
        return list(dict.fromkeys([*(member.agent for member in build_team(ensemble, graph)), *named]))
    return list(named)


def _make_member(agent: Agent, ensemble: EnsembleDefinition) -> TeamMember:
    llm, rates = resolve_llm(agent, ensemble)
    return TeamMember(agent, llm, agent.role, rates)


def find_delegators(graph: Graph) -> Iterator[tuple[Agent, Task]]:
    """Find the agents of tasks, fallbacks included, that may delegate, each with its task."""
    for node in graph.all_tasks:
        for agent in (node.agent, node.fallback):
            if agent is not None and agent.allow_delegation:
                yield agent, node.task


def add_team(ensemble: EnsembleDefinition, graph: Graph) -> Graph:
    """A valid graph with its team. Of a hierarchical one, the manager is left, who sees to the tasks."""
    if ensemble.workflow is not Workflow.HIERARCHICAL:
        return replace(graph, team=build_team(ensemble, graph)) if any(find_delegators(graph)) else graph
    team = build_team(ensemble, graph)
    agent = Agent(role=MANAGER_ROLE, goal=MANAGER_GOAL, max_iterations=ensemble.manager_max_iterations)
    given = ensemble.manager_llm if ensemble.manager_llm is not None else ensemble.llm
    llm, rates = (team[0].llm, team[0].rates) if given is None else price_llm(given, ensemble)
    manager = TaskNode(0, MANAGER_NAME, _make_manager_task(graph.tasks, agent), agent, llm, rates=rates)
    return Graph((manager,), (), (), team=team, managed=graph.tasks)


def _make_manager_task(nodes: tuple[TaskNode, ...], manager: Agent) -> Task:
    """Make the manager's own task: the only one there is, or all of them together, of which it shares the memory."""
    if len(nodes) == 1:
        only = nodes[0].task
        return replace(only, name=MANAGER_NAME, agent=manager, llm=None, tools=(), context=(), when=None, fallback=None)
    return Task(
        name=MANAGER_NAME,
        agent=manager,
        description="\n".join(node.task.description for node in nodes),
        expected_output="\n".join(node.task.expected_output for node in nodes),
        memory=tuple(dict.fromkeys(scope for node in nodes for scope in node.task.memory)),
    )


AGENT_TEXTS: Final = ("role", "goal", "background", "response_format")
"""Beside the system prompt, which may have these texts in it."""


def list_agent_texts(agent: Agent) -> Iterator[str]:
    """The texts of an agent that may hold variables, in the order of its fields."""
    yield from (text for name in AGENT_TEXTS if (text := getattr(agent, name)))
    if agent.system_prompt:
        yield hide_places(agent.system_prompt, SYSTEM_PLACES)


class AgentResolver:
    """Makes the agents of one run, with the variables in their texts filled in, as the engine and all views see them.

    A declared agent, which definitions keep, becomes one resolved agent, however often it is used.
    """

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
            if agent.system_prompt:
                given = {name: texts.get(name) for name in SYSTEM_PLACES}
                texts["system_prompt"] = fill_system_prompt(agent.system_prompt, self._inputs, given)
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
            team=tuple(replace(member, agent=self.resolve(member.agent)) for member in graph.team),
            managed=tuple(map(self._resolve_node, graph.managed)),
        )

    def _resolve_node(self, node: TaskNode) -> TaskNode:
        agent = None if node.agent is None else self.resolve(node.agent)
        fallback = None if node.fallback is None else self.resolve(node.fallback)
        if agent is node.agent and fallback is node.fallback:
            return node
        return replace(node, agent=agent, fallback=fallback)


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
