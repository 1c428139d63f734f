"""Delegation in an ensemble: who can be asked, by a manager or by peers (E22, E23), and the rules of that (E5, E25).

And all agents as one run has them, with the rules for their roles and goals then. All problems are found at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import (
    DELEGATE,
    MANAGER_GOAL,
    MANAGER_ROLE,
    HierarchicalConstraints,
    normalize_role,
)
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import (
    SYSTEM_PLACES,
    fill_system_prompt,
    find_variables,
    hide_places,
    render,
)
from ensemble_notebook.domain.definitions.tool import list_tool_names
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, TeamMember, build_graph, price_llm, resolve_llm
from ensemble_notebook.errors import Problem, did_you_mean

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


def build_team_graph(ensemble: EnsembleDefinition) -> Graph:
    """The graph of an ensemble as a run has it: with its team, and its manager. Without, where these are not valid."""
    graph = build_graph(ensemble)
    return graph if any(find_hierarchy_problems(ensemble, graph)) else add_team(ensemble, graph)


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


_FOR_MANAGERS: Final = ("manager_llm", "manager_prompt", "hierarchical_constraints")
_FOR_ONE_TASK: Final = ("output_type", "timeout", "input_guardrails", "output_guardrails", "review", "rate_limit")
_FOR_OWN_WORKERS: Final = ("llm", "tools", "when", "fallback")


def find_hierarchy_problems(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Find what is wrong with who may delegate to whom, and with the manager and its constraints."""
    yield from _find_clashing_tool_names(ensemble, graph)
    if ensemble.workflow is not Workflow.HIERARCHICAL:
        return
    if ensemble.phases:
        message = "Workflow 'hierarchical' takes tasks, not phases: one manager sees to all of them."
        yield Problem(message, ensemble, "workflow")
        return
    limit: Any = ensemble.manager_max_iterations
    if not _is_whole(limit) or limit < 1:
        message = f"Ensemble manager_max_iterations must be > 0, got: {limit!r}."
        yield Problem(message, ensemble, "manager_max_iterations")
    for node in graph.tasks:
        if node.agent is None:
            field, what = ("handler", "a handler") if node.nested is None else ("ensemble", "an ensemble")
            message = f"Task {node.name!r} has {what}; a manager has its tasks done by agents."
            yield Problem(message, node.task, field)
        if node.task.for_each is not None:
            message = f"Task {node.name!r} has a for_each; a manager has each of its tasks done once, by its own plan."
            yield Problem(f"{message} Use workflow 'parallel', or leave it out.", node.task, "for_each")
        if node.task.prompt is not None:
            message = f"Task {node.name!r} has a prompt; a manager is told of its tasks by their descriptions."
            yield Problem(f"{message} Write a description, or give the ensemble a manager_prompt.", node.task, "prompt")
    team = build_team(ensemble, graph)
    yield from _find_unfit_roles(team)
    if ensemble.hierarchical_constraints is not None:
        yield from _find_constraint_problems(ensemble.hierarchical_constraints, team)


