"""The rules between the objects of an ensemble (E5). All problems are found, not only the first."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from ensemble_notebook.domain.definitions.agent import Agent, check_tools
from ensemble_notebook.domain.definitions.definition import get_field_names
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.item_list import Items, NoListError, describe_count, list_items
from ensemble_notebook.domain.definitions.nested_ensemble import describe_ensemble
from ensemble_notebook.domain.definitions.output_type import (
    find_field_fault,
    find_field_values,
    find_list_fields,
    find_part,
)
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import (
    CONTEXT,
    PROMPT_PLACES,
    find_input_name,
    find_item_paths,
    find_places,
    find_variables,
)
from ensemble_notebook.domain.definitions.tool import SourcedInput
from ensemble_notebook.domain.planning.delegation import (
    add_team,
    find_delegators,
    find_hierarchy_problems,
    find_hierarchy_warnings,
)
from ensemble_notebook.domain.planning.ensemble_texts import (
    describe_too_deep,
    find_lacking,
    find_lacking_inside,
    find_path_too_deep,
    find_place_names,
    find_texts_by_variable,
    find_typed_task,
    has_handlers,
)
from ensemble_notebook.domain.planning.execution_plan import (
    KnownItems,
    find_cycle,
    list_phase_predecessors,
    sort_topologically,
)
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, build_graph
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.errors import (
    CircularDependencyError,
    Problem,
    PromptTemplateError,
    ValidationError,
    did_you_mean,
)

_checked: Final = WeakKeyDictionary[EnsembleDefinition, tuple[Graph, tuple[str, ...]]]()


def check_ensemble(ensemble: EnsembleDefinition) -> tuple[Graph, tuple[str, ...]]:
    """Check an ensemble as a whole.

    An ensemble never changes, so what is found is kept as long as it lives: a cell checks it as it is read, before its
    plan is shown, and before it runs.

    Returns:
        The resolved graph, and warnings for what is odd but can run.

    Raises:
        CircularDependencyError: tasks or phases wait for each other; found before anything else, since the other
            rules follow the links.
        ValidationError: with every other problem.
    """
    if (found := _checked.get(ensemble)) is not None:
        return found
    if ensemble.tasks and ensemble.phases:
        message = "An ensemble has tasks or phases, not both. Put the tasks into a phase."
        raise ValidationError(Problem(message, ensemble, "tasks"))
    if not ensemble.tasks and not ensemble.phases:
        raise ValidationError(Problem("An ensemble needs at least one task or phase.", ensemble, "tasks"))
    graph = build_graph(ensemble)
    problems = [*graph.problems, *_find_repeated(graph)]
    _refuse_cycles(graph, problems)
    problems += _find_unlisted_agents(ensemble, graph)
    asks = any(node.llm is not None or node.nested is not None for node in graph.all_tasks)
    if ensemble.rate_limit is not None and not asks:
        message = "The ensemble has a rate_limit, and no task that asks a model: all have handlers. Remove it."
        problems.append(Problem(message, ensemble, "rate_limit"))
    problems += _find_late_references(graph)
    problems += _find_misplaced_conditions(graph)
    problems += _find_unknown_fields(graph)
    problems += _find_unfit_reviewers(graph)
    problems += find_for_each_problems(graph)
    problems += find_prompt_problems(graph)
    problems += _find_clashing_tools(graph)
    problems += find_lookalike_names(ensemble, graph)
    problems += find_hierarchy_problems(ensemble, graph)
    problems += find_nested_problems(ensemble, graph)
    if problems:
        raise ValidationError(problems)
    warnings = [*find_hierarchy_warnings(ensemble, graph), *find_item_warnings(graph)]
    if ensemble.workflow is not Workflow.HIERARCHICAL and not any(find_delegators(graph)):  # else they can be asked
        used = {id(agent) for node in graph.all_tasks for agent in (node.agent, node.task.fallback)}
        warnings = [
            *(f"Agent {each.role!r} has no task." for each in ensemble.agents if id(each) not in used),
            *warnings,
        ]
    found = _checked[ensemble] = add_team(ensemble, graph), tuple(warnings)
    return found


def _find_repeated(graph: Graph) -> Iterator[Problem]:
    """Find tasks that stand twice, and phases of the same name."""
    seen = set[object]()
    for node in graph.tasks:
        if id(node.task) in seen:
            yield Problem(f"{node.task!r} stands twice in the ensemble. Make a second task for it.", node.task)
        seen.add(id(node.task))
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


def _find_unlisted_agents(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
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
    """Say what tells an agent from the one of the same role that is there; a copy is another agent."""
    namesake = next((each for each in agents if each.role == agent.role), None)
    if namesake is None:
        return ""
    names = [name for name in get_field_names(Agent) if getattr(namesake, name) != getattr(agent, name)]
    how = f"another {', '.join(names)}" if names else "the same fields, and is another object"
    remedy = "Put the new one into agents in place of the old one, or give the task the one that is there."
    return f" The {agent.role!r} there has {how}: replace() makes a new agent. {remedy}"


def _find_late_references(graph: Graph) -> Iterator[Problem]:
    """Find tasks that read, or test in a condition, what is not resolved when they could start."""
    before = _collect_earlier_phases(graph)
    for node in graph.tasks:
        item = () if node.item_source is None else (node.item_source,)
        tested = [condition.source for condition in node.task.when]
        for field, verb, indices, written in (
            ("context", "reads", node.context, node.task.context),
            ("for_each", "runs for each item of", item, ()),
            ("when", "has a condition on", node.sources, tested),
        ):
            for other in (graph.tasks[index] for index in indices):
                if (message := _explain_too_late(graph, node, other, verb, before)) is not None:
                    yield Problem(message, node.task, field, _find_item(written, other))


def _explain_too_late(graph: Graph, node: TaskNode, other: TaskNode, verb: str, before: Sequence[int]) -> str | None:
    """Explain why a task can't wait for another one; None where it can."""
    if other.phase is not None and other.phase != node.phase:
        if before[node.phase or 0] >> other.phase & 1:
            return None
        mine, far = graph.get_phase_name(node), graph.get_phase_name(other)
        message = f"Task {node.name!r} in phase {mine!r} {verb} {other.name!r} of phase {far!r}"
        return f"{message}, which does not come before it. Add {far!r} to the 'after' of phase {mine!r}."
    if node.is_chained and other.index > node.index:
        message = f"Task {node.name!r} {verb} {other.name!r}, which appears later in the list."
        remedy = "or use workflow 'parallel', where the order of the list does not matter."
        return f"{message} Move {other.name!r} up, {remedy}"
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


