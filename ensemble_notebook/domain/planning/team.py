"""The agents that can be asked to work by delegation, and the graph of a hierarchical ensemble (E22, E23)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.hierarchy import MANAGER_GOAL, MANAGER_ROLE, normalize_role
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, TeamMember, resolve_llm

MANAGER_NAME: Final = "manager"


def build_team(ensemble: EnsembleDefinition, graph: Graph) -> tuple[TeamMember, ...]:
    """Build the team: the ensemble's `agents`, else those of its tasks; agents derived for one role are one (E22)."""
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
    return TeamMember(agent, resolve_llm(agent, ensemble), agent.role)


def find_delegators(graph: Graph) -> Iterator[tuple[Agent, Task]]:
    """Find the agents of tasks, fallbacks included, that may delegate, each with its task."""
    for node in graph.all_tasks:
        for agent in (node.agent, node.fallback):
            if agent is not None and agent.allow_delegation:
                yield agent, node.task


def add_team(ensemble: EnsembleDefinition, graph: Graph) -> Graph:
    """A valid graph with its team. Of a hierarchical one, the manager is left, who sees to the tasks."""
    if ensemble.workflow is Workflow.HIERARCHICAL:
        team = build_team(ensemble, graph)
        return Graph((_make_manager(ensemble, graph, team),), (), (), team=team, managed=graph.tasks)
    if any(find_delegators(graph)):
        return replace(graph, team=build_team(ensemble, graph))
    return graph


def _make_manager(ensemble: EnsembleDefinition, graph: Graph, team: tuple[TeamMember, ...]) -> TaskNode:
    agent = Agent(role=MANAGER_ROLE, goal=MANAGER_GOAL, max_iterations=ensemble.manager_max_iterations)
    candidates = (ensemble.manager_llm, ensemble.llm, team[0].llm)
    return TaskNode(
        index=0,
        name=MANAGER_NAME,
        task=_make_manager_task(graph.tasks, agent),
        agent=agent,
        llm=next(llm for llm in candidates if llm is not None),
        phase=None,
        context=(),
        is_chained=False,
        after=None,
    )


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
