"""From sections to definitions: binds values and names, links chains, checks every rule (C1, C4, C5, C10).

Reads no text; `name_resolver` looks up the names of the notebook.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.binding.name_resolver import (
    ENSEMBLES,
    OBJECT_KINDS,
    NameResolver,
    Unimported,
)
from ensemble_notebook.cell.reading.mistakes import (
    MisreadError,
    MistakeReport,
    join_names,
    quote,
    suggest_name,
    to_cell_words,
)
from ensemble_notebook.cell.reading.sections import Section, TaskGroup
from ensemble_notebook.cell.reading.source_text import Place
from ensemble_notebook.cell.reading.yaml_nodes import ScalarNode
from ensemble_notebook.cell.spellings import ASYNC_EXECUTION
from ensemble_notebook.cell.vocabulary import LIMITS, OTEL, PARTS, PHASE, TASK, Key, ValueKind
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.amounts import CURRENCY, DOLLARS, AmountError, check_currency
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.delegation import normalize_role
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.limits import COST, Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.definitions.memory import is_path
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT, Task
from ensemble_notebook.domain.definitions.templates import TextOfPrompt, find_input_name
from ensemble_notebook.domain.definitions.tool import BEFORE, RetrieverTool, Tool, is_retriever, list_tool_names
from ensemble_notebook.domain.planning.delegation import find_resolved_role_problems
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble, find_taken_inputs, list_known_items
from ensemble_notebook.domain.planning.ensemble_texts import find_lacking_inside
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.models.model_kinds import calls_no_tools

_STAND_IN: Final = "?"
_SUBSTITUTES: Final[Mapping[type, Mapping[str, Any]]] = {Condition: {"matches": "."}, Budget: {"max_llm_calls": 1}}
"""What stands for the one test or limit that was refused, since there must be one."""

Binder = Callable[[Section, Key, Any], Any]
D = TypeVar("D", bound=Definition)
E = TypeVar("E", bound=EnsembleDefinition)


class EnsembleBuilder:
    """Builds the ensemble of one cell.

    Args:
        top: the section of the cell.
        resolver: finds the names of the notebook.
        values: of template variables, which are filled in when a run begins.
        report: gets every mistake and notice.

    Attributes:
        warnings: what the rules say about an ensemble that can run.
    """

    def __init__(self, top: Section, resolver: NameResolver, values: Mapping[str, Any], report: MistakeReport) -> None:
        self._top, self._resolver, self._inputs, self._report = top, resolver, values, report
        self.warnings: tuple[str, ...] = ()
        self._sections: dict[int, tuple[Any, Section]] = {}  # by the id of what was made from it, which is kept alive
        # where the items of a field stand, by their index or key in the definition
        self._places: dict[tuple[int, str], Mapping[int | str, Place]] = {}
        self._agent_sections: list[Section] = top.values.get("agents", [])
        self._phase_sections: list[Section] = top.values.get("phases", [])
        self._agents: dict[int, Agent] = {}
        self._agent_names = AgentNames(self._agent_sections)
        groups = [each for each in self._phase_sections if "tasks" in each.values]
        self._task_names = TaskNames(
            [
                *([(None, top.values["tasks"])] if "tasks" in top.values else []),
                *((each.values.get("name"), each.values["tasks"]) for each in groups),
            ],
            report,
        )
        # How each kind of value is bound, from its section, its key and itself. None leaves it out, kinds without a
        # binder are taken as they are.
        self._binders: Mapping[ValueKind, Binder | None] = {
            **dict.fromkeys((ValueKind.AGENTS, ValueKind.TASKS, ValueKind.PHASES, ValueKind.NAMES)),
            **dict.fromkeys((ValueKind.AGENT, ValueKind.WORKER), self._find_agent),
            **dict.fromkeys(
                (ValueKind.OBJECT, ValueKind.PROMPT, ValueKind.DEPS, ValueKind.OUTPUT_TYPE), self._bind_object
            ),
            **dict.fromkeys((ValueKind.OBJECTS, ValueKind.FUNCTIONS), self._bind_functions),
            ValueKind.TOOLS: self._bind_tools,
            ValueKind.MODEL: self._bind_model,
            ValueKind.ENSEMBLE: self._bind_ensemble,
            **dict.fromkeys((*PARTS, ValueKind.PHASE_REVIEW), self._make_part),
            **dict.fromkeys(LIMITS, self._bind_limit),
            ValueKind.REVIEW: lambda section, key, value: self._make_each(
                section, key, value, lambda part: self._make_part(section, key, part)
            ),
            ValueKind.WHEN: lambda section, key, value: self._make_each(section, key, value, self._make_condition),
            ValueKind.MEMORIES: lambda section, key, value: self._make_each(
                section, key, value, lambda node: node.text.strip()
            ),
            ValueKind.STORE: self._bind_store,
            ValueKind.EXPORTER: lambda section, key, value: (
                resolver.make_exporter(value)
                if value.text == OTEL or is_path(value.text, (".json",))
                else self._bind_object(section, key, value)
            ),
            ValueKind.REVIEWER: lambda section, key, value: (
                self._make_task(value) if isinstance(value, Section) else self._bind_object(section, key, value)
            ),
            ValueKind.ITEM_SOURCE: self._find_item_source,
            ValueKind.ROLES: self._bind_roles,
            ValueKind.CAPS: self._bind_caps,
            ValueKind.STAGES: self._bind_stages,
        }

    def make(self, cls: type[E]) -> tuple[E, Graph | None]:
        """Build the ensemble and its graph, None where a rule is broken; use them only if nothing was reported."""
        top = self._top
        self._agents = {id(section): self._make_agent(section) for section in self._agent_sections}
        fields = self._bind_fields(top) | {"agents": tuple(self._agents.values())}
        budget, cost = top.values.get("budget"), top.values.get("cost")
        paid = cost.values.get("currency", DOLLARS) if isinstance(cost, Section) else DOLLARS
        given = budget.values.get(CURRENCY, paid) if isinstance(budget, Section) else paid
        try:
            check_currency(given, paid)
        except AmountError as error:
            self._report.add_mistake(top.key_values["budget"].value.place, str(error), error.hint)
        group = top.values.get("tasks")
        if isinstance(group, TaskGroup):
            workflow, is_chain = self._find_order(group, top)
            fields |= {"tasks": self._make_tasks(group.sections, is_chain=is_chain), "workflow": workflow}
        if self._phase_sections:
            fields["phases"] = tuple(self._make_phase(section) for section in self._phase_sections)
        is_unclear = top.has_unknown or bool(top.key_values.keys() & {"tasks", "phases"})
        if is_unclear and "tasks" not in fields and "phases" not in fields:
            fields["tasks"] = (_make_placeholder_task(),)
        fields["inputs"] = dict(self._inputs)
        ensemble = self._make_definition(cls, top, fields)
        return ensemble, self._check_rules(ensemble)

    # definitions, and the section that each was made from

    def _make_definition(self, cls: type[D], section: Section, fields: dict[str, Any]) -> D:
        """Make the definition; report every field that it refuses, and replace the field until it is made.

        Raises:
            MisreadError: it can't be made even so; everything has been reported.
        """
        kind: Any = cls
        for name in _find_required_fields(kind):
            if name not in fields:
                fields[name] = _make_placeholder(cls, name)
        replaced: set[str | None] = set()
        while True:
            try:
                made = cls(**fields)
            except ValidationError as error:
                for problem in error.problems:
                    self._report_in(section, problem)
                    if problem.field not in fields or problem.field in replaced:
                        raise MisreadError(section.place) from error
                    replaced.add(problem.field)
                    _replace(cls, fields, problem.field)
            else:
                self._sections[id(made)] = (made, section)
                return made

    def _report_problem(self, problem: Problem) -> None:
        """Report what a rule between definitions found, where its subject is written."""
        self._report_in(self._find_section(problem.subject) or self._top, problem)

    def _find_section(self, made: object) -> Section | None:
        """Find the section that a definition was made from; None if it was not written in the cell."""
        return self._sections.get(id(made), (None, None))[1]

    def _report_in(self, section: Section, problem: Problem) -> None:
        key = section.schema.keys.get(problem.field or "")
        hint = f"{key.name}: {key.meaning}." if key is not None else ""
        item, places = problem.item, self._places.get((id(section), problem.field or ""), {})
        place = places[item] if item is not None and item in places else section.find_place(problem.field, item)
        self._report.add_mistake(place, to_cell_words(problem.message), hint)

    # members

    def _make_agent(self, section: Section) -> Agent:
        return self._make_definition(Agent, section, self._bind_fields(section))

    def _make_phase(self, section: Section) -> Phase:
        fields = self._bind_fields(section)
        if "tasks" in section.values:
            group: TaskGroup = section.values["tasks"]
            workflow, is_chain = self._find_order(group, section)
            fields["tasks"] = self._make_tasks(group.sections, is_chain=is_chain)
            if workflow != Workflow.HIERARCHICAL or "workflow" in section.values:
                fields["workflow"] = workflow
        fields["after"] = self._find_references(section, PHASE.keys["after"], self._find_phase)
        for name in ("until", "max_rounds"):
            is_written = name in section.key_values and getattr(section.key_values[name].value, "items", True)
            if is_written and fields.get(name) in (None, ()):  # what is wrong with it has been said
                _complete_rounds(fields, name)
        return self._make_definition(Phase, section, fields)

    def _make_tasks(self, sections: list[Section], *, is_chain: bool) -> tuple[Task, ...]:
        """Make the tasks of a group. In a chain, each reads the one before it unless it says otherwise."""
        made: list[Task] = []
        before: list[Task] = []
        beside: list[Task] = []
        for section in sections:
            is_beside = is_chain and _is_async(section)
            context = tuple(before if is_beside or not beside else beside) if is_chain else ()
            made.append(self._make_task(section, context))
            if is_beside:
                beside.append(made[-1])
            else:
                before, beside = made[-1:], []
        return tuple(made)

    def _make_task(self, section: Section, context: tuple[Task, ...] = ()) -> Task:
        """Make one task, which reads the tasks of `context` unless its own `context:` says otherwise."""
        fields = self._bind_fields(section) | {"context": context}
        if (name := self._task_names.get_name(section)) is not None:
            fields["name"] = name
        fields.setdefault("expected_output", STOCK_EXPECTED_OUTPUT)
        if isinstance(prompt := fields.get("prompt"), str):
            fields.setdefault("description", TextOfPrompt.of(prompt))
        if isinstance(source := fields.get("for_each"), str):  # its items are one thing, to read it another (E53)
            fields["context"] = tuple(each for each in context if each.name != source)
        if isinstance(ensemble := section.values.get("ensemble"), ScalarNode):
            fields.setdefault("description", f"Run the ensemble {ensemble.text}")
        if "context" in section.key_values:
            fields["context"] = self._find_references(section, TASK.keys["context"], self._task_names.find)
        return self._make_definition(Task, section, fields)

    def _find_order(self, group: TaskGroup, owner: Section) -> tuple[Any, bool]:
        """Find the workflow, of this section or of the cell, or by the form of the tasks; and if they are a chain."""
        given = next((each for each in (owner, self._top) if "workflow" in each.values), None)
        workflow = None if given is None else given.values["workflow"]
        for section in group.sections:
            if ASYNC_EXECUTION in section.key_values:
                self._explain_async(section, group, workflow)
        if workflow is not None:
            return workflow, group.is_list and str(workflow).lower() == Workflow.SEQUENTIAL
        if not group.is_list:
            return Workflow.PARALLEL, False
        is_beside = any(map(_is_async, group.sections))
        return Workflow.PARALLEL if is_beside else Workflow.SEQUENTIAL, True

    def _explain_async(self, section: Section, group: TaskGroup, workflow: Any) -> None:
        """Say what `async_execution` is read as: here, what the graph allows runs at once."""
        place = section.key_values[ASYNC_EXECUTION].key
        if not _is_async(section):
            self._report.add_notice(place, f"'{ASYNC_EXECUTION}: false' is how tasks of a chain run; it is not needed.")
        elif str(workflow).lower() == Workflow.SEQUENTIAL:
            hint = "Remove `workflow: sequential` or this line."
            self._report.add_mistake(place, f"{ASYNC_EXECUTION!r} contradicts the workflow 'sequential'.", hint)
        elif group.is_list and workflow is None:
            message = (
                f"{ASYNC_EXECUTION!r}: {section.label} runs beside its neighbours; the next task without it reads them."
            )
            self._report.add_notice(place, message)
        else:
            self._report.add_notice(place, f"{ASYNC_EXECUTION!r} is how every task of a graph runs; it is not needed.")

    # values

    def _bind_fields(self, section: Section) -> dict[str, Any]:
        """Make the values of a section ready for its definition; report what can't be bound, and leave it out."""
        found = {}
        for name, value in section.values.items():
            key = section.schema.keys.get(name)
            binder = None if key is None else self._binders.get(key.kind)
            if key is None or (binder is None and key.kind in self._binders):
                continue
            try:
                found[name] = value if binder is None else binder(section, key, value)
            except MisreadError as misread:
                self._report.add_misread(misread)
        return found

    def _make_part(self, _: Section, key: Key, value: Section) -> Definition:
        """Make a part of a section into its definition."""
        cls = value.schema.definition
        assert cls is not None, key.name
        return self._make_definition(cls, value, self._bind_fields(value))

    def _make_each(
        self, section: Section, key: Key, values: Iterable[Any], make: Callable[[Any], Any]
    ) -> tuple[Any, ...]:
        """Make something of every item, report and leave out mistakes, and remember the places of the others."""
        found, places = [], []
        for value in values:
            try:
                found.append(make(value))
                places.append(value.place)
            except MisreadError as misread:
                self._report.add_misread(misread)
        self._places[id(section), key.name] = dict(enumerate(places))
        return tuple(found)

    def _bind_object(self, _: Section, key: Key, value: Any) -> Any:
        """Find an object of the notebook; an output type may be written where it is used."""
        is_name = isinstance(value, ScalarNode)
        return self._resolver.find(value, OBJECT_KINDS[key.kind], key.word.label) if is_name else value

    def _bind_model(self, _: Section, __: Key, value: Any) -> Any:
        if isinstance(value, ScalarNode):
            return self._resolver.find_model(value)
        if not isinstance(value, Section):
            return value
        cost: Any = value.values.get(COST)
        rates: Any = None if cost is None else self._make_part(value, value.schema.keys[COST], cost)
        return self._resolver.check_model(value, rates)

    def _bind_ensemble(self, _: Section, __: Key, value: ScalarNode) -> Any:
        """Find an ensemble, with a placeholder for one that is missing: what its task gives it has no fault by that."""
        try:
            found = self._resolver.find(value, ENSEMBLES)
            if not is_ensemble(found):
                message = f"{quote(value.text)} is no ensemble, but of type {type(found).__name__}."
                hint = f"{ENSEMBLES.alternative} That of an output is `{value.text}.ensemble`."
                raise MisreadError(value.place, message, hint)
        except MisreadError as misread:
            self._report.add_misread(misread)
            return ENSEMBLES.make_placeholder(value.text)
        return found

    def _bind_functions(self, section: Section, key: Key, value: Iterable[ScalarNode]) -> tuple[Any, ...]:
        """Find functions, with a placeholder for one that is missing, so that the others are checked, too."""
        return self._make_each(section, key, value, lambda node: self._bind_function(node, key))

    def _bind_function(self, node: ScalarNode, key: Key) -> Any:
        try:
            return self._resolver.find(node, OBJECT_KINDS[key.kind], key.word.label)
        except MisreadError as misread:
            self._report.add_misread(misread)
            return Unimported(node.text)

    def _bind_tools(self, section: Section, key: Key, value: Iterable[ScalarNode | Section]) -> tuple[Any, ...]:
        """Find tools; a variable may hold a list of them, and a retriever is called as its variable."""
        found: list[tuple[Any, Place]] = []
        for each in value:
            if isinstance(each, Section):
                found += [(tool, each.place) for tool in self._find_reviewed(each, key)]
            else:
                found += [(tool, each.place) for tool in self._find_tools(each, key)]
        self._places[id(section), key.name] = dict(enumerate(place for _, place in found))
        return tuple(tool for tool, _ in found)

    def _find_reviewed(self, section: Section, key: Key) -> list[Any]:
        """Find the tools of one entry of which each call is reviewed."""
        node, others = section.values.get("tool"), {**section.values}
        if not isinstance(node, ScalarNode):  # that has been said
            return []
        del others["tool"]
        found = self._find_tools(node, key)
        return [
            each if isinstance(each, Unimported) else self._make_definition(Tool, section, {"tool": each, **others})
            for each in found
        ]

    def _find_tools(self, node: ScalarNode, key: Key) -> list[Any]:
        found = self._bind_function(node, key)
        name = node.text.rpartition(".")[2]
        if not isinstance(found, list | tuple):
            return [RetrieverTool(name=name, retriever=found) if is_retriever(found) else found]
        if not found:
            self._report.add_notice(node.place, f"the list {node.text!r} holds no tools.", is_warning=True)
        tools = []
        for number, each in enumerate(found, start=1):
            tool = RetrieverTool(name=f"{name}_{number}", retriever=each) if is_retriever(each) else each
            if list_tool_names(tool) is None:
                message = f"item {number} of the list {node.text!r} is no tool, but of type {type(each).__name__}."
                hint = "A list of tools holds functions, LangChain tools, retrievers, and objects with @tool methods."
                self._report.add_mistake(node.place, message, hint)
            else:
                tools.append(tool)
        return tools

    def _bind_limit(self, section: Section, key: Key, value: Section | ScalarNode) -> Any:
        """Make a limit for this section alone, or find one of the notebook, which all who name it share."""
        if isinstance(value, Section):
            return self._make_part(section, key, value)
        found = self._resolver.find(value, OBJECT_KINDS[key.kind])
        return None if isinstance(found, Unimported) else found

    def _bind_store(self, section: Section, key: Key, value: bool | ScalarNode) -> Any:
        if isinstance(value, bool):
            return self._resolver.make_store(None) if value else None
        return self._resolver.make_store(value) if is_path(value.text) else self._bind_object(section, key, value)

    # agents as workers; whether there is such a role, and what the constraints come to, is the definitions' to say

    def _bind_roles(self, section: Section, key: Key, value: list[ScalarNode]) -> tuple[str, ...]:
        """Bind a list of names as a list of roles."""
        found = list(self._drop_repeated(key.name, value))
        self._places[id(section), key.name] = dict(enumerate(node.place for _, node in found))
        return tuple(role for role, _ in found)

    def _bind_caps(self, section: Section, key: Key, value: list[tuple[ScalarNode, Any]]) -> dict[str, Any]:
        """Bind a mapping of names to numbers as one of roles to numbers."""
        numbers = {id(node): number for node, number in value}
        found = list(self._drop_repeated(key.name, [node for node, _ in value]))
        self._places[id(section), key.name] = {role: node.place for role, node in found}
        return {role: numbers[id(node)] for role, node in found}

    def _bind_stages(self, section: Section, key: Key, value: list[list[ScalarNode]]) -> tuple[tuple[str, ...], ...]:
        """Bind a list of lists of names as stages of roles."""
        found = [list(self._drop_repeated(key.name, stage)) for stage in value]
        self._places[id(section), key.name] = {role: node.place for stage in found for role, node in stage}
        return tuple(tuple(role for role, _ in stage) for stage in found)

    def _drop_repeated(self, name: str, nodes: Iterable[ScalarNode]) -> Iterator[tuple[str, ScalarNode]]:
        """Yield each role with its node; report an agent that is named twice, by its key and by its role."""
        seen: dict[str, ScalarNode] = {}
        for node in nodes:
            role = self._find_role(node)
            first = seen.setdefault(normalize_role(role), node)
            if first is node:
                yield role, node
                continue
            message = f"{quote(node.text)} and {quote(first.text)} in {name!r} are the same agent."
            self._report.add_mistake(node.place, message, "Remove one of them.")

    # references inside the cell

    def _find_agent(self, _: Section, __: Key, value: ScalarNode | Section) -> Agent:
        """Find an agent by its name, or make the one that is written where it is used."""
        if isinstance(value, Section):
            return self._make_agent(value)
        return self._agents[id(self._agent_names.find(value))]

    def _find_role(self, node: ScalarNode) -> str:
        """Find the role of the agent of this key; any other word is taken for a role."""
        section = self._agent_names.find_by_key(node.text)
        return (node.text if section is None else self._agents[id(section)].role).strip()

    def _make_condition(self, section: Section) -> Condition:
        fields = self._bind_fields(section)
        source = self._task_names.find(section.values["source"])
        if not fields.keys() - {"field"}:  # what is wrong with its test has been said
            raise MisreadError(section.place)
        return self._make_definition(Condition, section, fields | {"source": source})

    def _find_item_source(self, _: Section, __: Key, value: ScalarNode | list[Any]) -> Any:
        """Find whose items a task runs for: those of a task of the cell, or of a variable of the notebook."""
        if isinstance(value, list) or find_input_name(value.text) is not None:
            return value if isinstance(value, list) else value.text.strip()
        if not self._task_names.has(value.text):
            return self._resolver.find_items(value, self._task_names.names)
        if self._resolver.has(value.text):
            message = f"{quote(value.text)} is a task of this cell and a variable of the notebook."
            raise MisreadError(value.place, message, "Rename one of them, so that it is clear whose items are meant.")
        return self._task_names.find(value)

    def _find_phase(self, node: ScalarNode) -> str:
        names = dict.fromkeys(str(section.values["name"]) for section in self._phase_sections)
        if node.text in names:
            return node.text
        message = f"there is no phase {quote(node.text)} in this cell.{suggest_name(node.text, names)}"
        raise MisreadError(node.place, message, f"Phases here: {join_names(names)}.")

    def _find_references(self, section: Section, key: Key, find: Callable[[ScalarNode], str]) -> tuple[str, ...]:
        """Follow references inside the cell; report those that lead nowhere, and leave them out."""
        return self._make_each(section, key, section.values.get(key.name, []), find)

    # rules

    def _check_rules(self, ensemble: EnsembleDefinition) -> Graph | None:
        try:
            graph, self.warnings = check_ensemble(ensemble)
            list_known_items(graph, self._inputs)
            if problems := [*find_taken_inputs(ensemble, self._inputs)]:
                raise ValidationError(problems)
        except ValidationError as error:
            for problem in error.problems:
                self._report_problem(problem)
            return None
        # what does a task and lacks values for its variables; only the task can give them
        for task, lacking in find_lacking_inside(ensemble):
            section = self._find_section(task) or self._top
            name = "inputs" if "inputs" in section.key_values else "ensemble"
            names = ", ".join(f"{{{each}}}" for each in lacking)
            example = ", ".join(f"{each}: ..." for each in lacking)
            message = f"the ensemble of {section.label} has no value for {names}."
            self._report.add_mistake(section.find_place(name), message, f"Give it one: `inputs: {{{example}}}`.")
        # tools, delegation among them, where the model is of a kind that calls none
        for llm, owners in (
            *((node.llm, (node.task, node.agent)) for node in graph.all_tasks),
            *((member.llm, (member.agent,)) for member in graph.team),
        ):
            if calls_no_tools(llm):
                for owner in owners:
                    self._warn_owner(owner, llm)
        if graph.managed and calls_no_tools(llm := graph.tasks[0].llm):
            message = f"the manager delegates by calling a tool, and its model {llm!r} does not call tools."
            self._report.add_notice(self._top.find_place("workflow"), message, is_warning=True)
        agents = [*self._agents.values(), *(node.agent for node in graph.all_tasks if node.agent is not None)]
        for problem in find_resolved_role_problems(list(dict.fromkeys(agents)), graph, self._inputs):
            self._report_problem(problem)
        return graph

    def _warn_owner(self, owner: Task | Agent | None, llm: str) -> None:
        section = self._find_section(owner)
        if owner is None or section is None:
            return
        if owner.tools:
            message = f"{section.label} has tools, but its model {llm!r} does not call tools."
            self._report.add_notice(section.key_values["tools"].key, message, is_warning=True)
        if isinstance(owner, Agent) and owner.allow_delegation:
            message = f"{section.label} may delegate, but its model {llm!r} does not call tools."
            self._report.add_notice(section.key_values["allow_delegation"].key, message, is_warning=True)


