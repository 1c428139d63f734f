"""The rules between the objects of an ensemble (E5). All problems are found, not only the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent, check_tools
from ensemble_notebook.domain.definitions.definition import get_field_names
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.output_field import find_field_fault
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.execution_plan import find_cycle, list_phase_predecessors, sort_topologically
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, build_graph
from ensemble_notebook.domain.planning.nested_tasks import find_typed_task
from ensemble_notebook.domain.planning.team import add_team, find_delegators
from ensemble_notebook.domain.rules.hierarchy_rules import find_hierarchy_problems, find_hierarchy_warnings
from ensemble_notebook.domain.rules.item_rules import find_for_each_problems, find_item_warnings
from ensemble_notebook.domain.rules.name_rules import find_lookalike_names
from ensemble_notebook.domain.rules.nested_rules import find_nested_problems
from ensemble_notebook.errors import CircularDependencyError, Problem, ValidationError


def check_ensemble(ensemble: EnsembleDefinition) -> tuple[Graph, tuple[str, ...]]:
    """Check an ensemble as a whole.

    Returns:
        The resolved graph, and warnings for what is odd but can run.

    Raises:
        CircularDependencyError: tasks or phases wait for each other; found before anything else, since the other
            rules follow the links.
        ValidationError: with every other problem.
    """
    if ensemble.tasks and ensemble.phases:
        raise ValidationError(
            Problem("An ensemble has tasks or phases, not both. Put the tasks into a phase.", ensemble, "tasks")
        )
    if not ensemble.tasks and not ensemble.phases:
        raise ValidationError(Problem("An ensemble needs at least one task or phase.", ensemble, "tasks"))
    graph = build_graph(ensemble)
    problems = [*graph.problems, *_find_repeated_tasks(graph), *_find_repeated_phases(graph)]
    _refuse_cycles(graph, problems)
    problems += _find_strange_agents(ensemble, graph)
    problems += _find_idle_rate_limit(ensemble, graph)
    problems += _find_late_references(graph)
    problems += _find_conditions_on_own_tasks(graph)
    problems += _find_unknown_fields(graph)
    problems += _find_unfit_reviewers(graph)
    problems += find_for_each_problems(graph)
    problems += _find_clashing_tools(graph)
    problems += find_lookalike_names(ensemble, graph)
    problems += find_hierarchy_problems(ensemble, graph)
    problems += find_nested_problems(ensemble, graph, check_ensemble)
    if problems:
        raise ValidationError(problems)
    warnings = (
        *_find_unused_agents(ensemble, graph),
        *find_hierarchy_warnings(ensemble, graph),
        *find_item_warnings(graph),
    )
    return add_team(ensemble, graph), warnings


def _find_repeated_tasks(graph: Graph) -> Iterator[Problem]:
    seen: set[int] = set()
    for node in graph.tasks:
        if id(node.task) in seen:
            yield Problem(f"{node.task!r} stands twice in the ensemble. Make a second task for it.", node.task)
        seen.add(id(node.task))


def _find_repeated_phases(graph: Graph) -> Iterator[Problem]:
    seen: set[str] = set()
    for phase in graph.phases:
        if phase.name in seen:
            yield Problem(f"Phase name {phase.name!r} stands twice. Give each phase its own.", phase.phase, "name")
        seen.add(phase.name)


def _refuse_cycles(graph: Graph, problems: Sequence[Problem]) -> None:
    """Raise the first cycle, named node by node, with the problems found so far beside it."""
    reads = [node.context for node in graph.tasks]
    after = [phase.after for phase in graph.phases]
    items = [() if node.item_source is None else (node.item_source,) for node in graph.tasks]
    runs_for = [(*node.context, *item) for node, item in zip(graph.tasks, items, strict=True)]
    waits = [(*edges, *node.sources) for node, edges in zip(graph.tasks, runs_for, strict=True)]
    opens = [list_phase_predecessors(phase) for phase in graph.phases]
    tasks = [(node.name, node.task) for node in graph.tasks]
    phases = [(phase.name, phase.phase) for phase in graph.phases]
    for kind, nodes, edges, field in (
        ("context", tasks, reads, "context"),
        ("for_each", tasks, runs_for, "for_each"),
        ("phase", phases, after, "after"),
        ("condition", tasks, waits, "when"),
        ("condition", phases, opens, "when"),
    ):
        # Without conditions, tasks and phases wait for nothing else than what was looked at before.
        is_new = kind != "condition" or graph.conditions
        cycle = find_cycle(edges) if is_new and (kind != "for_each" or any(items)) else None
        if cycle is not None:
            names = [nodes[index][0] for index in cycle]
            raise CircularDependencyError(kind, names, nodes[cycle[0]][1], field, problems)


def _find_strange_agents(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Find tasks whose own agent is not in `agents`, where that is given."""
    if not ensemble.agents:
        return
    known = {id(agent) for agent in ensemble.agents}
    roles = ", ".join(repr(agent.role) for agent in ensemble.agents[:8])
    for node in graph.all_tasks:
        agent = node.task.agent
        if agent is not None and id(agent) not in known:
            message = f"Task {node.name!r} is done by {agent.role!r}, who is not in the ensemble's agents ({roles})."
            yield Problem(message + _describe_namesake(agent, ensemble.agents), node.task, "agent")


