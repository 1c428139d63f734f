"""Writes an ensemble as a cell: the inverse of `ensemble_builder`. Reading the cell gives an equal ensemble (C32).

This module writes tasks, phases, agents and the references between them; `value_writer` writes single values.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.object_names import ObjectNames, find_names
from ensemble_notebook.cell.reading.mistakes import suggest_name
from ensemble_notebook.cell.reading.values import is_name
from ensemble_notebook.cell.vocabulary import AGENT, CELL, PHASE, TASK, ValueKind
from ensemble_notebook.cell.writing.value_writer import SectionWriter, Spot, ValueWriter, write_names
from ensemble_notebook.cell.writing.yaml_text import Block, BlockList, write_yaml
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition, write_pattern
from ensemble_notebook.domain.definitions.delegation import normalize_role
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.limits import get_currency
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import find_input_name, find_variables
from ensemble_notebook.domain.outputs.secrets import has_secret
from ensemble_notebook.domain.planning.delegation import list_agents
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.ensemble_texts import find_texts_by_variable
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, build_graph, make_role_slug
from ensemble_notebook.errors import Problem, ValidationError

_FIRST: Final = ("name", "llm", "workflow")
_MEMBERS: Final = ("agents", "tasks", "phases")
_LONGEST_KEY: Final = 80


def write_cell(ensemble: EnsembleDefinition, namespace: Mapping[str, Any] | None = None) -> str:
    """Write the body of a cell that is read as an equal ensemble.

    Args:
        ensemble: a valid one.
        namespace: the notebook's variables, by which objects are named; None for those that its cell was read with.
            Where there are none, functions and classes are written by their own names.

    Raises:
        ValidationError: the ensemble can't run, or holds something that a cell can't express: an object without a name,
            a key, an input that is not plain data. Names the place, and the remedy.
    """
    text = write_yaml(CellWriter(ensemble, find_names(ensemble) if namespace is None else namespace).write())
    if has_secret(text):
        raise ValidationError("This ensemble holds what looks like a key, and keys never stand in a cell.")
    return text


class CellWriter:
    """Writes one ensemble.

    Attributes:
        writers: how each kind of value is written.
    """

    def __init__(self, ensemble: EnsembleDefinition, namespace: Mapping[str, Any] | None) -> None:
        check_ensemble(ensemble)
        self._ensemble = ensemble
        self._graph = build_graph(ensemble)
        self._nodes = {id(node.task): node for node in self._graph.tasks}
        self._phases = {id(node.phase): node for node in self._graph.phases}
        self._agents = list_agents(ensemble, self._graph)
        self._keys = _choose_agent_keys(self._agents)
        self._local_names = _choose_local_names(self._graph)
        self._referenced = _find_referenced(self._graph)
        self._names = ObjectNames(namespace)
        currency = get_currency(ensemble.cost)
        self._values = values = SectionWriter(self._names, currency)
        self.writers: Mapping[ValueKind, ValueWriter] = {
            **values.writers,
            ValueKind.NAMES: lambda _, spot: write_names(
                [self._graph.phases[each].name for each in self._phases[id(spot.owner)].after], spot
            ),
            ValueKind.AGENT: self._write_worker,
            ValueKind.WORKER: self._write_worker,
            ValueKind.WHEN: self._write_conditions,
            ValueKind.PHASE_REVIEW: self._write_phase_review,
            ValueKind.REVIEWER: self._write_reviewer,
            ValueKind.INPUTS: self._write_inputs,
            ValueKind.ITEM_SOURCE: self._write_item_source,
            ValueKind.ROLES: lambda value, spot: write_names([self._write_role(role) for role in value], spot),
            ValueKind.CAPS: lambda value, _: {self._write_role(role): number for role, number in value.items()},
            ValueKind.STAGES: lambda value, _: [[self._write_role(role) for role in stage] for stage in value],
        }
        values.writers = self.writers

    def write(self) -> dict[str, Any] | list[Any]:
        """The whole cell as data."""
        ensemble = self._ensemble
        found = self._values.write_section(ensemble, CELL, "the ensemble", (*_MEMBERS, "workflow"))
        if "inputs" in found and not found["inputs"]:
            del found["inputs"]
        found = _group_keys(found)
        agents = Block({})
        for agent in self._agents:
            key = self._keys[id(agent)]
            fields = self._values.write_section(agent, AGENT, f"agent {agent.role!r}", ("role",))
            agents[key] = fields if key == agent.role else {"role": agent.role, **fields}
        if ensemble.phases:
            members: dict[str, Any] = {"phases": Block(map(self._write_phase, ensemble.phases))}
            is_given = ensemble.workflow is not Workflow.SEQUENTIAL
        else:
            tasks, is_given = self._write_group(self._graph.tasks, ensemble.workflow, None)
            members = {"tasks": tasks}
        if is_given:
            found["workflow"] = ensemble.workflow.value
        if agents:
            members = {"agents": agents, **members}
        found = {name: found.pop(name) for name in _FIRST if name in found} | found | members
        is_list = list(found) == ["tasks"] and isinstance(found["tasks"], list)
        return found["tasks"] if is_list else Block(found)

    # members

    def _write_phase(self, phase: Phase) -> tuple[str, Any]:
        node = self._phases[id(phase)]
        label = f"phase {phase.name!r}"
        given = self._ensemble.workflow if self._ensemble.workflow is not Workflow.SEQUENTIAL else None
        tasks, is_given = self._write_group([self._graph.tasks[each] for each in node.tasks], node.workflow, given)
        fields = self._values.write_section(phase, PHASE, label, ("name", "tasks", "workflow"))
        if is_given:
            fields["workflow"] = node.workflow.value
        is_clear = isinstance(tasks, list) or not tasks.keys() & {*vocabulary.PHASE_KEYS, "review"}
        if not fields and is_clear:
            return phase.name, tasks
        return phase.name, Block({**fields, "tasks": tasks})

    def _write_group(self, nodes: Sequence[TaskNode], workflow: Workflow, given: Workflow | None) -> tuple[Any, bool]:
        """Write the tasks of a cell or phase as a list or a mapping, and whether the workflow has to be said.

        Args:
            nodes: the tasks.
            workflow: how they follow each other.
            given: the workflow that the cell names for all groups, if it does.
        """
        chained = [() if not place else (nodes[place - 1].index,) for place in range(len(nodes))]
        is_sequential = workflow is Workflow.SEQUENTIAL
        is_list = not all(map(self._has_name, nodes))
        if is_sequential and not is_list:
            own = sum(node.context != default for node, default in zip(nodes, chained, strict=True))
            is_list = own <= 1 + sum(bool(node.context) for node in nodes)
        natural = Workflow.SEQUENTIAL if is_list else Workflow.PARALLEL
        if not is_list:
            return Block({self._local_names[node.index]: self._write_task(node, ()) for node in nodes}), (
                workflow is not (given or natural)
            )
        defaults = chained if is_sequential else [()] * len(nodes)
        return BlockList(map(self._write_item, nodes, defaults)), workflow is not (given or natural)

    def _write_item(self, node: TaskNode, default: tuple[int, ...]) -> Any:
        """Write a task of a list. It has a name where somebody needs it."""
        name = self._local_names[node.index]
        written = self._write_task(node, default)
        if not self._has_name(node):
            return written
        if name != name.strip():
            message = f"The task name {name!r} begins or ends with a space, which a list in a cell would lose."
            raise ValidationError(Problem(message, node.task, "name"))
        return {"name": name, **(written if isinstance(written, dict) else {"description": written})}

    def _has_name(self, node: TaskNode) -> bool:
        """Whether a task is written with its name: it was given one, or others refer to it."""
        return node.task.name is not None or node.index in self._referenced

    def _write_task(self, node: TaskNode, default: tuple[int, ...]) -> Any:
        """Write a task without its name; `default` is what it reads where it does not say so."""
        fields = self._values.write_section(node.task, TASK, f"task {node.name!r}", ("name", "context"))
        if fields.get("description") == f"Run the ensemble {fields.get('ensemble')}":
            del fields["description"]
        if node.context != tuple(each for each in default if each != node.item_source):
            names = [self._graph.tasks[each].name for each in node.context]
            spot = Spot(f"task {node.task.name or ''}".strip(), node.task, TASK.keys["context"])
            fields = _insert(fields, "context", write_names(names, spot))
        is_short = fields.keys() == {"description"} and self._local_names.get(node.index) not in vocabulary.WORDS
        return fields["description"] if is_short else fields

    # references

    def _write_worker(self, agent: Agent, spot: Spot) -> Any:
        """Write the key of an agent, or the agent itself where it does not stand under `agents`."""
        if id(agent) in self._keys:
            return self._keys[id(agent)]
        return self._values.write_section(agent, AGENT, f"{spot.key.name} of {spot.label}")

    def _write_item_source(self, value: Any, spot: Spot) -> Any:
        """Write whose items a task runs for: a task, an input, a variable, or the items themselves."""
        source = self._nodes[id(spot.owner)].item_source
        if source is not None:
            name = self._graph.tasks[source].name
            if find_input_name(name) is not None:
                raise spot.refuse(f"The {spot.shown} is the task {name!r}, which reads as an input. Rename it.")
            if self._names.get_value(name) is not None:
                message = f"The {spot.shown} is the task {name!r}, and there is a variable of this name, too."
                raise spot.refuse(f"{message} Rename one of them.")
            return name
        if isinstance(value, str):
            return value
        return self._names.find_items(value) or self._values.write_data(list(value), spot)

    def _write_conditions(self, _: Sequence[Condition], spot: Spot) -> Any:
        node = self._nodes.get(id(spot.owner)) or self._phases[id(spot.owner)]
        found = [self._graph.conditions[each] for each in getattr(node, spot.key.name)]
        written = [{self._graph.tasks[each.source].name: self._write_test(each.condition, spot)} for each in found]
        return written[0] if len(written) == 1 else written

    def _write_test(self, condition: Condition, spot: Spot) -> Any:
        fields = self._values.write_section(condition, vocabulary.CONDITION, f"{spot.key.name} of {spot.label}")
        if condition.matches is not None:
            fields["matches"] = write_pattern(condition.matches)
        equals = fields.get("equals")
        if fields == {"default": True}:
            return "default"
        if fields.keys() == {"equals"} and isinstance(equals, str) and not suggest_name(equals, ["default"]):
            return equals if equals != "default" else fields
        return fields

    # reviews of phases

    def _write_phase_review(self, review: PhaseReview, spot: Spot) -> Any:
        fields = self._values.write_section(review, vocabulary.PHASE_REVIEW, f"review of {spot.label}")
        by = fields["by"]
        is_short = fields.keys() == {"by"} and not (isinstance(by, dict) and by.keys() & vocabulary.PHASE_REVIEW.keys)
        return by if is_short else fields

    def _write_reviewer(self, by: Any, spot: Spot) -> Any:
        """Write the name of a function, or a task with all that it has; a text alone is what is to be looked at."""
        if not isinstance(by, Task):
            return self._names.find(by, spot.shown, spot.owner, spot.key.name)
        node = next(each for each in self._graph.phases if each.phase.review is spot.owner).reviewer
        fields = self._values.write_section(by, TASK, spot.label, ("context",))
        if node is not None and node.context:
            names = [self._graph.tasks[each].name for each in node.context]
            fields = _insert(fields, "context", write_names(names, spot))
        text = fields.get("description", "")
        return text if fields.keys() == {"description"} and text == text.strip() and not is_name(text) else fields

    # inputs

    def _write_inputs(self, value: Mapping[str, Any], spot: Spot) -> dict[str, Any]:
        """Write the values that are data. Others are those of the notebook's variables, and are found there."""
        if spot.owner is not self._ensemble:
            return {name: self._values.write_data(each, spot) for name, each in value.items()}
        written = {}
        used = find_texts_by_variable(self._ensemble)
        for name, each in value.items():
            if name in used and each is self._names.get_value(name) and not _is_data(each):
                continue
            if not _is_data(each):
                message = f"The input {name!r} is an object of type {type(each).__name__}, and a cell holds data."
                hint = f"Bind it to the variable {name}, and give the namespace that has it."
                raise spot.refuse(f"{message} {hint if name in used else 'Give it to each run.'}")
            written[name] = self._values.write_data(each, spot)
        return written

    # constraints

    def _write_role(self, role: str) -> str:
        """Write the key of the agent of a role; a role that is nobody's key stays as it is."""
        exact = next((agent for agent in self._agents if agent.role.strip() == role), None)
        if exact is not None:
            return self._keys[id(exact)]
        if role not in self._keys.values():
            return role
        same = next((agent for agent in self._agents if normalize_role(agent.role) == normalize_role(role)), None)
        return role if same is None else self._keys[id(same)]