def _replace(cls: type, fields: dict[str, Any], name: str) -> None:
    """Take a field away that was refused, and put in its place what its definition can't do without."""
    del fields[name]
    if name in _find_required_fields(cls):
        fields[name] = _make_placeholder(cls, name)
    if name != "field":  # the path of a condition, beside which its test stays
        fields |= _SUBSTITUTES.get(cls, {})
    if cls is Phase:
        _complete_rounds(fields, name)


def _complete_rounds(fields: dict[str, Any], lacking: str) -> None:
    """Let the fields of a phase do without one that was refused, so that its absence is no second mistake."""
    if lacking == "until":
        for name in ("max_rounds", "on_exhausted"):
            fields.pop(name, None)
    elif lacking == "max_rounds" and fields.get("until"):
        fields["max_rounds"] = 1


def _make_placeholder_task() -> Task:
    """Make a task that stands for one that could not be read."""
    return Task(description=_STAND_IN, expected_output=_STAND_IN)


@functools.cache
def _find_required_fields(cls: type[Any]) -> list[str]:
    return [each.name for each in fields_of(cls) if each.default is MISSING and each.default_factory is MISSING]


def _make_placeholder(cls: type, name: str) -> Any:
    if name == "tasks":
        return (_make_placeholder_task(),)
    if cls is PhaseReview:
        return _make_placeholder_task()
    return {CostConfiguration: 0, RateLimit: 1, Tool: BEFORE}.get(cls, _STAND_IN)