def _describe_namesake(agent: Agent, agents: Sequence[Agent]) -> str:
    """Say what tells an agent from the one of the same role that is there; a copy is another agent (E4)."""
    namesake = next((each for each in agents if each.role == agent.role), None)
    if namesake is None:
        return ""
    names = [name for name in get_field_names(Agent) if getattr(namesake, name) != getattr(agent, name)]
    how = f"another {', '.join(names)}" if names else "the same fields, and is another object"
    return (
        f" The {agent.role!r} there has {how}: replace() makes a new agent. Put the new one into agents in place "
        f"of the old one, or give the task the one that is there."
    )


def _find_idle_rate_limit(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Find a rate limit where no task asks a model (E5)."""
    asks = any(node.llm is not None or node.nested is not None for node in graph.all_tasks)
    if ensemble.rate_limit is not None and not asks:
        message = "The ensemble has a rate_limit, and no task that asks a model: all have handlers. Remove it."
        yield Problem(message, ensemble, "rate_limit")


def _find_late_references(graph: Graph) -> Iterator[Problem]:
    """Find tasks that read, or test in a condition, what is not resolved when they could start (E5, E26, E33)."""
    before = _collect_earlier_phases(graph)
    for node in graph.tasks:
        for index in node.context:
            if (message := _explain_too_late(graph, node, graph.tasks[index], "reads", before)) is not None:
                yield Problem(message, node.task, "context", _find_item(node.task.context, graph.tasks[index]))
        if node.item_source is not None:
            source = graph.tasks[node.item_source]
            if (message := _explain_too_late(graph, node, source, "runs for each item of", before)) is not None:
                yield Problem(message, node.task, "for_each")
        for index in node.sources:
            if (
                message := _explain_too_late(graph, node, graph.tasks[index], "has a condition on", before)
            ) is not None:
                written = [condition.source for condition in node.task.when]
                yield Problem(message, node.task, "when", _find_item(written, graph.tasks[index]))


def _explain_too_late(graph: Graph, node: TaskNode, other: TaskNode, verb: str, before: Sequence[int]) -> str | None:
    """Explain why a task can't wait for another one; None where it can."""
    if other.phase is not None and other.phase != node.phase:
        if before[node.phase or 0] >> other.phase & 1:
            return None
        mine, far = graph.get_phase_name(node), graph.get_phase_name(other)
        return (
            f"Task {node.name!r} in phase {mine!r} {verb} {other.name!r} of phase {far!r}, which does not come before "
            f"it. Add {far!r} to the 'after' of phase {mine!r}."
        )
    if node.is_chained and other.index > node.index:
        return (
            f"Task {node.name!r} {verb} {other.name!r}, which appears later in the list. Move {other.name!r} up, "
            f"or use workflow 'parallel', where the order of the list does not matter."
        )
    return None


def _find_item(written: Sequence[Any], task: TaskNode) -> int | None:
    """Find where references, as they were written, name a task."""
    return next((item for item, each in enumerate(written) if each is task.task or each == task.name), None)


def _collect_earlier_phases(graph: Graph) -> list[int]:
    """For each phase, all phases that are resolved when it starts, as the bits of a number. They form no cycle."""
    before = [0] * len(graph.phases)
    edges = [list_phase_predecessors(phase) for phase in graph.phases]
    for index in sort_topologically(edges):
        for each in edges[index]:
            before[index] |= before[each] | 1 << each
    return before


def _find_conditions_on_own_tasks(graph: Graph) -> Iterator[Problem]:
    """Find phases that wait for one of their own tasks (E33)."""
    for phase in graph.phases:
        for number in phase.when:
            source = graph.tasks[graph.conditions[number].source]
            if source.phase == phase.index:
                message = (
                    f"Phase {phase.name!r} has a condition on {source.name!r}, one of its own tasks. "
                    f"Put {source.name!r} into a phase before it."
                )
                yield Problem(message, phase.phase, "when")


def _find_unknown_fields(graph: Graph) -> Iterator[Problem]:
    """Find conditions on a field that the output of their source can't have (E33)."""
    for node in graph.conditions:
        path, source = node.condition.field, graph.tasks[node.source]
        if path is None:
            continue
        typed = find_typed_task(source)
        output_type, fault = typed.output_type, None
        if source.task.for_each is not None:
            fault = "it runs for each item, so its output is a list. Test the whole text, or use a predicate."
        elif output_type is not None:
            fault = find_field_fault(output_type, path)
        elif typed.has_agent:
            fault = "it has no output_type, so its output is one text. Give it one that has this field."
        if fault is not None:
            message = f"A condition looks at the field {path!r} of task {source.name!r}: {fault}"
            yield Problem(message, node.condition, "field")


def _find_unfit_reviewers(graph: Graph) -> Iterator[Problem]:
    """Find reviewers that are tasks of the ensemble, too, that read what may not be there, or have conditions (E28)."""
    tasks = {id(node.task): node for node in graph.tasks}
    before = _collect_earlier_phases(graph)
    for phase in graph.phases:
        by = None if phase.phase.review is None else phase.phase.review.by
        if id(by) in tasks:
            message = f"{tasks[id(by)].name!r} reviews phase {phase.name!r} and is a task of the ensemble, too."
            yield Problem(f"{message} Make a second task for it.", phase.phase, "review")
        elif isinstance(by, Task) and by.when:
            message = f"The reviewer of phase {phase.name!r} has a when; a phase is reviewed whenever it is done."
            yield Problem(message, by, "when")
        elif isinstance(by, Task) and phase.reviewer is not None:
            for index in phase.reviewer.context:
                if (
                    message_ := _explain_too_late(graph, phase.reviewer, graph.tasks[index], "reads", before)
                ) is not None:
                    yield Problem(message_, by, "context", _find_item(by.context, graph.tasks[index]))


def _find_clashing_tools(graph: Graph) -> Iterator[Problem]:
    """Find names that stand among a task's tools and its agent's."""
    for node in graph.all_tasks:
        if node.agent is not None and node.task.tools:
            try:
                check_tools(node.task, (*node.agent.tools, *node.task.tools))
            except ValidationError as error:
                yield Problem(f"Task {node.name!r} with agent {node.role!r}: {error}", node.task, "tools")


def _find_unused_agents(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[str]:
    if ensemble.workflow is Workflow.HIERARCHICAL or any(find_delegators(graph)):
        return  # they can be asked
    used = {id(agent) for node in graph.all_tasks for agent in (node.agent, node.task.fallback)}
    for agent in ensemble.agents:
        if id(agent) not in used:
            yield f"Agent {agent.role!r} has no task."
