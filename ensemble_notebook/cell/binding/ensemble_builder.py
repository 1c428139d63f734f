"""From sections to definitions: links chains, follows references, checks every rule of the definitions (C1, C5, C10).

Reads no text; `value_binder` looks up the names of the notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.binding.definition_builder import DefinitionBuilder, make_placeholder_task
from ensemble_notebook.cell.binding.name_resolver import FUNCTIONS, NameResolver
from ensemble_notebook.cell.binding.references import AgentNames, PhaseNames, TaskNames
from ensemble_notebook.cell.binding.role_binder import RoleBinder
from ensemble_notebook.cell.binding.value_binder import ValueBinder
from ensemble_notebook.cell.language.amounts import CURRENCY
from ensemble_notebook.cell.language.cell_schema import PHASE, TASK, Key
from ensemble_notebook.cell.language.spellings import ASYNC_EXECUTION
from ensemble_notebook.cell.language.vocabulary import ValueKind
from ensemble_notebook.cell.reading.sections import Section, TaskGroup
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport, quote
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT, Task
from ensemble_notebook.domain.definitions.templates import find_input_name
from ensemble_notebook.domain.planning.ensemble_texts import find_lacking_inside
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.planning.known_items import list_known_items
from ensemble_notebook.domain.rules.ensemble_rules import check_ensemble
from ensemble_notebook.domain.rules.resolved_role_rules import find_resolved_role_problems
from ensemble_notebook.errors import ValidationError

_DOLLARS: Final = "USD"

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
        values: of template variables, which are filled in when a run begins (E6).
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
            ValueKind.AGENT: self._find_agent,
            ValueKind.WORKER: self._find_agent,
            ValueKind.WHEN: self._make_conditions,
            ValueKind.PHASE_REVIEW: self._value_binder.make_part,
            ValueKind.REVIEWER: self._find_reviewer,
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
        self._check_currency(top)
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
        return self._definition_builder.make(Phase, section, fields)

    def _make_tasks(self, sections: list[Section], order: _TaskOrder) -> tuple[Task, ...]:
        """Make the tasks of a group. In a chain, each reads the one before it unless it says otherwise (C1)."""
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
        if isinstance(source := fields.get("for_each"), str):  # its items are one thing, to read it another (E53)
            fields["context"] = tuple(each for each in context if each.name != source)
        if isinstance(ensemble := section.values.get("ensemble"), ScalarNode):
            fields.setdefault("description", f"Run the ensemble {ensemble.text}")
        if "context" in section.key_values:
            fields["context"] = self._find_references(section, TASK.keys["context"], self._task_names.find)
        return self._definition_builder.make(Task, section, fields)

    def _find_order(self, group: TaskGroup, owner: Section) -> _TaskOrder:
        """Take the workflow of this section or of the cell; without one, the form of the tasks says it (C1)."""
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
        """Say what `async_execution` is read as (C3): here, what the graph allows runs at once."""
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

    def _make_conditions(self, section: Section, key: Key, value: list[Section]) -> tuple[Condition, ...]:
        return self._value_binder.make_each(section, key, value, self._make_condition)

    def _make_condition(self, section: Section) -> Condition:
        fields = self._value_binder.bind_fields(section)
        source = self._task_names.find(section.values["source"])
        if not fields.keys() - {"field"}:  # what is wrong with its test has been said
            raise MisreadError(section.place)
        return self._definition_builder.make(Condition, section, fields | {"source": source})

    def _find_reviewer(self, _: Section, __: Key, value: ScalarNode | Section) -> Any:
        """Make the reviewing task, or find the reviewing function of the notebook."""
        return self._make_task(value) if isinstance(value, Section) else self._resolver.find(value, FUNCTIONS)

    def _find_item_source(self, _: Section, __: Key, value: ScalarNode | list[Any]) -> Any:
        """Find whose items a task runs for: those of a task of the cell, or of a variable of the notebook (C4, E53)."""
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

    def _check_currency(self, top: Section) -> None:
        """Report a budget whose currency is not that of the prices."""
        budget, cost = top.values.get("budget"), top.values.get("cost")
        paid = cost.values.get("currency", _DOLLARS) if isinstance(cost, Section) else _DOLLARS
        given = budget.values.get(CURRENCY, paid) if isinstance(budget, Section) else paid
        if given != paid:
            hint = f"Write the amount in {paid}, or give your prices in {given} under `cost:`."
            place = top.key_values["budget"].value.place
            self._report.add_mistake(
                place, f"this budget is in {quote(given)}, and the prices are in {quote(paid)}.", hint
            )

    def _check_rules(self, ensemble: EnsembleDefinition) -> Graph | None:
        try:
            graph, self.warnings = check_ensemble(ensemble)
            list_known_items(graph, self._inputs)
        except ValidationError as error:
            for problem in error.problems:
                self._definition_builder.report_problem(problem)
            return None
        self._report_lacking(ensemble)
        self._warn_of_tools(graph)
        agents = [*self._agents.values(), *(node.agent for node in graph.all_tasks if node.agent is not None)]
        for problem in find_resolved_role_problems(list(dict.fromkeys(agents)), graph, self._inputs):
            self._definition_builder.report_problem(problem)
        return graph

    def _report_lacking(self, ensemble: EnsembleDefinition) -> None:
        """Report the ensembles that do tasks and lack values for their variables; only the tasks can give them."""
        for task, lacking in find_lacking_inside(ensemble):
            section = self._definition_builder.find_section(task) or self._top
            name = "inputs" if "inputs" in section.key_values else "ensemble"
            names = ", ".join(f"{{{each}}}" for each in lacking)
            example = ", ".join(f"{each}: ..." for each in lacking)
            message = f"the ensemble of {section.label} has no value for {names}."
            self._report.add_mistake(section.find_place(name), message, f"Give it one: `inputs: {{{example}}}`.")

    def _warn_of_tools(self, graph: Graph) -> None:
        """Warn of tools, delegation among them, where the model is the local one, which calls none (C4)."""
        for llm, owners in (
            *((node.llm, (node.task, node.agent)) for node in graph.all_tasks),
            *((member.llm, (member.agent,)) for member in graph.team),
        ):
            if isinstance(llm, str) and llm.partition(":")[0].strip() == "local":
                for owner in owners:
                    self._warn_owner(owner, llm)
        if graph.managed and graph.tasks[0].llm == "local":
            message = "the manager delegates by calling a tool, and its model 'local' does not call tools."
            self._report.add_notice(self._top.find_place("workflow"), message, is_warning=True)

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