def _find_misplaced_conditions(graph: Graph) -> Iterator[Problem]:
    """Find phases that wait for one of their own tasks, or are done until another one says something.

    No round changes the output of a task of another phase.
    """
    for phase in graph.phases:
        for number in phase.when:
            source = graph.tasks[graph.conditions[number].source]
            if source.phase == phase.index:
                message = f"Phase {phase.name!r} has a condition on {source.name!r}, one of its own tasks."
                yield Problem(f"{message} Put {source.name!r} into a phase before it.", phase.phase, "when")
        for item, number in enumerate(phase.until):
            source = graph.tasks[graph.conditions[number].source]
            if source.phase != phase.index:
                names = ", ".join(repr(graph.tasks[index].name) for index in phase.tasks)
                message = f"Phase {phase.name!r} until tests {source.name!r}, which is not one of its tasks ({names})."
                yield Problem(message, phase.phase, "until", item)


def _find_unknown_fields(graph: Graph) -> Iterator[Problem]:
    """Find conditions on a field that the output of their source can't have, or that is never so."""
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
            continue
        values = None if output_type is None else find_field_values(output_type, path)
        if values is not None and (fault := node.condition.find_fault(values)) is not None:
            message = f"A condition tests the field {path!r} of task {source.name!r}: {fault}"
            yield Problem(message, node.condition, "equals" if node.condition.contains is None else "contains")


