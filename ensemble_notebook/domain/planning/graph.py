"""Resolves definitions into a graph of numbered nodes: names are given, agents found, references followed.

Only this module knows how a list of tasks becomes an order. Everything after it (rules, plan, scheduler, views) refers
to nodes by number or name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain.definitions.agent import INHERIT, Agent, get_core_llm
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.limits import CostConfiguration, find_rates
from ensemble_notebook.domain.definitions.nested_ensemble import MAX_DEPTH
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.review import explain_answers
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import find_input_name
from ensemble_notebook.errors import Pickled, Problem, describe_parts, did_you_mean, get_state

DEFAULT_LLM: Final = "local"

_VERBS: Final = {
    "context": "reads",
    "when": "has a condition on",
    "until": "is done until a condition holds on",
    "after": "comes after",
    "for_each": "runs for each item of",
}
_ANSWERS: Final = frozenset({"APPROVE", "RETRY", "REJECT"})


@dataclass(frozen=True, slots=True, eq=False)
class ConditionNode(Pickled):
    """One condition in its place: its number, and the index of the task whose output it tests."""

    index: int
    condition: Condition
    source: int


# Not frozen: one is made for each task, and setting the fields of a frozen one takes twice as long.
@dataclass(slots=True, eq=False)
class TaskNode(Pickled):
    """One task in its place.

    Attributes:
        index: position among all tasks, from 0.
        name: unique in the graph.
        agent: who works on it, derived where the task names none; None for a handler and for an ensemble.
        llm: the model object or spec that is used; None where there is no agent.
        rates: what it costs: as stands beside it, else by its ensemble's; None: by the public price list.
        fallback: who takes over where that agent fails, or None.
        fallback_llm, fallback_rates: the model of the fallback; None where there is none.
        phase: index of its phase, or None in a flat graph.
        context: indices of the tasks whose outputs it reads, in order.
        is_chained: True where list order is running order (SEQUENTIAL).
        after: index of the task that must have been *resolved* before a chained one starts; None for the first.
        when: numbers of its conditions, of which one must hold; it runs unconditionally where there are none.
        sources: indices of the tasks that its conditions test, in order.
        item_source: index of the task for whose items it runs; None where they come from elsewhere, or it runs once.
        nested: of the ensemble that does it, where one does; None, too, where that would be too deep.
    """

    index: int
    name: str
    task: Task
    agent: Agent | None
    llm: Any
    phase: int | None = None
    context: tuple[int, ...] = ()
    is_chained: bool = False
    after: int | None = None
    rates: CostConfiguration | None = None
    fallback: Agent | None = None
    fallback_llm: Any = None
    fallback_rates: CostConfiguration | None = None
    when: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    item_source: int | None = None
    nested: Graph | None = None

    def _get_pickled_state(self) -> dict[str, Any]:
        """The fields, without the models."""
        return get_state(self) | {
            name: describe_parts("model", getattr(self, name)) for name in ("llm", "fallback_llm")
        }

    @property
    def role(self) -> str:
        """The agent's role, or ``"Handler"``, or ``"Ensemble"``."""
        return find_role_of_nobody(self.task) if self.agent is None else self.agent.role


@dataclass(frozen=True, slots=True, eq=False)
class PhaseNode(Pickled):
    """One phase in its place.

    Attributes:
        index: position among all phases, from 0.
        name: unique in the graph.
        tasks: indices of its tasks.
        after: indices of its declared predecessors.
        when: numbers of its conditions, of which one must hold.
        sources: indices of the phases that hold the tasks which its conditions test.
        reviewer: the task that reviews it; it stands in no list and its index is beyond those of all tasks.
        until: numbers of the conditions of which one must hold, else it is done again.
    """

    index: int
    name: str
    phase: Phase
    workflow: Workflow
    tasks: tuple[int, ...]
    after: tuple[int, ...]
    when: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    reviewer: TaskNode | None = None
    until: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TeamMember(Pickled):
    """A member of a team: an agent, its model, and its role as declared, before variables are filled in."""

    agent: Agent
    llm: Any
    declared_role: str
    rates: CostConfiguration | None = None

    def _get_pickled_state(self) -> dict[str, Any]:
        """The fields, without the model."""
        return get_state(self) | {"llm": describe_parts("model", self.llm)}


