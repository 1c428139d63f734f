"""Writes an ensemble as a cell: the inverse of `ensemble_builder`. Reading the cell gives an equal ensemble (C32).

Every kind of value has a writer; a test checks that.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from dataclasses import fields as fields_of
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.object_names import ObjectNames, find_names
from ensemble_notebook.cell.reading.inline_types import read_inline_type
from ensemble_notebook.cell.reading.mistakes import CellError, MistakeReport, suggest_name
from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.values import is_name
from ensemble_notebook.cell.reading.yaml_nodes import MappingNode
from ensemble_notebook.cell.reading.yaml_tree import read_tree
from ensemble_notebook.cell.vocabulary import AGENT, CELL, OTEL, PHASE, TASK, Key, SectionSchema, ValueKind
from ensemble_notebook.cell.writing.yaml_text import Block, BlockList, Digits, write_flow, write_yaml
from ensemble_notebook.domain.definitions.agent import Agent, get_core_llm
from ensemble_notebook.domain.definitions.amounts import AmountError, read_budget, read_rate
from ensemble_notebook.domain.definitions.condition import Condition, write_pattern
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.delegation import normalize_role
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.limits import COST, Budget, RateLimit, find_rates, get_currency
from ensemble_notebook.domain.definitions.memory import STORE_ENDINGS
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import TextOfPrompt, find_input_name, find_variables
from ensemble_notebook.domain.definitions.tool import BEFORE, Tool
from ensemble_notebook.domain.outputs.secrets import has_secret
from ensemble_notebook.domain.planning.delegation import list_agents
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.ensemble_texts import find_texts_by_variable
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, build_graph, make_role_slug
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.models.model_kinds import list_bare_words

_FIRST: Final = ("name", "llm", "workflow")
_MEMBERS: Final = ("agents", "tasks", "phases")
_LONGEST_KEY: Final = 80
_UNITS: Final = {1.0: "s", 60.0: "min", 3600.0: "h", 86400.0: "day"}
_SIGNS: Final = {"USD": "$", "EUR": "€", "GBP": "£"}
_SCALARS: Final = (str, int, float, bool, type(None))
_LONGEST_NUMBER: Final = 30


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


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value stands: the label of its section, the definition, and the key."""

    label: str
    owner: Definition
    key: Key

    @property
    def shown(self) -> str:
        """In words: ``handler of task 'gather'``."""
        return f"{self.key.name} of {self.label}"

    def refuse(self, message: str) -> ValidationError:
        """Make the error of a value that can't be written."""
        return ValidationError(Problem(message, self.owner, self.key.name))


