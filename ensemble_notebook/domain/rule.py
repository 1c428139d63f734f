"""The rules between the objects of an ensemble (E5). All problems are found, not only the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ensemble_notebook.domain.agent import check_tools
from ensemble_notebook.domain.ensemble import EnsembleDefinition
from ensemble_notebook.domain.graph import Graph, TaskNode, build_graph
from ensemble_notebook.domain.plan import find_cycle, topological_order
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
    problems = [*graph.problems, *_repeated_tasks(graph), *_repeated_phases(graph)]
    _refuse_cycles(graph, problems)
    problems += _membership(ensemble, graph)
    problems += _context_order(graph)
    problems += _merged_tools(graph)
    if problems:
        raise ValidationError(problems)
    return graph, tuple(_unused_agents(ensemble, graph))


def _repeated_tasks(graph: Graph) -> Iterator[Problem]:
    seen: set[int] = set()
    for node in graph.tasks:
        if id(node.task) in seen:
            yield Problem(f"{node.task!r} stands twice in the ensemble. Make a second task for it.", node.task)
        seen.add(id(node.task))


def _repeated_phases(graph: Graph) -> Iterator[Problem]:
    seen: set[str] = set()
    for phase in graph.phases:
        if phase.name in seen:
            yield Problem(f"Phase name {phase.name!r} stands twice. Give each phase its own.", phase.phase, "name")
        seen.add(phase.name)


def _refuse_cycles(graph: Graph, problems: Sequence[Problem]) -> None:
    """Raise the first cycle, named node by node, with the problems found so far beside it."""
    for kind, nodes, edges, field in (
        ("context", [(n.name, n.task) for n in graph.tasks], [node.context for node in graph.tasks], "context"),
        ("phase", [(p.name, p.phase) for p in graph.phases], [phase.after for phase in graph.phases], "after"),
    ):
        cycle = find_cycle(edges)
        if cycle is not None:
            names = [nodes[index][0] for index in cycle]
            raise CircularDependencyError(kind, names, nodes[cycle[0]][1], field, problems)


def _membership(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Where `agents` is given, every task's own agent is in it, by identity."""
    if not ensemble.agents:
        return
    known = {id(agent) for agent in ensemble.agents}
    roles = ", ".join(repr(agent.role) for agent in ensemble.agents[:8])
    for node in graph.tasks:
        agent = node.task.agent
        if agent is not None and id(agent) not in known:
            message = f"Task {node.name!r} is done by {agent.role!r}, who is not in the ensemble's agents ({roles})."
            yield Problem(message, node.task, "agent")


def _context_order(graph: Graph) -> Iterator[Problem]:
    """A task reads what has been completed when it starts (E5, E26)."""
    before = _predecessors(graph)
    for node in graph.tasks:
        for index in node.context:
            read = graph.tasks[index]
            message = None
            if read.phase is not None and read.phase != node.phase:
                if not before[node.phase or 0] >> read.phase & 1:
                    message = _far_phase(graph, node, read)
            elif node.is_chained and index > node.index:
                message = (
                    f"Task {node.name!r} reads {read.name!r}, which appears later in the list. Move {read.name!r} up, "
                    f"or use workflow 'parallel', where the order of the list does not matter."
                )
            if message is not None:
                yield Problem(message, node.task, "context", _item(node, read))


def _item(node: TaskNode, read: TaskNode) -> int | None:
    """Where a task's context, as it was written, names the task that it reads."""
    written = enumerate(node.task.context)
    return next((item for item, each in written if each is read.task or each == read.name), None)


def _far_phase(graph: Graph, node: TaskNode, read: TaskNode) -> str:
    mine, other = graph.phase_name(node), graph.phase_name(read)
    return (
        f"Task {node.name!r} in phase {mine!r} reads {read.name!r} of phase {other!r}, which does not come before it. "
        f"Add {other!r} to the 'after' of phase {mine!r}."
    )


def _predecessors(graph: Graph) -> list[int]:
    """For each phase, all phases that have completed when it starts, as the bits of a number. They form no cycle."""
    before = [0] * len(graph.phases)
    for index in topological_order([phase.after for phase in graph.phases]):
        for each in graph.phases[index].after:
            before[index] |= before[each] | 1 << each
    return before


def _merged_tools(graph: Graph) -> Iterator[Problem]:
    """A task's tools stand beside its agent's; no name may stand in both."""
    for node in graph.tasks:
        if node.agent is not None and node.task.tools:
            try:
                check_tools(node.task, (*node.agent.tools, *node.task.tools))
            except ValidationError as error:
                yield Problem(f"Task {node.name!r} with agent {node.role!r}: {error}", node.task, "tools")


def _unused_agents(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[str]:
    used = {id(node.agent) for node in graph.tasks}
    for agent in ensemble.agents:
        if id(agent) not in used:
            yield f"Agent {agent.role!r} has no task."