@dataclass(frozen=True, slots=True, eq=False)
class Graph(Pickled):
    """All nodes of an ensemble.

    Attributes:
        problems: the references that could not be followed.
        team: who can be asked to work by delegation; empty where nobody delegates.
        managed: of a hierarchical ensemble, the tasks that its only node, the manager, sees to.
    """

    tasks: tuple[TaskNode, ...]
    phases: tuple[PhaseNode, ...]
    problems: tuple[Problem, ...]
    conditions: tuple[ConditionNode, ...] = ()
    team: tuple[TeamMember, ...] = ()
    managed: tuple[TaskNode, ...] = ()

    @property
    def all_tasks(self) -> tuple[TaskNode, ...]:
        """All tasks that may be worked on: those of the plan, and the reviewers of phases."""
        return (*self.tasks, *(phase.reviewer for phase in self.phases if phase.reviewer is not None))

    def get_context_names(self, node: TaskNode) -> tuple[str, ...]:
        """Get the names of the tasks that a task reads."""
        return tuple(self.tasks[index].name for index in node.context)

    def get_phase_name(self, node: TaskNode) -> str | None:
        """Get the name of a task's phase."""
        return None if node.phase is None else self.phases[node.phase].name


def get_llm_key(llm: Any) -> object:
    """A key that identifies a model: specs by value, objects by identity."""
    return llm if isinstance(llm, str) else id(llm)


def build_graph(ensemble: EnsembleDefinition, depth: int = 0) -> Graph:
    """Resolve an ensemble. Never raises: what can't be resolved is left out and listed in ``problems``.

    Args:
        ensemble: the definition.
        depth: how many ensembles it is nested in.
    """
    return _GraphBuilder(ensemble, depth).build()


class _GraphBuilder:
    """Follows the references of one ensemble."""

    def __init__(self, ensemble: EnsembleDefinition, depth: int) -> None:
        self._ensemble = ensemble
        self._depth = depth
        self._groups = [phase.tasks for phase in ensemble.phases] if ensemble.phases else [ensemble.tasks]
        self._phase_of = [number for number, group in enumerate(self._groups) for _ in group]
        tasks = [task for group in self._groups for task in group]
        self._problems: list[Problem] = []
        self._names = name_tasks(tasks, self._problems)
        self._find_task = _make_finder("task", tasks, self._names, self._problems)
        phase_names = [phase.name for phase in ensemble.phases]
        self._find_phase = _make_finder("phase", ensemble.phases, phase_names, self._problems)
        self._tasks: list[TaskNode] = []
        self._phases: list[PhaseNode] = []
        self._conditions: list[ConditionNode] = []

    def build(self) -> Graph:
        for number, group in enumerate(self._groups):
            phase = self._ensemble.phases[number] if self._ensemble.phases else None
            workflow = (phase and phase.workflow) or self._ensemble.workflow
            first = len(self._tasks)
            for task in group:
                self._add_task(task, None if phase is None else number, workflow, is_first=len(self._tasks) == first)
            if phase is not None:
                self._add_phase(phase, workflow, tuple(range(first, len(self._tasks))))
        return Graph(tuple(self._tasks), tuple(self._phases), tuple(self._problems), tuple(self._conditions))

    def _add_task(self, task: Task, phase: int | None, workflow: Workflow, *, is_first: bool) -> None:
        index = len(self._tasks)
        node = self._make_node(task, index, self._names[index], phase)
        node.is_chained = workflow is Workflow.SEQUENTIAL
        node.after = index - 1 if node.is_chained and not is_first else None
        node.when, node.sources = self._add_conditions(task)
        source = task.for_each
        is_task = isinstance(source, Task) or (isinstance(source, str) and not find_input_name(source))
        if is_task:  # for whose items this one runs
            node.item_source = next(iter(self._find_task(task, "for_each", [source])), None)
        self._tasks.append(node)

    def _make_node(self, task: Task, index: int, name: str, phase: int | None, told: Task | None = None) -> TaskNode:
        """A task in its place, as it is told to whoever works on it."""
        context, told = self._find_task(task, "context", task.context), told or task
        agent = (told.agent or derive_agent(told.description)) if told.has_agent else None
        llm = NO_MODEL if agent is None else resolve_llm(agent, self._ensemble, told.llm)
        fallback_llm = NO_MODEL if told.fallback is None else resolve_llm(told.fallback, self._ensemble)
        inner: Any = told.ensemble
        return TaskNode(
            index=index,
            name=name,
            task=told,
            agent=agent,
            llm=llm.llm,
            rates=llm.rates,
            phase=phase,
            context=context,
            fallback=told.fallback,
            fallback_llm=fallback_llm.llm,
            fallback_rates=fallback_llm.rates,
            nested=None if inner is None or self._depth == MAX_DEPTH else build_graph(inner, self._depth + 1),
        )

    def _add_phase(self, phase: Phase, workflow: Workflow, tasks: tuple[int, ...]) -> None:
        index = len(self._phases)
        after = self._find_phase(phase, "after", phase.after)
        when, tested = self._add_conditions(phase)
        sources = [each for each in dict.fromkeys(self._phase_of[task] for task in tested) if each != index]
        node = PhaseNode(
            index=index,
            name=phase.name,
            phase=phase,
            workflow=workflow,
            tasks=tasks,
            after=after,
            when=when,
            sources=tuple(sources),
            reviewer=self._make_reviewer(phase, index, [self._names[each] for each in tasks]),
            until=self._add_conditions(phase, "until")[0],
        )
        self._phases.append(node)

    def _add_conditions(self, owner: Task | Phase, field: str = "when") -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the conditions in a field of an owner, and the tasks that they test."""
        if not (conditions := getattr(owner, field)):
            return (), ()
        first = len(self._conditions)
        for item, condition in enumerate(conditions):
            for source in self._find_task(owner, field, [condition.source], item):
                self._conditions.append(ConditionNode(len(self._conditions), condition, source))
        found = self._conditions[first:]
        return tuple(each.index for each in found), tuple(dict.fromkeys(each.source for each in found))

    def _make_reviewer(self, phase: Phase, index: int, tasks: Sequence[str]) -> TaskNode | None:
        """Make the task that reviews a phase of these tasks; told how to answer, where its own text does not say."""
        task = None if phase.review is None else phase.review.by
        if not isinstance(task, Task):
            return None
        told = task
        if not _ANSWERS.intersection(re.findall(r"[A-Z]+", f"{task.description} {task.expected_output}")):
            field = "expected_output" if task.prompt is None else "prompt"
            changed: dict[str, Any] = {field: f"{getattr(task, field)}\n\n{explain_answers(tasks)}"}
            told = replace(task, **changed)
        return self._make_node(task, len(self._names) + index, f"{phase.name}.{task.name or 'review'}", index, told)


class ResolvedModel(NamedTuple):
    """A model object or spec that is used, and what it costs; `rates` as of a `TaskNode`."""

    llm: Any
    rates: CostConfiguration | None


NO_MODEL: Final = ResolvedModel(None, None)


def resolve_llm(agent: Agent, ensemble: EnsembleDefinition, llm: Any = None) -> ResolvedModel:
    """Resolve the model of an agent: `llm` where that is given, its own, the ensemble's, else the default."""
    if llm is None:
        llm = agent.llm if agent.llm is not INHERIT else ensemble.llm
    return price_llm(DEFAULT_LLM if llm is None else llm, ensemble)