def _find_unfit_reviewers(graph: Graph) -> Iterator[Problem]:
    """Find reviewers that are tasks of the ensemble, too, that read what may not be there, or have conditions."""
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
                late = _explain_too_late(graph, phase.reviewer, graph.tasks[index], "reads", before)
                if late is not None:
                    yield Problem(late, by, "context", _find_item(by.context, graph.tasks[index]))


def _find_clashing_tools(graph: Graph) -> Iterator[Problem]:
    """Find names that stand among a task's tools and its agent's."""
    for node in graph.all_tasks:
        if node.agent is not None and node.task.tools:
            try:
                check_tools(node.task, (*node.agent.tools, *node.task.tools))
            except ValidationError as error:
                yield Problem(f"Task {node.name!r} with agent {node.role!r}: {error}", node.task, "tools")


def list_known_items(graph: Graph, values: Mapping[str, Any]) -> KnownItems:
    """List the items of the tasks whose source is no task; an input without a value, or yet to be read, is left out.

    Raises:
        ValidationError: inputs that are no lists, have too many items, or items without the fields that texts use.
    """
    found: dict[int, Items] = {}
    problems: list[Problem] = []
    for node in graph.tasks:
        source = node.task.for_each
        name = find_input_name(source) if isinstance(source, str) else None
        if isinstance(source, Items):
            found[node.index] = source
        elif name is not None and name in values and not isinstance(values[name], SourcedInput):
            try:
                items = list_items(values[name])
            except NoListError as error:
                message = f"Task {node.name!r} runs for each item of the input {name!r}, which {error}."
                problems.append(Problem(message, node.task, "for_each"))
                continue
            found[node.index] = items
            problems += find_item_problems(node, items)
    if problems:
        raise ValidationError(problems)
    return found


def find_item_problems(node: TaskNode, items: Items) -> Iterator[Problem]:
    """Find what is wrong with the items of a task that are known: too many, or a field that none of them has."""
    if (fault := find_excess(node, items)) is not None:
        yield Problem(f"{fault} Raise it, or give fewer.", node.task, "for_each")
    for field, path in _iterate_item_paths(node.task):
        faults = [_find_field_fault(each, path) for each in items]
        if faults and all(faults):
            message = f"Task {node.name!r} says {{item.{path}}}, and none of its items has that: {faults[0]}"
            yield Problem(message, node.task, field)


def _iterate_item_paths(task: Task) -> Iterator[tuple[str, str]]:
    """Iterate over the fields of items that the texts of a task speak of, each with the name of the text."""
    for field in ("prompt", "description", "expected_output"):
        yield from ((field, path) for path in dict.fromkeys(find_item_paths(getattr(task, field) or "")) if path)


def find_excess(node: TaskNode, items: Items) -> str | None:
    """A sentence that says that a task has too many items; None if it has not."""
    limit = node.task.max_items
    if len(items) <= limit:
        return None
    return f"Task {node.name!r} would run for {describe_count(len(items))}, and its max_items is {limit:,}."


def _find_field_fault(item: Any, path: str) -> str | None:
    try:
        find_part(item, path)
    except LookupError as error:
        return str(error)
    return None


def find_for_each_problems(graph: Graph) -> Iterator[Problem]:
    """Find sources that can give no items, fields that no item has, and reviewers that would run several times."""
    for node in graph.tasks:
        if isinstance(node.task.for_each, Items):
            yield from find_item_problems(node, node.task.for_each)
        elif node.item_source is not None:
            yield from _find_source_problems(node, graph.tasks[node.item_source])
    for phase in graph.phases:
        if phase.reviewer is not None and phase.reviewer.task.for_each is not None:
            message = f"The reviewer of phase {phase.name!r} has a for_each; a review is one answer. Leave it out."
            yield Problem(message, phase.reviewer.task, "for_each")