def _is_async(section: Section) -> bool:
    return section.values.get(ASYNC_EXECUTION) is True


# --- What names inside a cell refer to: tasks, also as ``phase.task``, and agents by key or role ----------------------
#
# Knows neither the notebook's names nor how definitions are made.


_NAME_IT: Final = "A task is called by its key, or by `name:` in a list."
_KEY_IT: Final = "Write agents as a mapping, and call them by their keys."


class TaskNames:
    """Every named task of a cell, and the name it gets in the ensemble, where names are unique."""

    def __init__(self, groups: Iterable[tuple[str | None, TaskGroup]], report: MistakeReport) -> None:
        self._by_name: dict[str, list[Section]] = {}
        self._paths: dict[str, list[Section]] = {}
        self._path_of: dict[int, str] = {}
        self._repeated: set[int] = set()
        for phase, group in groups:
            self._add_group(phase, group, report)

    def _add_group(self, phase: str | None, group: TaskGroup, report: MistakeReport) -> None:
        own: dict[str, Section] = {}
        for section in group.sections:
            if section.name is None:
                continue
            first = own.setdefault(section.name, section)
            if first is not section:
                message = (
                    f"the task name {quote(section.name)} stands twice; the first one is in line {first.place.line}."
                )
                report.add_mistake(section.find_place("name"), message, "Give each task its own name.")
                self._repeated.add(id(section))
                continue
            self._by_name.setdefault(section.name, []).append(section)
            if phase is not None:
                self._path_of[id(section)] = f"{phase}.{section.name}"
                self._paths.setdefault(f"{phase}.{section.name}", []).append(section)

    def get_name(self, section: Section) -> str | None:
        """Get the task's own name, or ``phase.task`` where another phase has a task of the same name."""
        if id(section) in self._repeated:
            return None
        if section.name is None or len(self._by_name.get(section.name, ())) < 2:
            return section.name
        return self._path_of.get(id(section), section.name)

    @property
    def names(self) -> tuple[str, ...]:
        """What tasks are called, as the tasks themselves have it."""
        return tuple(self._by_name)

    def has(self, word: str) -> bool:
        """Whether a task, or several, can be meant by a word."""
        return word in self._by_name or word in self._paths

    def find(self, node: ScalarNode) -> str:
        """Find the unique name of the task that a cell refers to.

        Raises:
            MisreadError: there is no such task, or several.
        """
        word = node.text
        found = list({id(each): each for each in (*self._by_name.get(word, ()), *self._paths.get(word, ()))}.values())
        if len(found) > 1:
            candidates = join_names(quote(self._path_of.get(id(each), word)) for each in found)
            message = f"there are {len(found)} tasks called {quote(word)}: {candidates}."
            raise MisreadError(node.place, message, "Write `phase.task`.")
        if found:
            return self.get_name(found[0]) or word
        known = [*self._by_name, *self._paths]
        hint = f"Tasks here: {join_names(self._by_name)}." if self._by_name else _NAME_IT
        raise MisreadError(node.place, f"there is no task {quote(word)} in this cell.{suggest_name(word, known)}", hint)