def price_llm(llm: Any, ensemble: EnsembleDefinition) -> ResolvedModel:
    """A model as it is given, and what it costs in an ensemble."""
    return ResolvedModel(get_core_llm(llm), find_rates(llm, ensemble.cost))


def _make_finder(
    kind: str, members: Sequence[Any], names: Sequence[str], problems: list[Problem]
) -> Callable[..., tuple[int, ...]]:
    """Make a function from references (objects or names) to indices; what is unknown becomes a problem.

    It takes their owner, the field that holds them, the references, and the place of the first one in the field.
    """
    by_identity = {id(member): index for index, member in enumerate(members)}
    by_name = {name: index for index, name in reversed(list(enumerate(names)))}

    def find(owner: Any, field: str, references: Iterable[Any], first: int = 0) -> tuple[int, ...]:
        found = []
        for item, reference in enumerate(references, start=first):
            index = by_name.get(reference) if isinstance(reference, str) else by_identity.get(id(reference))
            if index is not None:
                found.append(index)
                continue
            own = by_identity.get(id(owner))  # phases and reviewers have names of their own
            label = f"{type(owner).__name__} {str(owner.name) if own is None else names[own]!r}"
            if isinstance(reference, str):
                hint = did_you_mean(reference, names)
                if field == "for_each":
                    hint += f' For an input of the run, write "{{{reference}}}".'
                message = f"{label}: {field} names {kind} {reference!r}, which is not there.{hint}"
            else:
                likeness = _describe_likeness(reference, members, names)
                where = f"which is not in the list of {kind}s of this ensemble.{likeness}"
                message = f"{label} {_VERBS[field]} {reference!r}, {where}"
            problems.append(Problem(message, owner, field, item))
        return tuple(dict.fromkeys(found))

    return find