ValueWriter = Callable[[Any, Spot], Any]


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
        self._names, self._currency = ObjectNames(namespace), get_currency(ensemble.cost)
        self._limits: dict[int, str] = {}
        self.writers: Mapping[ValueKind, ValueWriter] = {
            **dict.fromkeys((ValueKind.TEXT, ValueKind.SCALAR), self._write_text),
            **dict.fromkeys(
                (ValueKind.FLAG, ValueKind.NUMBER, ValueKind.WHOLE, ValueKind.SHARE), lambda value, _: value
            ),
            ValueKind.SECONDS: lambda value, _: int(value) if value == int(value) else value,
            ValueKind.CHOICE: lambda value, _: str(value.value if isinstance(value, Enum) else value),
            **dict.fromkeys((ValueKind.TEXTS, ValueKind.EXTRAS), self._write_data),
            **dict.fromkeys(vocabulary.MONEY, _write_decimal),
            **dict.fromkeys((ValueKind.OBJECT, ValueKind.PROMPT, ValueKind.DEPS, ValueKind.ENSEMBLE), self._name),
            **dict.fromkeys(
                (ValueKind.OBJECTS, ValueKind.FUNCTIONS),
                lambda value, spot: _write_names([self._name(each, spot) for each in value], spot),
            ),
            ValueKind.TOOLS: self._write_tools,
            ValueKind.MODEL: self._write_model,
            ValueKind.OUTPUT_TYPE: self._write_output_type,
            **dict.fromkeys(vocabulary.PARTS, self._write_part),
            ValueKind.RATE: self._write_rate,
            ValueKind.BUDGET: self._write_budget,
            ValueKind.REVIEW: self._write_reviews,
            ValueKind.MEMORIES: lambda value, spot: _write_names([_check_text(each, spot) for each in value], spot),
            ValueKind.STORE: self._write_store,
            ValueKind.EXPORTER: self._write_exporter,
            ValueKind.NAMES: lambda _, spot: _write_names(
                [self._graph.phases[each].name for each in self._phases[id(spot.owner)].after], spot
            ),
            **dict.fromkeys((ValueKind.AGENT, ValueKind.WORKER), self._write_worker),
            ValueKind.WHEN: self._write_conditions,
            ValueKind.PHASE_REVIEW: self._write_phase_review,
            ValueKind.REVIEWER: self._write_reviewer,
            ValueKind.INPUTS: self._write_inputs,
            ValueKind.ITEM_SOURCE: self._write_item_source,
            ValueKind.ROLES: lambda value, spot: _write_names([self._write_role(role) for role in value], spot),
            ValueKind.CAPS: lambda value, _: {self._write_role(role): number for role, number in value.items()},
            ValueKind.STAGES: lambda value, _: [[self._write_role(role) for role in stage] for stage in value],
        }

    def write(self) -> dict[str, Any] | list[Any]:
        """The whole cell as data."""
        ensemble = self._ensemble
        found = self._write_section(ensemble, CELL, "the ensemble", (*_MEMBERS, "workflow"))
        if "inputs" in found and not found["inputs"]:
            del found["inputs"]
        for word, key_group in CELL.key_groups.items():  # keys that have a word in common stand under that word
            given = {short: found.pop(name) for short, name in key_group.fields.items() if name in found}
            if given.keys() == {key_group.lead} and not isinstance(given[key_group.lead], dict):
                found[word] = given[key_group.lead]
            elif given:
                found[word] = given
        agents = Block({})
        for agent in self._agents:
            key = self._keys[id(agent)]
            fields = self._write_section(agent, AGENT, f"agent {agent.role!r}", ("role",))
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

    def _write_section(
        self, definition: Definition, schema: SectionSchema, label: str, leave_out: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Write the fields of a definition that differ from their defaults, each under its shortest word."""
        short = {name: word for word, name in schema.short_words.items()}
        found: dict[str, Any] = {}
        for key, value in list_written(definition, schema):
            if key.name not in leave_out:
                write, spot = self.writers[key.kind], Spot(label, definition, key)
                found[short.get(key.name, key.name)] = None if value is None else write(value, spot)
        return found

    # members

    def _write_phase(self, phase: Phase) -> tuple[str, Any]:
        node = self._phases[id(phase)]
        label = f"phase {phase.name!r}"
        given = self._ensemble.workflow if self._ensemble.workflow is not Workflow.SEQUENTIAL else None
        tasks, is_given = self._write_group([self._graph.tasks[each] for each in node.tasks], node.workflow, given)
        fields = self._write_section(phase, PHASE, label, ("name", "tasks", "workflow"))
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
        is_given = workflow is not (given or natural)
        if not is_list:
            return Block({self._local_names[node.index]: self._write_task(node, ()) for node in nodes}), is_given
        defaults = chained if is_sequential else [()] * len(nodes)
        return BlockList(map(self._write_item, nodes, defaults)), is_given

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
        fields = self._write_section(node.task, TASK, f"task {node.name!r}", ("name", "context"))
        if fields.get("description") == f"Run the ensemble {fields.get('ensemble')}":
            del fields["description"]
        if node.context != tuple(each for each in default if each != node.item_source):
            spot = Spot(f"task {node.task.name or ''}".strip(), node.task, TASK.keys["context"])
            fields = self._add_context(fields, node, spot)
        is_short = fields.keys() == {"description"} and self._local_names.get(node.index) not in vocabulary.WORDS
        return fields["description"] if is_short else fields

    def _add_context(self, fields: dict[str, Any], node: TaskNode, spot: Spot) -> dict[str, Any]:
        """Put what a task reads behind the keys that begin it."""
        names = [self._graph.tasks[each].name for each in node.context]
        first = ("name", "description", "expected_output", "prompt", "agent")
        begun = {each: fields[each] for each in first if each in fields}
        return begun | {"context": _write_names(names, spot)} | fields

    # references

    def _write_worker(self, agent: Agent, spot: Spot) -> Any:
        """Write the key of an agent, or the agent itself where it does not stand under `agents`."""
        if id(agent) in self._keys:
            return self._keys[id(agent)]
        return self._write_section(agent, AGENT, f"{spot.key.name} of {spot.label}")

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
        return self._names.find_items(value) or self._write_data(list(value), spot)

    def _write_conditions(self, _: Sequence[Condition], spot: Spot) -> Any:
        node = self._nodes.get(id(spot.owner)) or self._phases[id(spot.owner)]
        found = [self._graph.conditions[each] for each in getattr(node, spot.key.name)]
        written = [{self._graph.tasks[each.source].name: self._write_test(each.condition, spot)} for each in found]
        return written[0] if len(written) == 1 else written

    def _write_test(self, condition: Condition, spot: Spot) -> Any:
        fields = self._write_section(condition, vocabulary.CONDITION, f"{spot.key.name} of {spot.label}")
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
        fields = self._write_section(review, vocabulary.PHASE_REVIEW, f"review of {spot.label}")
        by = fields["by"]
        is_short = fields.keys() == {"by"} and not (isinstance(by, dict) and by.keys() & vocabulary.PHASE_REVIEW.keys)
        return by if is_short else fields

    def _write_reviewer(self, by: Any, spot: Spot) -> Any:
        """Write the name of a function, or a task with all that it has; a text alone is what is to be looked at."""
        if not isinstance(by, Task):
            return self._names.find(by, spot.shown, spot.owner, spot.key.name)
        node = next(each for each in self._graph.phases if each.phase.review is spot.owner).reviewer
        fields = self._write_section(by, TASK, spot.label, ("context",))
        if node is not None and node.context:
            fields = self._add_context(fields, node, spot)
        text = fields.get("description", "")
        return text if fields.keys() == {"description"} and text == text.strip() and not is_name(text) else fields

    # inputs

    def _write_inputs(self, value: Mapping[str, Any], spot: Spot) -> dict[str, Any]:
        """Write the values that are data. Others are those of the notebook's variables, and are found there."""
        if spot.owner is not self._ensemble:
            return {name: self._write_data(each, spot) for name, each in value.items()}
        written = {}
        used = find_texts_by_variable(self._ensemble)
        for name, each in value.items():
            if name in used and each is self._names.get_value(name) and not _is_data(each):
                continue
            if not _is_data(each):
                message = f"The input {name!r} is an object of type {type(each).__name__}, and a cell holds data."
                hint = f"Bind it to the variable {name}, and give the namespace that has it."
                raise spot.refuse(f"{message} {hint if name in used else 'Give it to each run.'}")
            written[name] = self._write_data(each, spot)
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

    # plain values

    def _write_text(self, value: Any, spot: Spot) -> Any:
        text = value.pattern if hasattr(value, "pattern") else value
        return _check_text(text, spot) if isinstance(text, str) else text

    def _write_data(self, value: Any, spot: Spot) -> Any:
        """Write texts, numbers, flags, lists and mappings as they are.

        Raises:
            ValidationError: something else is in it.
        """
        if isinstance(value, Mapping) and all(type(name) is str for name in value):
            return {name: self._write_data(each, spot) for name, each in value.items()}
        if type(value) is list:
            return [self._write_data(each, spot) for each in value]
        if type(value) not in _SCALARS:
            message = f"The {spot.shown} holds an object of type {type(value).__name__}, and a cell holds data."
            raise spot.refuse(message)
        return _check_text(value, spot) if isinstance(value, str) else value

    # objects of the notebook

    def _name(self, value: Any, spot: Spot) -> str:
        return self._names.find(value, spot.shown, spot.owner, spot.key.name)

    def _write_tools(self, value: Sequence[Any], spot: Spot) -> Any:
        """Write tools by their names; those without one may be the items of a list that has one."""
        written = [name or self._write_tool(tool, spot) for tool, name in self._names.list_tools(value)]
        names = [each for each in written if isinstance(each, str)]
        return _write_names(names, spot) if len(names) == len(written) else written

    def _write_tool(self, tool: Any, spot: Spot) -> Any:
        """Write a tool by its name; one that is reviewed by its keys, where no variable holds it so."""
        is_bare = isinstance(tool, Tool) and tool.review == BEFORE and self._names.look_up(tool) is None
        return self._write_part(tool, spot) if is_bare else self._name(tool, spot)

    def _write_model(self, value: Any, spot: Spot) -> Any:
        if isinstance(value, str):
            return _check_text(value, spot)
        if isinstance(value, Mapping):
            core = get_core_llm(value)
            if core is not value and self._names.look_up(core) is None and (name := self._names.look_up(value)):
                return name
            keys = vocabulary.MODEL.keys
            if unknown := [name for name in value if name not in keys]:
                raise spot.refuse(f"The {spot.shown} has {unknown[0]!r}, which a model in a cell has not.")
            plain = {name: each for name, each in value.items() if name not in ("model", COST)}
            rates = find_rates(value, None)
            priced = {} if rates is None else {COST: self._write_part(rates, spot)}
            return {"model": self._write_model(value["model"], spot), **self._write_data(plain, spot), **priced}
        name = self._name(value, spot)
        if name in list_bare_words():
            message = f"The {spot.shown} is in a variable {name!r}, and in a cell that word is a model of its own."
            raise spot.refuse(f"{message} Bind it to another name.")
        return name

    def _write_output_type(self, value: Any, spot: Spot) -> Any:
        if not isinstance(value, Mapping):
            return self._name(value, spot)
        if (name := self._names.look_up(value)) is not None:
            return name
        written = _write_output_form(value)
        if written is None:
            message = f"The {spot.shown} is a JSON schema that a cell would not take as it is."
            raise spot.refuse(f"{message} Bind it to a variable, and give the namespace that has it.")
        return written

    # parts with keys of their own

    def _write_part(self, value: Definition, spot: Spot) -> dict[str, Any]:
        schema = next(each for each in vocabulary.SCHEMAS if each.definition is type(value))
        return self._write_section(value, schema, f"{spot.key.name} of {spot.label}")

    def _write_rate(self, value: RateLimit, spot: Spot) -> Any:
        if (name := self._name_limit(value, spot)) is not None:
            return name
        written = self._write_part(value, spot)
        text = f"{value.requests}/{_UNITS.get(value.period)}"
        try:
            is_short = "wait_timeout" not in written and read_rate(text) == {
                "requests": value.requests,
                "period": value.period,
            }
        except AmountError:
            return written
        return text if is_short else written

    def _write_budget(self, value: Budget, spot: Spot) -> Any:
        if (name := self._name_limit(value, spot)) is not None:
            return name
        if value.is_shared:
            message = f"The {spot.shown} is shared with other runs, so a cell has to name its variable."
            raise spot.refuse(f"{message} Bind it to one, and give the namespace that has it.")
        written = self._write_part(value, spot)
        if written.keys() - value.limits.keys():
            return written
        text = ", ".join(self._write_limit(name, limit) for name, limit in value.limits.items())
        try:
            found = read_budget(text)
        except AmountError:
            return written
        limits = {name: Decimal(found[name]) if name in found else None for name in value.limits}
        is_same = limits == {name: Decimal(limit) for name, limit in value.limits.items()}
        return text if is_same and found.get("currency", self._currency) == self._currency else written

    def _write_limit(self, name: str, limit: Decimal | int) -> str:
        if name == "max_cost":
            sign = _SIGNS.get(self._currency)
            return f"{sign}{limit:f}" if sign else f"{limit:f} {self._currency}"
        count = f"{int(limit) // 1000}k" if int(limit) % 1000 == 0 else str(limit)
        return f"{count} {'tokens' if name == 'max_tokens' else 'calls'}"

    def _name_limit(self, value: RateLimit | Budget, spot: Spot) -> str | None:
        """Find the variable of a limit. One that several hold is one for all of them, so it needs one."""
        name = self._names.look_up(value)
        if name is None and (first := self._limits.get(id(value))) is not None:
            message = f"The {spot.shown} is the same object as the {first}, and in a cell they would be two."
            raise spot.refuse(f"{message} Bind it to a variable, and give the namespace that has it.")
        self._limits[id(value)] = spot.shown
        return name

    def _write_reviews(self, value: Sequence[Review], spot: Spot) -> Any:
        gates = [self._write_part(each, spot) for each in value]
        short = [
            gate if gate.keys() - {"timing"} else each.timing.value for gate, each in zip(gates, value, strict=True)
        ]
        return short[0] if len(short) == 1 else short

    # files

    def _write_store(self, value: Any, spot: Spot) -> Any:
        from ensemble_notebook.memory.full_text_store import InMemoryStore, Retention, SqliteMemory

        if self._names.look_up(value) is None and getattr(value, "retention", None) == Retention():
            if type(value) is SqliteMemory:
                here = Path.cwd()
                text = (value.path.relative_to(here) if value.path.is_relative_to(here) else value.path).as_posix()
                return text if "/" in text or text.endswith(STORE_ENDINGS) else f"./{text}"
            if type(value) is InMemoryStore:
                return True
        return self._name(value, spot)

    def _write_exporter(self, value: Any, spot: Spot) -> str:
        from ensemble_notebook.interop.otel_exporter import OtelExporter
        from ensemble_notebook.trace.exporters import JsonTraceExporter

        if type(value) is OtelExporter and (value.tracer_provider, value.content) == (None, None):
            return OTEL
        if type(value) is JsonTraceExporter and self._names.look_up(value) is None:
            return str(value.path) if value.path.suffix == ".json" else f"{value.path}/"
        return self._name(value, spot)


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
    return type(value) in _SCALARS


def _write_names(names: list[str], spot: Spot) -> Any:
    """Write names: a single one stands alone.

    Raises:
        ValidationError: one stands twice, which a cell does not take.
    """
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise spot.refuse(f"The {spot.shown} has {repeated!r} twice, and a cell takes it once.")
    return names[0] if len(names) == 1 and "," not in names[0] else names


def _check_text(text: str, spot: Spot) -> str:
    """Give back a text; refuse what can't stand in a cell.

    Raises:
        ValidationError: the text holds a key, or half of a character.
    """
    if has_secret(text):
        message = f"The {spot.shown} holds what looks like a key, and keys never stand in a cell."
        raise spot.refuse(f"{message} Put it into an environment variable.")
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise spot.refuse(f"The {spot.shown} holds half of a character (a lone surrogate), which no cell can hold.")
    return text


def _write_decimal(value: Decimal, _: Spot) -> Digits:
    text = f"{value:f}"
    return Digits(text if len(text) <= _LONGEST_NUMBER else str(value))


# The written form is read back and used only if it gives the same schema.

_NAMES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
_OBJECT: Final = {"type", "properties", "required", "additionalProperties"}


def _write_output_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write a JSON schema as a cell has it; None where a cell can't say it."""
    for written in (_write_fields(schema), _to_plain(schema)):
        if isinstance(written, dict) and _read(written) == _order(_to_plain(schema)):
            return written
    return None


def _read(written: dict[str, Any]) -> Any:
    """What a cell would read, in its order; None where it would not read it."""
    report = MistakeReport(SourceText(write_flow(written)))
    try:
        with report:
            node = read_tree(report)
            found = read_inline_type(node, "it", report) if isinstance(node, MappingNode) else None
    except CellError:
        return None
    return _order(found)


def _order(schema: Any) -> Any:
    """The same with the order of mappings in it, which models see."""
    if isinstance(schema, Mapping):
        return [(name, _order(each)) for name, each in schema.items()]
    return [_order(each) for each in schema] if isinstance(schema, list) else (type(schema), schema)


def _to_plain(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {name: _to_plain(each) for name, each in schema.items()}
    return [_to_plain(each) for each in schema] if isinstance(schema, list | tuple) else schema


def _write_fields(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write an object as its fields; None where it is none that fields could mean."""
    properties = schema.get("properties")
    if set(schema) != _OBJECT or not isinstance(properties, Mapping) or not properties:
        return None
    written = {}
    for name, each in properties.items():
        kind = _write_type(each) if isinstance(each, Mapping) else None
        if kind is None:
            return None
        is_optional = name not in schema["required"]
        if is_optional and not isinstance(kind, str):
            return None
        if is_optional:
            kind = " | ".join(part for part in kind.split(" | ") if part != "null") + "?"
        written[name] = kind
    return written


def _write_type(schema: Mapping[str, Any]) -> Any:
    if not schema:
        return "any"
    if isinstance(schema.get("enum"), list):
        words = [each for each in schema["enum"] if each is not None]
        return " | ".join(each if isinstance(each, str) else write_flow(each) for each in words)
    if set(schema) == {"type", "items"} and schema["type"] == "array":
        items = _write_type(schema["items"]) if isinstance(schema["items"], Mapping) else None
        return None if items is None else [items]
    if set(schema) == {"type"}:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        names = [_NAMES.get(each) if isinstance(each, str) else None for each in kinds]
        return " | ".join(each for each in names if each is not None) if all(names) else None
    return _write_fields(schema)


# It goes by the vocabulary, so that a new word is written once it has a row there.

_PLAIN: Final = (str, int, float, bool, Enum)
_COLLECTIONS: Final = (tuple, dict, MappingProxyType)


def list_written(definition: Definition, schema: SectionSchema) -> Iterator[tuple[Key, Any]]:
    """List the keys of a definition that have to be written, with their values, in the order of the definition."""
    fields = {each.name: each for each in fields_of(cast("Any", definition))}
    for key in schema.keys.values():
        value = getattr(definition, key.name)
        default = fields[key.name].default if fields[key.name].default is not MISSING else key.default
        if default is None or default == ():
            is_default = type(value) in _COLLECTIONS and not value
        else:
            is_default = isinstance(default, _PLAIN) and isinstance(value, _PLAIN) and value == default
        if not is_default and value is not default and not isinstance(value, TextOfPrompt):
            yield key, value
