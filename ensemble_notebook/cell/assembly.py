"""From drafts to definitions: names resolved, chains linked, every rule of the definitions checked (C1, C4, C5, C10).

A draft with mistakes still becomes a definition, with a stand-in for what is wrong, so that the rules between
definitions are checked as well and all mistakes show at once. Reads no text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from dataclasses import fields as fields_of
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.draft import Draft, Group
from ensemble_notebook.cell.mistake import MisreadError, Report
from ensemble_notebook.cell.node import ScalarNode
from ensemble_notebook.cell.reference import AgentNames, PhaseNames, TaskNames
from ensemble_notebook.cell.resolver import Resolver, Unimported
from ensemble_notebook.cell.schema import Kind
from ensemble_notebook.cell.source import Place
from ensemble_notebook.cell.spelling import ASYNC_EXECUTION
from ensemble_notebook.domain.agent import Agent
from ensemble_notebook.domain.choice import Workflow
from ensemble_notebook.domain.cost import CostConfiguration
from ensemble_notebook.domain.definition import Checked
from ensemble_notebook.domain.ensemble import EnsembleDefinition
from ensemble_notebook.domain.graph import Graph
from ensemble_notebook.domain.phase import Phase
from ensemble_notebook.domain.rule import check_ensemble
from ensemble_notebook.domain.task import STOCK_EXPECTED_OUTPUT, Task
from ensemble_notebook.domain.template import render, variables
from ensemble_notebook.errors import Problem, ValidationError

AGENT_TEXTS: Final = ("role", "goal", "background")
TASK_TEXTS: Final = ("description", "expected_output")
_STAND_IN: Final = "?"
_MEMBERS: Final = frozenset({Kind.AGENTS, Kind.TASKS, Kind.PHASES, Kind.NAMES})

D = TypeVar("D", bound=Checked)
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
    """

    def __init__(self, top: Draft, resolver: Resolver, values: Mapping[str, Any], report: Report) -> None:
        self._top, self._resolver, self._inputs, self._report = top, resolver, values, report
        self._agents: dict[int, Agent] = {}
        self._made: dict[int, tuple[Any, Draft]] = {}
        self._kept: dict[tuple[int, str], list[ScalarNode]] = {}
        self._agent_drafts: list[Draft] = top.values.get("agents", [])
        self._phase_drafts: list[Draft] = top.values.get("phases", [])
        self._agent_names, self._phase_names = AgentNames(self._agent_drafts), PhaseNames(self._phase_drafts)

    def make(self, cls: type[E]) -> tuple[E, Graph | None]:
        """The ensemble and its graph, None where it breaks a rule; of use only if nothing was reported."""
        top = self._top
        self._agents = {id(draft): self._agent(draft) for draft in self._agent_drafts}
        fields = self._resolved(top) | {"agents": tuple(self._agents.values())}
        group = top.values.get("tasks")
        groups = [
            (each.values.get("name"), each.values["tasks"]) for each in self._phase_drafts if "tasks" in each.values
        ]
        names = TaskNames([*([] if group is None else [(None, group)]), *groups], self._report)
        if isinstance(group, Group):
            order = self._order(group, top)
            fields |= {"tasks": self._tasks(group, names, order), "workflow": order.workflow}
        if self._phase_drafts:
            fields["phases"] = tuple(self._phase(draft, names) for draft in self._phase_drafts)
        is_unclear = top.has_unknown or bool(top.written.keys() & {"tasks", "phases"})
        if is_unclear and "tasks" not in fields and "phases" not in fields:
            fields["tasks"] = (_stand_in_task(),)
        fields["inputs"] = dict(self._inputs)
        ensemble = self._construct(cls, top, fields)
        return ensemble, self._checked(ensemble)

    # members

    def _agent(self, draft: Draft) -> Agent:
        fields = self._resolved(draft)
        for name in AGENT_TEXTS:
            text = fields.get(name)
            if isinstance(text, str) and all(each in self._inputs for each in variables(text)):
                fields[name] = render(text, self._inputs)
        return self._construct(Agent, draft, fields)

    def _phase(self, draft: Draft, names: TaskNames) -> Phase:
        fields = self._resolved(draft)
        if "tasks" in draft.values:
            order = self._order(draft.values["tasks"], draft)
            fields |= {"tasks": self._tasks(draft.values["tasks"], names, order), "workflow": order.workflow}
        fields["after"] = self._references(draft, "after", self._phase_names.find)
        return self._construct(Phase, draft, fields)

    def _tasks(self, group: Group, names: TaskNames, order: _Order) -> tuple[Task, ...]:
        """The tasks of a group. In a chain, each that does not say otherwise reads the one before it (C1)."""
        made: list[Task] = []
        before: list[Task] = []
        beside: list[Task] = []
        for draft in group.drafts:
            is_beside = order.is_chain and _is_async(draft)
            fields = self._resolved(draft) | {"name": names.name_of(draft)}
            fields.setdefault("expected_output", STOCK_EXPECTED_OUTPUT)
            if "context" in draft.written:
                fields["context"] = self._references(draft, "context", names.find)
            elif order.is_chain:
                fields["context"] = tuple(before if is_beside or not beside else beside)
            made.append(self._construct(Task, draft, fields))
            if is_beside:
                beside.append(made[-1])
            else:
                before, beside = made[-1:], []
        return tuple(made)

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

    # values

    def _resolved(self, draft: Draft) -> dict[str, Any]:
        """The values of a draft with the notebook's names resolved, without its members and references."""
        found = {}
        for name, value in draft.values.items():
            key = draft.scope.keys.get(name)
            if key is None or key.kind in _MEMBERS:
                continue
            try:
                found[name] = self._value(key.kind, name, value)
            except MisreadError as misread:
                self._report.misread(misread)
        return found

    def _value(self, kind: Kind, name: str, value: Any) -> Any:
        if kind is Kind.MODEL:
            return self._model(value)
        if kind is Kind.AGENT:
            return self._agents[id(self._agent_names.find(value))]
        if kind is Kind.OBJECT:
            return self._resolver.function(value, "a function or tool")
        if kind is Kind.OBJECTS:
            what = "a tool" if name == "tools" else "a listener"
            return tuple(self._function(each, what) for each in value)
        if kind is Kind.COST:
            return self._construct(CostConfiguration, value, dict(value.values))
        return value

    def _function(self, node: ScalarNode, what: str) -> Any:
        """An item of a list of names; a stand-in where there is none, so that the others keep their places."""
        try:
            return self._resolver.function(node, what)
        except MisreadError as misread:
            self._report.misread(misread)
            return Unimported(node.text)

    def _model(self, value: Any) -> Any:
        if isinstance(value, ScalarNode):
            return self._resolver.model(value)
        return self._resolver.server(value) if isinstance(value, Draft) else value

    def _references(self, draft: Draft, name: str, find: Callable[[ScalarNode], str]) -> tuple[str, ...]:
        """References inside the cell; those that lead nowhere are reported and left out."""
        found, kept = [], []
        for node in draft.values.get(name, []):
            try:
                found.append(find(node))
                kept.append(node)
            except MisreadError as misread:
                self._report.misread(misread)
        self._kept[id(draft), name] = kept
        return tuple(found)

    # rules

    def _construct(self, cls: type[D], draft: Draft, fields: dict[str, Any]) -> D:
        """The definition; a field that it refuses is reported and replaced until it is made."""
        required = _required(cls)
        for name in required:
            fields.setdefault(name, _stand_in(cls, name))
        while True:
            try:
                made = cls(**fields)
            except ValidationError as error:
                for problem in error.problems:
                    self._report_problem(problem, draft)
                    if problem.field not in fields:
                        raise MisreadError(draft.place) from error
                    del fields[problem.field]
                    if problem.field in required:
                        fields[problem.field] = _stand_in(cls, problem.field)
            else:
                self._made[id(made)] = (made, draft)
                return made

    def _checked(self, ensemble: EnsembleDefinition) -> Graph | None:
        try:
            graph, _ = check_ensemble(ensemble)
        except ValidationError as error:
            for problem in error.problems:
                draft = self._made.get(id(problem.subject), (None, self._top))[1]
                self._report_problem(problem, draft)
            return None
        self._warn_of_tools(graph)
        return graph

    def _report_problem(self, problem: Problem, draft: Draft) -> None:
        key = draft.scope.keys.get(problem.field or "")
        hint = f"{key.name}: {key.meaning}." if key is not None else ""
        self._report.mistake(self._place(draft, problem.field, problem.item), problem.message, hint)

    def _place(self, draft: Draft, name: str | None, item: int | str | None) -> Place:
        members = self._kept.get((id(draft), name or ""), draft.values.get(name or ""))
        if isinstance(item, int) and isinstance(members, list) and item < len(members):
            place: Place = members[item].place
            return place
        return draft.place_of(name, item)

    def _warn_of_tools(self, graph: Graph) -> None:
        """The local model calls no tools (C4)."""
        for node in graph.tasks:
            if not isinstance(node.llm, str) or node.llm.partition(":")[0].strip() != "local":
                continue
            for owner in (node.task, node.agent):
                if owner is not None and owner.tools and id(owner) in self._made:
                    draft = self._made[id(owner)][1]
                    message = f"{draft.label} has tools, but its model {node.llm!r} does not call tools."
                    self._report.notice(draft.written["tools"].key, message, is_warning=True)


def _is_async(draft: Draft) -> bool:
    return draft.values.get(ASYNC_EXECUTION) is True


def _required(cls: type[Any]) -> list[str]:
    return [each.name for each in fields_of(cls) if each.default is MISSING and each.default_factory is MISSING]


def _stand_in_task() -> Task:
    return Task(description=_STAND_IN, expected_output=_STAND_IN)


def _stand_in(cls: type, name: str) -> Any:
    if name == "tasks":
        return (_stand_in_task(),)
    return 0 if cls is CostConfiguration else _STAND_IN
