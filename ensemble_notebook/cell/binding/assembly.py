"""From drafts to definitions: chains linked, references followed, every rule of the definitions checked (C1, C5, C10).

Reads no text; names of the notebook are `binding`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.binding.bindings import Binding
from ensemble_notebook.cell.binding.constraints import Roles
from ensemble_notebook.cell.binding.definitions import Construction, stand_in_task
from ensemble_notebook.cell.binding.names import FUNCTIONS, Resolver
from ensemble_notebook.cell.binding.references import AgentNames, PhaseNames, TaskNames
from ensemble_notebook.cell.language.amounts import CURRENCY
from ensemble_notebook.cell.language.cell_schema import AGENT, PHASE, TASK, Key
from ensemble_notebook.cell.language.spellings import ASYNC_EXECUTION
from ensemble_notebook.cell.language.vocabulary import Kind
from ensemble_notebook.cell.reading.drafts import Draft, Group
from ensemble_notebook.cell.text.mistakes import MisreadError, Report, quoted
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT, Task
from ensemble_notebook.domain.definitions.templates import render, variables
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.rules.ensemble_rules import check_ensemble
from ensemble_notebook.errors import ValidationError

_DOLLARS: Final = "USD"

E = TypeVar("E", bound=EnsembleDefinition)


@dataclass(frozen=True, slots=True)
class _Order:
    """How the tasks of a group follow each other; in a chain they read the ones before them."""

    workflow: Any
    is_chain: bool


class Assembly:
    """One making of a cell's definitions.

    Args:
        top: the draft of the cell.
        resolver: finds the names of the notebook.
        values: of template variables; agents' texts are filled in here, tasks' when they run (E6).
        report: gets every mistake and notice.

    Attributes:
        warnings: what the rules say about an ensemble that can run.
    """

    def __init__(self, top: Draft, resolver: Resolver, values: Mapping[str, Any], report: Report) -> None:
        self._top, self._resolver, self._inputs, self._report = top, resolver, values, report
        self.warnings: tuple[str, ...] = ()
        self._construction = Construction(top, report)
        self._agent_drafts: list[Draft] = top.values.get("agents", [])
        self._phase_drafts: list[Draft] = top.values.get("phases", [])
        self._agents: dict[int, Agent] = {}
        self._agent_names, self._phase_names = AgentNames(self._agent_drafts), PhaseNames(self._phase_drafts)
        groups = [each for each in self._phase_drafts if "tasks" in each.values]
        self._task_names = TaskNames(
            [
                *([(None, top.values["tasks"])] if "tasks" in top.values else []),
                *((each.values.get("name"), each.values["tasks"]) for each in groups),
            ],
            report,
        )
        roles = Roles(self._role_of, self._construction, report)
        self._binding = Binding(resolver, self._construction, report)
        self._binding.binders = {
            **self._binding.binders,
            **dict.fromkeys((Kind.AGENTS, Kind.TASKS, Kind.PHASES, Kind.NAMES)),
            Kind.AGENT: self._worker,
            Kind.WORKER: self._worker,
            Kind.WHEN: self._conditions,
            Kind.PHASE_REVIEW: self._binding.made,
            Kind.REVIEWER: self._reviewer,
            Kind.ROLES: roles.listed,
            Kind.CAPS: roles.capped,
            Kind.STAGES: roles.staged,
        }

    def make(self, cls: type[E]) -> tuple[E, Graph | None]:
        """The ensemble and its graph, None where it breaks a rule; of use only if nothing was reported."""
        top = self._top
        self._agents = {id(draft): self._agent(draft) for draft in self._agent_drafts}
        fields = self._binding.fields(top) | {"agents": tuple(self._agents.values())}
        self._check_currency(top)
        group = top.values.get("tasks")
        if isinstance(group, Group):
            order = self._order(group, top)
            fields |= {"tasks": self._tasks(group.drafts, order), "workflow": order.workflow}
        if self._phase_drafts:
            fields["phases"] = tuple(self._phase(draft) for draft in self._phase_drafts)
        is_unclear = top.has_unknown or bool(top.written.keys() & {"tasks", "phases"})
        if is_unclear and "tasks" not in fields and "phases" not in fields:
            fields["tasks"] = (stand_in_task(),)
        fields["inputs"] = dict(self._inputs)
        ensemble = self._construction.make(cls, top, fields)
        return ensemble, self._checked(ensemble)

    # members

    def _agent(self, draft: Draft) -> Agent:
        fields = self._binding.fields(draft)
        for name in AGENT.template_keys:
            text = fields.get(name)
            if isinstance(text, str) and all(each in self._inputs for each in variables(text)):
                fields[name] = render(text, self._inputs)
        return self._construction.make(Agent, draft, fields)

    def _phase(self, draft: Draft) -> Phase:
        fields = self._binding.fields(draft)
        if "tasks" in draft.values:
            group: Group = draft.values["tasks"]
            order = self._order(group, draft)
            fields["tasks"] = self._tasks(group.drafts, order)
            if order.workflow != Workflow.HIERARCHICAL or "workflow" in draft.values:
                fields["workflow"] = order.workflow
        fields["after"] = self._references(draft, PHASE.keys["after"], self._phase_names.find)
        return self._construction.make(Phase, draft, fields)

    def _tasks(self, drafts: list[Draft], order: _Order) -> tuple[Task, ...]:
        """The tasks of a group. In a chain, each that does not say otherwise reads the one before it (C1)."""
        made: list[Task] = []
        before: list[Task] = []
        beside: list[Task] = []
        for draft in drafts:
            is_beside = order.is_chain and _is_async(draft)
            context = tuple(before if is_beside or not beside else beside) if order.is_chain else ()
            made.append(self._task(draft, context))
            if is_beside:
                beside.append(made[-1])
            else:
                before, beside = made[-1:], []
        return tuple(made)

    def _task(self, draft: Draft, context: tuple[Task, ...] = ()) -> Task:
        """One task, which reads `context` where it does not say otherwise."""
        fields = self._binding.fields(draft) | {"context": context}
        if (name := self._task_names.name_of(draft)) is not None:
            fields["name"] = name
        fields.setdefault("expected_output", STOCK_EXPECTED_OUTPUT)
        if "context" in draft.written:
            fields["context"] = self._references(draft, TASK.keys["context"], self._task_names.find)
        return self._construction.make(Task, draft, fields)

    def _order(self, group: Group, owner: Draft) -> _Order:
        """What is written, here or for the whole cell, else what the form of the tasks says (C1)."""
        given = next((each for each in (owner, self._top) if "workflow" in each.values), None)
        written = None if given is None else given.values["workflow"]
        for draft in group.drafts:
            if ASYNC_EXECUTION in draft.written:
                self._say_async(draft, group, written)
        if written is not None:
            return _Order(written, group.is_list and str(written).lower() == Workflow.SEQUENTIAL)
        if not group.is_list:
            return _Order(Workflow.PARALLEL, is_chain=False)
        is_beside = any(map(_is_async, group.drafts))
        return _Order(Workflow.PARALLEL if is_beside else Workflow.SEQUENTIAL, is_chain=True)

    def _say_async(self, draft: Draft, group: Group, workflow: Any) -> None:
        """What `async_execution` is read as (C3): concurrency here is what the graph allows."""
        place = draft.written[ASYNC_EXECUTION].key
        if not _is_async(draft):
            self._report.notice(place, f"'{ASYNC_EXECUTION}: false' is how tasks of a chain run; it is not needed.")
        elif str(workflow).lower() == Workflow.SEQUENTIAL:
            hint = "Remove `workflow: sequential` or this line."
            self._report.mistake(place, f"{ASYNC_EXECUTION!r} contradicts the workflow 'sequential'.", hint)
        elif group.is_list and workflow is None:
            message = (
                f"{ASYNC_EXECUTION!r}: {draft.label} runs beside its neighbours; the next task without it reads them."
            )
            self._report.notice(place, message)
        else:
            self._report.notice(place, f"{ASYNC_EXECUTION!r} is how every task of a graph runs; it is not needed.")

    # references inside the cell

    def _worker(self, _: Draft, __: Key, value: ScalarNode | Draft) -> Agent:
        """An agent by its name, or one that stands where it is used."""
        return self._agent(value) if isinstance(value, Draft) else self._agents[id(self._agent_names.find(value))]

    def _role_of(self, node: ScalarNode) -> str:
        """The role of an agent that is named by its key; any other word is taken for a role."""
        draft = self._agent_names.by_key(node.text)
        return (node.text if draft is None else self._agents[id(draft)].role).strip()

    def _conditions(self, draft: Draft, key: Key, value: list[Draft]) -> tuple[Condition, ...]:
        return self._binding.each(draft, key, value, self._condition)

    def _condition(self, draft: Draft) -> Condition:
        fields = self._binding.fields(draft)
        source = self._task_names.find(draft.values["source"])
        if not fields:  # what is wrong with its test has been said
            raise MisreadError(draft.place)
        return self._construction.make(Condition, draft, fields | {"source": source})

    def _reviewer(self, _: Draft, __: Key, value: ScalarNode | Draft) -> Any:
        """A task, or a function of the notebook."""
        return self._task(value) if isinstance(value, Draft) else self._resolver.find(value, FUNCTIONS)

    def _references(self, draft: Draft, key: Key, find: Callable[[ScalarNode], str]) -> tuple[str, ...]:
        """References inside the cell; those that lead nowhere are reported and left out."""
        return self._binding.each(draft, key, draft.values.get(key.name, []), find)

    # rules

    def _check_currency(self, top: Draft) -> None:
        """A budget is in the currency of the prices."""
        budget, cost = top.values.get("budget"), top.values.get("cost")
        paid = cost.values.get("currency", _DOLLARS) if isinstance(cost, Draft) else _DOLLARS
        given = budget.values.get(CURRENCY, paid) if isinstance(budget, Draft) else paid
        if given != paid:
            hint = f"Write the amount in {paid}, or give your prices in {given} under `cost:`."
            place = top.written["budget"].value.place
            self._report.mistake(
                place, f"this budget is in {quoted(given)}, and the prices are in {quoted(paid)}.", hint
            )

    def _checked(self, ensemble: EnsembleDefinition) -> Graph | None:
        try:
            graph, self.warnings = check_ensemble(ensemble)
        except ValidationError as error:
            for problem in error.problems:
                self._construction.report(problem)
            return None
        self._warn_of_tools(graph)
        return graph

    def _warn_of_tools(self, graph: Graph) -> None:
        """The local model calls no tools, delegation among them (C4)."""
        for llm, owners in (
            *((node.llm, (node.task, node.agent)) for node in graph.workers),
            *((member.llm, (member.agent,)) for member in graph.team),
        ):
            if isinstance(llm, str) and llm.partition(":")[0].strip() == "local":
                for owner in owners:
                    self._warn_owner(owner, llm)
        if graph.managed and graph.tasks[0].llm == "local":
            message = "the manager delegates by calling a tool, and its model 'local' does not call tools."
            self._report.notice(self._top.place_of("workflow"), message, is_warning=True)

    def _warn_owner(self, owner: Task | Agent | None, llm: str) -> None:
        draft = self._construction.draft_of(owner)
        if owner is None or draft is None:
            return
        if owner.tools:
            message = f"{draft.label} has tools, but its model {llm!r} does not call tools."
            self._report.notice(draft.written["tools"].key, message, is_warning=True)
        if isinstance(owner, Agent) and owner.allow_delegation:
            message = f"{draft.label} may delegate, but its model {llm!r} does not call tools."
            self._report.notice(draft.written["allow_delegation"].key, message, is_warning=True)


def _is_async(draft: Draft) -> bool:
    return draft.values.get(ASYNC_EXECUTION) is True