def _find_source_problems(node: TaskNode, source: TaskNode) -> Iterator[Problem]:
    output_type = source.task.output_type
    if output_type is None:
        return
    label = f"Task {node.name!r} runs for each item of {source.name!r}"
    if source.task.for_each is not None:  # its output is the list of what its items put out
        item_type = output_type
    else:
        fields = find_list_fields(output_type)
        if fields is None:
            return
        if len(fields) != 1:
            found = f"has the lists {', '.join(fields)}" if fields else "has no field that holds a list"
            message = f"{label}, whose output_type {found}: it must have exactly one."
            yield Problem(message, node.task, "for_each")
            return
        item_type = next(iter(fields.values()))
    for field, path in _iterate_item_paths(node.task):
        if (fault := find_field_fault(item_type, path, output_type)) is not None:
            message = f"{label} and says {{item.{path}}}: {fault.replace('its output type', 'an item', 1)}"
            yield Problem(message, node.task, field)


def find_item_warnings(graph: Graph) -> Iterator[str]:
    """Find texts that say the same for each item, and texts that speak of an item where there is none."""
    for node in graph.tasks:
        texts = (node.task.prompt,) if node.task.prompt else (node.task.description, node.task.expected_output)
        has_item = any(True for text in texts for _ in find_item_paths(text))
        if node.task.for_each is not None and node.agent is not None and not has_item:
            message = f"Task {node.name!r} runs for each item, and its texts say {{item}} nowhere"
            yield f"{message}: its agent is asked the same each time."
        elif node.task.for_each is None:
            paths = [path for text in texts for path in find_item_paths(text) if path]
            if paths and not any(name == "item" for text in texts for name in find_variables(text)):
                message = f"Task {node.name!r} says {{item.{paths[0]}}} and has no for_each, so it stays as it is."
                yield f"{message} Give it a for_each, and it runs for each item."


def find_prompt_problems(graph: Graph) -> Iterator[Problem]:
    """Find prompts without a place for what their task reads, and places for which it has nothing."""
    for node in graph.all_tasks:
        if node.task.prompt is None:
            continue
        reads = node.context
        if not reads and node.phase is not None and node.index >= len(graph.tasks):
            reads = graph.phases[node.phase].tasks  # as a reviewer does that names nothing
        for message in _find_place_faults(node, [graph.tasks[index].name for index in reads]):
            yield Problem(message, node.task, "prompt")


def _find_place_faults(node: TaskNode, reads: Sequence[str]) -> Iterator[str]:
    task, label = node.task, f"The prompt of task {node.name!r}"
    places = list(find_places(task.prompt or "", PROMPT_PLACES))
    names = {name for name, _ in places}
    read = {path for name, path in places if name == CONTEXT}
    there = f"It reads {', '.join(map(repr, reads))}." if reads else "It reads nothing."
    for path in sorted(read.difference(reads, {""})):
        yield f"{label} has {{context.{path}}}, and the task does not read {path!r}.{did_you_mean(path, reads)} {there}"
    if "" in read and not reads:
        yield f"{label} has {{context}}, and the task reads nothing. Say what in its context, or take it out."
    lost = [] if "" in read or read.difference(reads) else [name for name in reads if name not in read]
    if lost:
        shown = ", ".join(map(repr, lost))
        one = f"{{context}} or {{context.{lost[0]}}}"
        yield f"{label} has no place for what the task reads, {shown}: write {one} where that belongs."
    if "memory" in names and not task.memory:
        yield f"{label} has {{memory}}, and the task has none. Name its scopes in memory, or take it out."
    if "output_format" in names and task.output_type is None:
        yield f"{label} has {{output_format}}, and the task has no output_type. Give it one, or take it out."