def find_hierarchy_warnings(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[str]:
    """Find what can run, and does not do what it seems to."""
    if ensemble.workflow is Workflow.HIERARCHICAL:
        # What tasks have that nobody looks at: workers get what the manager tells them.
        names = [*_FOR_OWN_WORKERS, *(_FOR_ONE_TASK if len(graph.tasks) > 1 else ())]
        for node in graph.tasks:
            if idle := [name for name in names if getattr(node.task, name)]:
                yield f"Task {node.name!r}: {', '.join(idle)} without effect, since a manager has it done."
        if ensemble.hierarchical_constraints is not None:
            yield from find_impossible_constraints(ensemble.hierarchical_constraints, ensemble.manager_max_iterations)
        return
    for name in _FOR_MANAGERS:
        if getattr(ensemble, name) is not None:
            yield f"{name} has no effect: the workflow is {ensemble.workflow.value!r}, not 'hierarchical'."
    asking = dict.fromkeys(agent for agent, _ in find_delegators(graph))
    team = build_team(ensemble, graph) if asking else ()
    roles = Counter(normalize_role(member.agent.role) for member in team)
    for agent in asking:
        if not roles.keys() - {normalize_role(agent.role)}:
            yield f"Agent {agent.role!r} may delegate, but there is nobody else to ask."
    for role in (role for role, count in roles.items() if count > 1):
        yield f"Several agents are called {role!r} (ignoring case); by delegation, only the first can be asked."


def _find_clashing_tool_names(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Find tools that have the name of the tool by which their agent delegates."""
    holders: dict[Agent | Task, Agent] = {agent: agent for agent in ensemble.agents if agent.allow_delegation}
    for agent, task in find_delegators(graph):
        holders |= {agent: agent, task: agent}
    for holder, agent in holders.items():
        for index, entry in enumerate(holder.tools):
            if DELEGATE in (list_tool_names(entry) or ()):
                message = f"Agent {agent.role!r} may delegate, by a tool named {DELEGATE!r}; rename its other one."
                yield Problem(message, holder, "tools", index)


def _find_unfit_roles(team: Sequence[TeamMember]) -> Iterator[Problem]:
    """Find workers that can't be told from each other, or from the manager."""
    seen: dict[str, Agent] = {}
    for member in team:
        agent, role = member.agent, normalize_role(member.agent.role)
        if role == normalize_role(MANAGER_ROLE):
            message = f"No worker may be called {agent.role!r}: that is the role of the manager. Rename it."
            yield Problem(message, agent, "role")
        elif role in seen:
            message = f"Two workers are called {agent.role!r} (ignoring case). A manager can't tell them apart."
            yield Problem(message, agent, "role")
        seen.setdefault(role, agent)


def _find_constraint_problems(constraints: HierarchicalConstraints, team: Sequence[TeamMember]) -> Iterator[Problem]:
    """Find roles that no worker has, and numbers that are none of delegations."""
    roles = [member.agent.role for member in team]
    known, allowed = set(map(normalize_role, roles)), set(map(normalize_role, constraints.allowed_workers))

    def find_unknown(field: str, role: str, item: int | str) -> Iterator[Problem]:
        if normalize_role(role) not in known:
            message = f"HierarchicalConstraints.{field} references unknown agent: {role!r}.{did_you_mean(role, roles)}"
            yield Problem(message, constraints, field, item)

    for item, role in enumerate(constraints.allowed_workers):
        yield from find_unknown("allowed_workers", role, item)
    for item, role in enumerate(constraints.required_workers):
        yield from find_unknown("required_workers", role, item)
        if allowed and normalize_role(role) not in allowed:
            message = f"HierarchicalConstraints.required_workers contains {role!r}, which is not in allowed_workers."
            yield Problem(message, constraints, "required_workers", item)
    for role in constraints.max_calls_per_worker:
        yield from find_unknown("max_calls_per_worker", role, role)
    yield from _find_unfit_numbers(constraints)
    for stage in constraints.required_stages:
        for role in stage:
            yield from find_unknown("required_stages", role, role)
    yield from _find_repeated_in_stages(constraints)


def _find_unfit_numbers(constraints: HierarchicalConstraints) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for role, cap in constraints.max_calls_per_worker.items():
        if not _is_whole(cap) or cap < 1:
            message = f"HierarchicalConstraints.max_calls_per_worker value for {role!r} must be > 0, got: {cap!r}."
            yield Problem(message, constraints, "max_calls_per_worker", role)
        if (first := seen.setdefault(normalize_role(role), role)) != role:
            message = f"HierarchicalConstraints.max_calls_per_worker has two values for one agent: {first!r}, {role!r}."
            yield Problem(message, constraints, "max_calls_per_worker", role)
    total: Any = constraints.global_max_delegations
    if not _is_whole(total) or total < 0:
        message = f"HierarchicalConstraints.global_max_delegations must be >= 0, got: {total!r}."
        yield Problem(message, constraints, "global_max_delegations")


def _find_repeated_in_stages(constraints: HierarchicalConstraints) -> Iterator[Problem]:
    stage_of: dict[str, int] = {}
    for item, stage in enumerate(constraints.required_stages):
        for role in stage:
            if stage_of.setdefault(normalize_role(role), item) != item:
                message = f"HierarchicalConstraints.required_stages contains duplicate agent role {role!r} in multiple"
                stages = f"stages: {stage_of[normalize_role(role)] + 1} and {item + 1}."
                yield Problem(f"{message} {stages}", constraints, "required_stages", role)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def find_impossible_constraints(constraints: HierarchicalConstraints, manager_max_iterations: int) -> Iterator[str]:
    """Find what can't be met of valid constraints, in words.

    Caps of single workers never stand in the way: they are at least one, and nobody has to be asked twice.
    """
    total, limit = manager_max_iterations, "manager_max_iterations"
    if 0 < constraints.global_max_delegations <= total:
        total, limit = constraints.global_max_delegations, "global_max_delegations"
    allowed = set(map(normalize_role, constraints.allowed_workers))
    stages = [dict.fromkeys(map(normalize_role, stage)) for stage in constraints.required_stages]
    before = [0, *accumulate(map(len, stages))]
    blocked = len(stages)
    for number, stage in enumerate(constraints.required_stages):
        if barred := [role for role in stage if allowed and normalize_role(role) not in allowed]:
            blocked, roles = min(blocked, number), _join_roles(barred)
            yield f"Stage {number + 1} of required_stages can't complete: not in allowed_workers: {roles}."
    for number in range(min(blocked + 1, len(stages))):
        if stages[number] and before[number] >= total:
            reason = f"{limit} is {total}, which the stages before it use up"
            yield f"Stage {number + 1} of required_stages can't be reached: {reason}."
            break
    stage_of = {role: number for number, stage in enumerate(stages) for role in stage}
    required = {normalize_role(role): role for role in constraints.required_workers}
    behind = [written for role, written in required.items() if stage_of.get(role, -1) > blocked]
    if behind:
        yield f"Required workers can't be asked, since stage {blocked + 1} can't complete: {_join_roles(behind)}."
    last = max((stage_of.get(role, 0) for role in required), default=0)
    needed = len(required.keys() | {role for stage in stages[:last] for role in stage})
    if needed > total:
        yield f"The required workers can't all be asked: {limit} is {total}, and it takes {needed}."


def _join_roles(roles: Iterable[str]) -> str:
    return ", ".join(map(repr, roles))


def find_resolved_role_problems(agents: Sequence[Agent], graph: Graph, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what is wrong with agents once their variables are filled in, and was not as they were declared.

    Args:
        agents: all that take part, as they were declared.
        graph: of a valid ensemble, as it was declared.
        inputs: of the run; agents with variables that have no value are left out.
    """
    known = [each for each in agents if all(name in inputs for name in find_variables(f"{each.role}{each.goal}"))]
    for agent in known:
        for field in ("role", "goal"):
            if not render(getattr(agent, field), inputs).strip():
                message = f"The {field} of agent {agent.role!r} is blank in this run: {getattr(agent, field)!r}."
                yield Problem(message, agent, field)
    if graph.managed:
        yield from _find_unfit_workers([each.agent for each in graph.team if each.agent in known], inputs)


def find_resolved_role_warnings(graph: Graph) -> Iterator[str]:
    """Find peers that can't be told from each other in this run, and could be as they were declared.

    Args:
        graph: with the agents of the run.
    """
    declared = Counter(normalize_role(each.declared_role) for each in graph.team)
    resolved = Counter(normalize_role(each.agent.role) for each in graph.team)
    if not graph.managed and declared.keys() != resolved.keys():
        for role in (role for role, count in resolved.items() if count > 1):
            yield f"Several agents are called {role!r} in this run; by delegation, only the first can be asked."


def _find_unfit_workers(workers: list[Agent], inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """As it is checked for declared roles: each worker can be told from the others, and from the manager."""
    seen: dict[str, Agent] = {}
    for agent in workers:
        role = render(agent.role, inputs)
        word = normalize_role(role)
        if word == normalize_role(MANAGER_ROLE):
            message = f"Agent {agent.role!r} is called {role!r} in this run, and that is the role of the manager."
            yield Problem(f"{message} Choose another value, or another role.", agent, "role")
        elif word in seen:
            message = f"Agents {seen[word].role!r} and {agent.role!r} are both called {role!r} in this run"
            yield Problem(f"{message} (ignoring case). A manager can't tell them apart.", agent, "role")
        seen.setdefault(word, agent)