def _describe_likeness(missing: Any, members: Sequence[Any], names: Sequence[str]) -> str:
    """Say which member looks just like one that is missing: a copy is another object."""
    for member, name in zip(members, names, strict=True):
        if repr(member) == repr(missing):
            return f" {name!r} in it looks the same and is another object, as a copy is: refer to that one, or by name."
    return " Put it into the list, or refer to one that is there."


# Agents for tasks that name none are derived from the first verb of the description, without a model call.


HANDLER_ROLE: Final = "Handler"
ENSEMBLE_ROLE: Final = "Ensemble"

# By role the goal, and the verbs that it is known by.
_ROLES: Final = {
    "Researcher": (
        "Find facts that are relevant, and can be relied on.",
        "research find search gather collect investigate explore discover look survey list",
    ),
    "Writer": (
        "Write texts that are clear, and fit those who read them.",
        "write draft compose author describe tell explain document blog name",
    ),
    "Analyst": (
        "Find out what the facts mean, and say how sure that is.",
        "analyse analyze compare evaluate assess examine measure study interpret rank",
    ),
    "Editor": (
        "Make texts better without changing what they say.",
        "edit revise rewrite polish proofread improve shorten correct",
    ),
    "Summarizer": (
        "Say in few words what matters, and leave nothing out that does.",
        "summarise summarize condense digest distil distill recap",
    ),
    "Reviewer": (
        "Judge work fairly, and say exactly what is wrong with it.",
        "review critique check verify validate audit judge",
    ),
    "Planner": (
        "Make plans that can be carried out, step by step.",
        "plan schedule outline organise organize prioritise prioritize",
    ),
    "Designer": ("Design what is simple to use, and does what it is for.", "design sketch draw layout prototype"),
    "Developer": (
        "Write code that is correct, and easy to read.",
        "code implement program build develop refactor debug fix",
    ),
    "Tester": ("Find out what works and what does not, and show how.", "test try benchmark"),
    "Translator": ("Translate faithfully, into natural language.", "translate localise localize"),
    "Extractor": (
        "Take out exactly what was asked for, as it stands in the source.",
        "extract parse classify label tag categorise categorize",
    ),
    "Calculator": ("Compute exactly, and check the result.", "calculate compute count sum estimate"),
    "Advisor": (
        "Give advice that can be followed, with its reasons.",
        "recommend suggest advise propose decide choose answer",
    ),
    "Agent": ("Do the task well.", ""),
}
_ROLE_OF_VERB: Final = {verb: role for role, (_, verbs) in _ROLES.items() for verb in verbs.split()}
_WORD: Final = re.compile(r"[A-Za-z]+")


def derive_role(description: str) -> str:
    """Derive the role that fits the first known verb among the first words of a description, else ``"Agent"``."""
    for match in list(_WORD.finditer(description))[:4]:
        if role := _ROLE_OF_VERB.get(match[0].lower()):
            return role
    return "Agent"


@functools.lru_cache(maxsize=1024)  # most tasks share a few roles
def make_role_slug(role: str) -> str:
    """A role as part of names: lower-case ASCII letters, digits and underscores; ``"task"`` if nothing remains."""
    return re.sub(r"[^a-z0-9]+", "_", role.lower()).strip("_") or "task"


def derive_agent(description: str) -> Agent:
    """Derive the agent of an agentless task. Its goal is that of its role: the user prompt has the task's text."""
    return _make_agent(derive_role(description))


@functools.cache  # one for each role: agents are immutable, and a cell may have thousands of tasks
def _make_agent(role: str) -> Agent:
    return Agent(role=role, goal=_ROLES[role][0])


def name_tasks(tasks: Sequence[Task], problems: list[Problem]) -> list[str]:
    """Given names, and readable ones from role and position for the others."""
    taken: dict[str, Task] = {}
    for task in tasks:
        if task.name is not None:
            if taken.get(task.name, task) is not task:
                problems.append(Problem(f"Task name {task.name!r} stands twice. Give each task its own.", task, "name"))
            taken.setdefault(task.name, task)
    names = []
    for position, task in enumerate(tasks, start=1):
        if (name := task.name) is None:
            worker = task.agent.role if task.agent else derive_role(task.description)
            stem, bump = make_role_slug(worker if task.has_agent else find_role_of_nobody(task)), 1
            name = f"{stem}_{position}"
            while name in taken:
                bump += 1
                name = f"{stem}_{position}_{bump}"
            taken[name] = task
        names.append(name)
    return names


def find_role_of_nobody(task: Task) -> str:
    """The role that a task shows which no agent does."""
    return HANDLER_ROLE if task.ensemble is None else ENSEMBLE_ROLE