def find_taken_inputs(ensemble: EnsembleDefinition, values: Iterable[str]) -> Iterator[Problem]:
    """Find inputs that are called like places of prompts, which would never get there.

    Args:
        ensemble: whose prompts they are.
        values: the names of the inputs of a run.
    """
    names = set(values)
    for name, owner in find_place_names(ensemble).items():
        if name in names:
            message = f"An input is called {name!r}, and {{{name}}} in {owner} stands for something else."
            yield Problem(f"{message} Call the input otherwise.", ensemble, "inputs", name)


# --- Names that people could not tell from each other -----------------------------------------------------------------


# Letters and marks that show as nothing, beside the characters of the categories below.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Co", "Cn"})
_SPACE: Final = re.compile(r"\s+")


def find_lookalike_names(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Tasks, phases and agents whose names differ in nothing that can be seen."""
    yield from _find_lookalikes("Task name", "name", ((node.name, node.task) for node in graph.tasks))
    yield from _find_lookalikes("Phase name", "name", ((phase.name, phase.phase) for phase in graph.phases))
    agents = dict.fromkeys([*ensemble.agents, *(node.task.agent for node in graph.tasks)])
    yield from _find_lookalikes("Agent role", "role", ((each.role, each) for each in agents if each is not None))


def _find_lookalikes(kind: str, field: str, names: Iterable[tuple[str, Any]]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, owner in names:
        other = seen.setdefault(make_visible(name), name)
        if other != name:
            message = f"{kind} {name!a} differs from {other!a} only in characters that nobody can see."
            yield Problem(f"{message} Give one of them another name.", owner, field)


def make_visible(name: str) -> str:
    """Make a name of what can be seen of it, on one line."""
    if name.isascii() and name.isprintable():
        return " ".join(name.split())
    text = unicodedata.normalize("NFC", mend_text(name))
    kept = (
        each for each in text if (each not in _BLANK and unicodedata.category(each) not in _INVISIBLE) or each.isspace()
    )
    return _SPACE.sub(" ", "".join(kept)).strip()


# --- The rules of tasks that an ensemble does: it can run by itself, and gets what it needs ---------------------------


def find_nested_problems(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """Find what keeps the ensembles inside one from doing its tasks."""
    for node in graph.all_tasks:
        if node.task.ensemble is None:
            continue
        if (path := find_path_too_deep(node)) is not None:
            yield Problem(describe_too_deep((describe_ensemble(ensemble), *path)), node.task, "ensemble")
        else:
            try:
                check_ensemble(cast("Any", node.task.ensemble))
            except ValidationError as error:
                for problem in error.problems:
                    yield Problem(f"The ensemble of task {node.name!r}: {problem.message}", node.task, "ensemble")
        yield from _find_input_problems(node)


def check_inner_variables(ensemble: EnsembleDefinition) -> None:
    """Check that each ensemble that does a task gets a value for all that its texts use.

    Raises:
        PromptTemplateError: names what is missing.
    """
    for task, lacking in find_lacking_inside(ensemble):
        owner = repr(task.name or task.description)
        advice = f"The text stands in the ensemble of task {owner}, which gives it no value: add one to its inputs."
        raise PromptTemplateError(tuple(lacking), next(iter(lacking.values())), advice)


def _find_input_problems(node: TaskNode) -> Iterator[Problem]:
    inner: Any = node.task.ensemble
    if node.task.reads_context_as_input and not node.context:
        message = f"Task {node.name!r} gives its ensemble {{context}}, and reads nothing. Say what in its context."
        yield Problem(message, node.task, "inputs")
    if has_handlers(inner):
        return
    wanted = find_texts_by_variable(inner)
    for name in node.task.inputs:
        if name not in wanted:
            lacking = find_lacking(inner, node.task.inputs)
            hint = did_you_mean(name, lacking or wanted)
            uses = f" It uses {', '.join(wanted)}." if wanted else " It uses none."
            message = f"The ensemble of task {node.name!r} has no text that uses the input {name!r}.{hint}{uses}"
            yield Problem(message, node.task, "inputs", name)
