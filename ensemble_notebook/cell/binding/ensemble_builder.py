"""From sections to definitions: finds what names in the cell refer to, links chains, checks every rule (C1, C5, C10).

Reads no text; `value_binder` looks up the names of the notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.binding.name_resolver import FUNCTIONS, NameResolver
from ensemble_notebook.cell.binding.value_binder import (
    DefinitionBuilder,
    RoleBinder,
    ValueBinder,
    complete_rounds,
    make_placeholder_task,
)
from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport, join_names, quote, suggest_name
from ensemble_notebook.cell.reading.sections import Section, TaskGroup
from ensemble_notebook.cell.reading.yaml_nodes import ScalarNode
from ensemble_notebook.cell.spellings import ASYNC_EXECUTION
from ensemble_notebook.cell.vocabulary import PHASE, TASK, Key, ValueKind
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.amounts import CURRENCY, DOLLARS, AmountError, check_currency
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT, Task
from ensemble_notebook.domain.definitions.templates import TextOfPrompt, find_input_name
from ensemble_notebook.domain.planning.delegation import find_resolved_role_problems
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble, find_taken_inputs, list_known_items
from ensemble_notebook.domain.planning.ensemble_texts import find_lacking_inside
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.model_kinds import calls_no_tools

E = TypeVar("E", bound=EnsembleDefinition)


@dataclass(frozen=True, slots=True)
class _TaskOrder:
    """How the tasks of a group follow each other; in a chain they read the ones before them."""

    workflow: Any
    is_chain: bool


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
        self._definition_builder = DefinitionBuilder(top, report)
        self._agent_sections: list[Section] = top.values.get("agents", [])
        self._phase_sections: list[Section] = top.values.get("phases", [])
        self._agents: dict[int, Agent] = {}
        self._agent_names, self._phase_names = AgentNames(self._agent_sections), PhaseNames(self._phase_sections)
        groups = [each for each in self._phase_sections if "tasks" in each.values]
        self._task_names = TaskNames(
            [
                *([(None, top.values["tasks"])] if "tasks" in top.values else []),
                *((each.values.get("name"), each.values["tasks"]) for each in groups),
            ],
            report,
        )
        roles = RoleBinder(self._find_role, self._definition_builder, report)
        self._value_binder = ValueBinder(resolver, self._definition_builder, report)
        self._value_binder.binders = {
            **self._value_binder.binders,
            **dict.fromkeys((ValueKind.AGENTS, ValueKind.TASKS, ValueKind.PHASES, ValueKind.NAMES)),
            **dict.fromkeys((ValueKind.AGENT, ValueKind.WORKER), self._find_agent),
            ValueKind.WHEN: lambda section, key, value: self._value_binder.make_each(
                section, key, value, self._make_condition
            ),
            ValueKind.PHASE_REVIEW: self._value_binder.make_part,
            ValueKind.REVIEWER: lambda _, __, value: (
                self._make_task(value) if isinstance(value, Section) else resolver.find(value, FUNCTIONS)
            ),
            ValueKind.ITEM_SOURCE: self._find_item_source,
            ValueKind.ROLES: roles.bind_roles,
            ValueKind.CAPS: roles.bind_caps,
            ValueKind.STAGES: roles.bind_stages,
        }

    def make(self, cls: type[E]) -> tuple[E, Graph | None]:
        """Build the ensemble and its graph, None where a rule is broken; use them only if nothing was reported."""
        top = self._top
        self._agents = {id(section): self._make_agent(section) for section in self._agent_sections}
        fields = self._value_binder.bind_fields(top) | {"agents": tuple(self._agents.values())}
        budget, cost = top.values.get("budget"), top.values.get("cost")
        paid = cost.values.get("currency", DOLLARS) if isinstance(cost, Section) else DOLLARS
        given = budget.values.get(CURRENCY, paid) if isinstance(budget, Section) else paid
        try:
            check_currency(given, paid)
        except AmountError as error:
            self._report.add_mistake(top.key_values["budget"].value.place, str(error), error.hint)
        group = top.values.get("tasks")
        if isinstance(group, TaskGroup):
            order = self._find_order(group, top)
            fields |= {"tasks": self._make_tasks(group.sections, order), "workflow": order.workflow}
        if self._phase_sections:
            fields["phases"] = tuple(self._make_phase(section) for section in self._phase_sections)
        is_unclear = top.has_unknown or bool(top.key_values.keys() & {"tasks", "phases"})
        if is_unclear and "tasks" not in fields and "phases" not in fields:
            fields["tasks"] = (make_placeholder_task(),)
        fields["inputs"] = dict(self._inputs)
        ensemble = self._definition_builder.make(cls, top, fields)
        return ensemble, self._check_rules(ensemble)

    # members

    def _make_agent(self, section: Section) -> Agent:
        fields = self._value_binder.bind_fields(section)
        return self._definition_builder.make(Agent, section, fields)

    def _make_phase(self, section: Section) -> Phase:
        fields = self._value_binder.bind_fields(section)
        if "tasks" in section.values:
            group: TaskGroup = section.values["tasks"]
            order = self._find_order(group, section)
            fields["tasks"] = self._make_tasks(group.sections, order)
            if order.workflow != Workflow.HIERARCHICAL or "workflow" in section.values:
                fields["workflow"] = order.workflow
        fields["after"] = self._find_references(section, PHASE.keys["after"], self._phase_names.find)
        for name in ("until", "max_rounds"):
            is_written = name in section.key_values and getattr(section.key_values[name].value, "items", True)
            if is_written and fields.get(name) in (None, ()):  # what is wrong with it has been said
                complete_rounds(fields, name)
        return self._definition_builder.make(Phase, section, fields)

    def _make_tasks(self, sections: list[Section], order: _TaskOrder) -> tuple[Task, ...]:
        """Make the tasks of a group. In a chain, each reads the one before it unless it says otherwise."""
        made: list[Task] = []
        before: list[Task] = []
        beside: list[Task] = []
        for section in sections:
            is_beside = order.is_chain and _is_async(section)
            context = tuple(before if is_beside or not beside else beside) if order.is_chain else ()
            made.append(self._make_task(section, context))
            if is_beside:
                beside.append(made[-1])
            else:
                before, beside = made[-1:], []
        return tuple(made)

    def _make_task(self, section: Section, context: tuple[Task, ...] = ()) -> Task:
        """Make one task, which reads the tasks of `context` unless its own `context:` says otherwise."""
        fields = self._value_binder.bind_fields(section) | {"context": context}
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
        return self._definition_builder.make(Task, section, fields)

    def _find_order(self, group: TaskGroup, owner: Section) -> _TaskOrder:
        """Take the workflow of this section or of the cell; without one, the form of the tasks says it."""
        given = next((each for each in (owner, self._top) if "workflow" in each.values), None)
        workflow = None if given is None else given.values["workflow"]
        for section in group.sections:
            if ASYNC_EXECUTION in section.key_values:
                self._explain_async(section, group, workflow)
        if workflow is not None:
            return _TaskOrder(workflow, group.is_list and str(workflow).lower() == Workflow.SEQUENTIAL)
        if not group.is_list:
            return _TaskOrder(Workflow.PARALLEL, is_chain=False)
        is_beside = any(map(_is_async, group.sections))
        return _TaskOrder(Workflow.PARALLEL if is_beside else Workflow.SEQUENTIAL, is_chain=True)

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

    # references inside the cell

    def _find_agent(self, _: Section, __: Key, value: ScalarNode | Section) -> Agent:
        """Find an agent by its name, or make the one that is written where it is used."""
        return (
            self._make_agent(value) if isinstance(value, Section) else self._agents[id(self._agent_names.find(value))]
        )

    def _find_role(self, node: ScalarNode) -> str:
        """Find the role of the agent of this key; any other word is taken for a role."""
        section = self._agent_names.find_by_key(node.text)
        return (node.text if section is None else self._agents[id(section)].role).strip()

    def _make_condition(self, section: Section) -> Condition:
        fields = self._value_binder.bind_fields(section)
        source = self._task_names.find(section.values["source"])
        if not fields.keys() - {"field"}:  # what is wrong with its test has been said
            raise MisreadError(section.place)
        return self._definition_builder.make(Condition, section, fields | {"source": source})

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

    def _find_references(self, section: Section, key: Key, find: Callable[[ScalarNode], str]) -> tuple[str, ...]:
        """Follow references inside the cell; report those that lead nowhere, and leave them out."""
        return self._value_binder.make_each(section, key, section.values.get(key.name, []), find)

    # rules

    def _check_rules(self, ensemble: EnsembleDefinition) -> Graph | None:
        try:
            graph, self.warnings = check_ensemble(ensemble)
            list_known_items(graph, self._inputs)
            if problems := [*find_taken_inputs(ensemble, self._inputs)]:
                raise ValidationError(problems)
        except ValidationError as error:
            for problem in error.problems:
                self._definition_builder.report_problem(problem)
            return None
        # what does a task and lacks values for its variables; only the task can give them
        for task, lacking in find_lacking_inside(ensemble):
            section = self._definition_builder.find_section(task) or self._top
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
            self._definition_builder.report_problem(problem)
        return graph

    def _warn_owner(self, owner: Task | Agent | None, llm: str) -> None:
        section = self._definition_builder.find_section(owner)
        if owner is None or section is None:
            return
        if owner.tools:
            message = f"{section.label} has tools, but its model {llm!r} does not call tools."
            self._report.add_notice(section.key_values["tools"].key, message, is_warning=True)
        if isinstance(owner, Agent) and owner.allow_delegation:
            message = f"{section.label} may delegate, but its model {llm!r} does not call tools."
            self._report.add_notice(section.key_values["allow_delegation"].key, message, is_warning=True)


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
        hint = (
            f"Agents here: {join_names(self._by_key)}."
            if self._by_key
            else "Add it under `agents:`, or remove this line."
        )
        close = suggest_name(word, [*self._by_key, *self._by_role])
        raise MisreadError(node.place, f"there is no agent {quote(word)} in this cell.{close}", hint)


class PhaseNames:
    """The phases of a cell."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._names = dict.fromkeys(str(section.values["name"]) for section in sections)

    def find(self, node: ScalarNode) -> str:
        """Find the phase of this name.

        Raises:
            MisreadError: there is none.
        """
        if node.text in self._names:
            return node.text
        message = f"there is no phase {quote(node.text)} in this cell.{suggest_name(node.text, self._names)}"
        raise MisreadError(node.place, message, f"Phases here: {join_names(self._names)}.")