class AgentNames:
    """The agents of a cell by key and, where no key fits, by role."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._by_key: dict[str, list[Section]] = {}
        self._by_role: dict[str, list[Section]] = {}
        for section in sections:
            if section.name is not None:
                self._by_key.setdefault(section.name, []).append(section)
            if "role" in section.values:
                self._by_role.setdefault(section.values["role"].strip(), []).append(section)

    def find_by_key(self, word: str) -> Section | None:
        """Find the one agent of this key, or None."""
        found = self._by_key.get(word, [])
        return found[0] if len(found) == 1 else None

    def find(self, node: ScalarNode) -> Section:
        """Find the agent of this key or role.

        Raises:
            MisreadError: there is no such agent, or several.
        """
        word = node.text
        found = self._by_key.get(word) or self._by_role.get(word) or []
        if len(found) == 1:
            return found[0]
        if found:
            lines = join_names(str(each.place.line) for each in found)
            raise MisreadError(node.place, f"there are {len(found)} agents {quote(word)}, in lines {lines}.", _KEY_IT)
        known = f"Agents here: {join_names(self._by_key)}."
        hint = known if self._by_key else "Add it under `agents:`, or remove this line."
        close = suggest_name(word, [*self._by_key, *self._by_role])
        raise MisreadError(node.place, f"there is no agent {quote(word)} in this cell.{close}", hint)