def _insert(fields: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Put a key behind those that begin a task."""
    first = ("name", "description", "expected_output", "prompt", "agent")
    return {each: fields[each] for each in first if each in fields} | {name: value} | fields


def _group_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """Put the keys that have a word in common under that word."""
    for word, key_group in CELL.key_groups.items():
        given = {short: fields.pop(name) for short, name in key_group.fields.items() if name in fields}
        if given.keys() == {key_group.lead} and not isinstance(given[key_group.lead], dict):
            fields[word] = given[key_group.lead]
        elif given:
            fields[word] = given
    return fields


def _choose_agent_keys(agents: Sequence[Agent]) -> dict[int, str]:
    """Choose the key of each agent: its role, where that can be a key and no other agent has it."""
    roles = [agent.role for agent in agents]
    taken = {role for role in roles if _may_be_key(role)}
    keys: dict[int, str] = {}
    for agent in agents:
        key = agent.role
        if not _may_be_key(key) or key in keys.values():
            stem = make_role_slug(key)[:_LONGEST_KEY]
            numbered = (f"{stem}_{number}" for number in itertools.count(2))
            key = next(each for each in itertools.chain([stem], numbered) if each not in taken)
            taken.add(key)
        keys[id(agent)] = key
    return keys


def _may_be_key(role: str) -> bool:
    return role.isprintable() and len(role) <= _LONGEST_KEY and not any(find_variables(role))


def _choose_local_names(graph: Graph) -> dict[int, str]:
    """Choose what each task is called in its group: without its phase, where other phases have one of that name, too.

    Such tasks are called ``phase.task`` in the ensemble, and by the second part in the cell.
    """
    by_name = defaultdict(list)
    for node in graph.tasks:
        phase = graph.get_phase_name(node)
        local = node.name.removeprefix(f"{phase}.") if phase is not None else node.name
        by_name[local].append(node)
    found: dict[int, str] = {}
    for local, nodes in by_name.items():
        is_repeated = len(nodes) > 1 and all(node.name != local for node in nodes)
        found |= {node.index: local if is_repeated else node.name for node in nodes}
    return found


def _find_referenced(graph: Graph) -> set[int]:
    """Find the tasks that others name: what they read beside the task above them, or have conditions on."""
    phases = [phase.reviewer for phase in graph.phases if phase.reviewer is not None]
    found = {index for node in phases for index in node.context}
    found |= {condition.source for condition in graph.conditions}
    for node in graph.tasks:
        above: tuple[int, ...] = () if node.after is None else (node.after,)
        above = tuple(each for each in above if each != node.item_source)
        if not node.is_chained or node.context != above:
            found.update(node.context)
        if node.item_source is not None:
            found.add(node.item_source)
    return found


def _is_data(value: Any) -> bool:
    if type(value) is list:
        return all(map(_is_data, value))
    if isinstance(value, Mapping):
        return type(value) is dict and all(type(name) is str and _is_data(each) for name, each in value.items())
    return type(value) in (str, int, float, bool, type(None))
