"""What a fork would keep and do anew, and what of it may have effects, before anything is done (F2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode, ReviewTiming
from ensemble_notebook.domain.definitions.templates import find_first_texts
from ensemble_notebook.domain.definitions.tool import ToolSource, is_reviewed, list_told_names
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.outputs.secrets import Record, mask
from ensemble_notebook.domain.planning.delegation import add_team, build_team_graph
from ensemble_notebook.domain.planning.ensemble_texts import list_texts
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, price_llm
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.ensemble.earlier_runs.dependence import find_path, list_around
from ensemble_notebook.ensemble.earlier_runs.forking import GIVEN, ForkedRun
from ensemble_notebook.ensemble.ensemble_tool import find_ensemble
from ensemble_notebook.ensemble.run_settings import write_inputs
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

Fate = Literal["kept", "anew", "given", "left out"]
EffectKind = Literal["tool", "MCP server", "handler", "memory", "exporter"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ForkedTask(Record):
    """What becomes of a task in a fork.

    Attributes:
        name: of the task; of one inside an ensemble that does a task, behind the names of these.
        fate: ``"kept"``, ``"anew"``, ``"given"`` by the fork, or ``"left out"`` for ``until=``.
        reason: why.
    """

    name: str
    fate: Fate
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ForkEffect(Record):
    """Something that a fork may do to the world.

    Attributes:
        kind: ``"tool"``, ``"MCP server"``, ``"handler"``, ``"memory"`` or ``"exporter"``.
        name: of the function, server, scope or file.
        task: in which; empty for what comes after the run.
        agent: who may use it; empty where none does.
        is_asked: whether somebody is asked before each call.
        call_count: how often it was called in what is done anew, in the run that is forked; None where nobody counts.
    """

    kind: EffectKind
    name: str
    task: str = ""
    agent: str = ""
    is_asked: bool = False
    call_count: int | None = None

    def describe(self) -> str:
        """Where it is used, and how, in words."""
        place = f"in {self.task}" if self.task else "after the run"
        calls = None
        if self.call_count is not None:
            calls = pluralize(self.call_count, "call") if self.call_count else "not called"
            calls += " in the run from there on"
        asked = "asked about before each call" if self.is_asked else None
        return ", ".join(filter(None, [f"{place} by {self.agent}" if self.agent else place, calls, asked]))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ForkPlan(Record):
    """What a fork would do: ``output.fork(span, reply="...", plan=True)``. Nothing has been asked or called.

    Attributes:
        run_id: of the run that would be forked.
        span_id: of the span where.
        place: what is there, in words.
        changed: the arguments that would be different.
        tasks: what becomes of each, in the order of the plan.
        effects: all that may run with effects, once for each task.
        kept_call_count: how many model calls of the run would be kept, and so cost nothing.
        anew_call_count: how many of them would be made anew; a model that replies otherwise may lead to others.
        estimate: of what is done anew, each task from its start; None where nobody can tell.
        warnings: what a run would warn of.
    """

    run_id: str
    span_id: str
    place: str
    changed: tuple[str, ...]
    tasks: tuple[ForkedTask, ...]
    effects: tuple[ForkEffect, ...]
    kept_call_count: int
    anew_call_count: int
    estimate: CostEstimate | None = None
    warnings: tuple[str, ...] = ()

    def list_tasks(self, fate: Fate) -> tuple[ForkedTask, ...]:
        """The tasks of which this becomes.

        Args:
            fate: one of those of a `ForkedTask`.
        """
        return tuple(each for each in self.tasks if each.fate == fate)

    @property
    def title(self) -> str:
        """The run, the place and what is different there, in a line."""
        changed = f" with {' and '.join(f'{name}=' for name in self.changed)}" if self.changed else ", asked again"
        return f"A fork of run {self.run_id} at {self.place}{changed}"

    @property
    def calls(self) -> str:
        """What becomes of the model calls of the run, in a line."""
        return f"Of its model calls, {self.kept_call_count:,} are kept, and {self.anew_call_count:,} made anew."

    def __str__(self) -> str:
        """All of it, as lines for people."""
        lines = [self.title]
        for fate in FATES:
            found: dict[str, list[str]] = {}
            for each in self.list_tasks(fate):
                found.setdefault(each.reason, []).append(each.name)
            lines += [f"  {fate:<9} {', '.join(names)} ({reason})" for reason, names in found.items()]
        lines.append("May run with effects:" if self.effects else "Nothing runs that has effects.")
        names = max((len(each.name) for each in self.effects), default=0)
        lines += [f"  {each.kind:<10}  {each.name:<{names}}  {each.describe()}" for each in self.effects]
        lines.append(self.calls)
        lines += [] if self.estimate is None else [f"Estimate: {self.estimate}"]
        return mask("\n".join([*lines, *(f"Warning: {each}" for each in self.warnings)]))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("fork_plan", self)


FATES: Final[tuple[Fate, ...]] = ("kept", "given", "anew", "left out")


class _Place(NamedTuple):
    """A task where it is: in the run itself, or in ensembles that do tasks of it."""

    prefix: str
    ensemble: EnsembleDefinition
    graph: Graph
    node: TaskNode

    @property
    def path(self) -> str:
        """What its results are kept under."""
        return self.prefix + make_task_path(self.node.name, self.graph.get_phase_name(self.node))


def make_fork_plan(ensemble: EnsembleDefinition, spec: RunSpec, forked: ForkedRun) -> ForkPlan:
    """The plan of a fork.

    Args:
        ensemble: what would run.
        spec: of that run.
        forked: the run that it forks.
    """
    fates = _Fates(spec, forked)
    places = [_Place("", ensemble, spec.graph, node) for node in spec.graph.all_tasks]
    tasks: list[ForkedTask] = []
    effects: list[ForkEffect] = []
    anew = set[int]()
    for number, place in enumerate(places):
        for inner, task in fates.follow(place):
            tasks.append(task)
            if task.fate == "anew":
                effects += fates.list_effects(inner, task.name)
        if fates.find(place).fate == "anew":
            anew.add(number)
    exporter = ensemble.trace_exporter
    if exporter is not None or spec.capture_mode is CaptureMode.FULL:
        name = "./traces" if exporter is None else str(getattr(exporter, "path", None) or _name(exporter))
        effects.append(ForkEffect(kind="exporter", name=name))
    kept_count, anew_count = fates.count_calls()
    span = forked.span
    return ForkPlan(
        run_id=forked.origin.run_id,
        span_id=span.span_id,
        place=f"{span.kind.traits.title.lower()} {span.name!r}"
        + (f" of {span.task!r}" if span.task != span.name else ""),
        changed=forked.change.names,
        tasks=tuple(tasks),
        effects=tuple(dict.fromkeys(effects)),
        kept_call_count=kept_count,
        anew_call_count=anew_count,
        estimate=_estimate(ensemble, spec, forked, anew),
        warnings=tuple(spec.warnings),
    )


class _Fates:
    """Tells what becomes of tasks and calls."""

    def __init__(self, spec: RunSpec, forked: ForkedRun) -> None:
        self._spec = spec
        self._forked = forked
        self._done = Counter(each.path for each in forked.origin.results)
        self._spans = forked.origin.trace._fold.spans.values()
        dependence = forked.dependence
        self._kept = {each.span_id for each in self._spans if dependence.explain(each) is not None}
        point = forked.span
        is_replaced = not forked.change.names or set(forked.change.names).isdisjoint(("reply", "tool_result", "output"))
        # What stands in place of a span is neither kept nor made.
        self._replaced = None if is_replaced else point.span_id
        self._calls: Counter[tuple[str, str]] = Counter()
        for each in self._spans:
            if each.kind is SpanKind.TOOL and not self._is_over(each):
                self._calls[self._find_task(each), each.tool or each.name] += 1

    def _is_over(self, span: Span) -> bool:
        """Whether a span of the run is not done anew."""
        return span.span_id in self._kept or any(each.span_id == self._replaced for each in list_around(span))

    @staticmethod
    def _find_task(span: Span) -> str:
        own = (each for each in list_around(span) if each.is_own_task and each.item_of is None)
        return next((find_path(each) or "" for each in own), "")

    def count_calls(self) -> tuple[int, int]:
        """How many model calls of the run are kept, and how many are made anew."""
        calls = [each for each in self._spans if each.kind is SpanKind.LLM and not each.reused]
        if (only := self._spec.only) is not None:
            graph = self._spec.graph
            left_out = {
                make_task_path(each.name, graph.get_phase_name(each))
                for each in graph.tasks
                if each.index not in only.tasks
            }
            calls = [each for each in calls if self._find_task(each) not in left_out]
        anew = sum(not self._is_over(each) for each in calls)
        return sum(each.span_id in self._kept for each in calls), anew

    def find(self, place: _Place) -> ForkedTask:
        """What becomes of one task."""
        spec, forked, node = self._spec, self._forked, place.node
        path = place.path
        whys = [why for _, why in forked.results.get(path, ())]
        fate: Fate = "anew"
        span = forked.dependence.find_task(path)
        if not place.prefix and spec.only is not None and node.phase is None and node.index not in spec.only.tasks:
            fate, reason = "left out", f"{spec.only.name} does not need it"
        elif forked.given is not None and forked.given[0] == path:
            fate, reason = "given", GIVEN
        elif whys and len(whys) == self._done[path]:
            fate, reason = "kept", whys[-1]
        elif span is None or not self._done[path]:
            reason = "it was not done in the run"
        elif any(each is span for each in list_around(forked.span)):
            reason = "the fork is in it" if forked.span is not span else "the fork is here"
        else:
            reason = "it depends on the fork"
        return ForkedTask(name=path, fate=fate, reason=reason)

    def follow(self, place: _Place) -> Iterator[tuple[_Place, ForkedTask]]:
        """What becomes of a task, and of those inside it where it is done anew."""
        task, node = self.find(place), place.node
        yield place, task
        if node.nested is None or task.fate != "anew":
            return
        inner: Any = node.task.ensemble
        graph = add_team(inner, node.nested)
        for each in graph.all_tasks:
            prefix = f"{place.prefix}{node.name}/{inner.name or 'run'}/"
            yield from self.follow(_Place(prefix, inner, graph, each))

    def list_effects(self, place: _Place, name: str) -> Iterator[ForkEffect]:
        """What a task that is done anew may run."""
        node, task = place.node, place.node.task
        is_asked = any(each.timing is ReviewTiming.DURING for each in task.review)
        workers = [each for each in (node.agent, node.fallback) if each is not None]
        delegates = bool(place.graph.managed) or any(each.allow_delegation for each in workers)
        team = [each.agent for each in place.graph.team] if delegates else []
        for agent in dict.fromkeys((*workers, *team)):
            own = task.tools if agent in workers else ()
            for tool in dict.fromkeys((*agent.tools, *own)):
                yield from self._list_tool(tool, place, name, agent, is_asked=is_asked)
        if task.handler is not None:
            yield ForkEffect(kind="handler", name=_name(task.handler), task=name)
        for scope in task.memory:
            yield ForkEffect(kind="memory", name=scope, task=name)

    def _list_tool(self, tool: Any, place: _Place, task: str, agent: Agent, *, is_asked: bool) -> Iterator[ForkEffect]:
        shared: dict[str, Any] = {"task": task, "agent": agent.role, "is_asked": is_asked or is_reviewed(tool)}
        if isinstance(tool, ToolSource):
            count = sum(self._calls[place.path, each] for each in tool.tool_names) if tool.tool_names else None
            server = tool.label.removeprefix("the MCP server ").strip("'")
            yield ForkEffect(kind="MCP server", name=server, call_count=count, **shared)
            return
        for each in list_told_names(tool):
            yield ForkEffect(kind="tool", name=each, call_count=self._calls[place.path, each], **shared)
        if (inner := find_ensemble(tool)) is not None:
            graph = build_team_graph(inner)
            for node in graph.all_tasks:
                inside = _Place(f"{place.prefix}{place.node.name}/{inner.name or 'run'}/", inner, graph, node)
                yield from self.list_effects(inside, inside.path)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__)


def _estimate(
    ensemble: EnsembleDefinition, spec: RunSpec, forked: ForkedRun, anew: Collection[int]
) -> CostEstimate | None:
    """The estimate of the tasks of the run with these places."""
    graph = spec.graph
    numbered = list(enumerate(graph.all_tasks))
    if not any(number in anew and (node.agent or node.nested) for number, node in numbered):
        return None
    point = forked.answers.point
    if point is not None and point.llm is not None:  # another one is asked, in the task of the fork alone
        priced = price_llm(point.llm, ensemble)
        path = find_path(forked.dependence.task)
        nodes = (
            replace(node, llm=priced.llm, rates=priced.rates)
            if make_task_path(node.name, graph.get_phase_name(node)) == path
            else node
            for node in graph.tasks
        )
        graph = replace(graph, tasks=tuple(nodes))
    with suppress(Exception):  # without a key, say: a plan needs none
        from ensemble_notebook.ensemble.cost_estimation import estimate, find_usual_replies

        written = write_inputs(find_first_texts(list_texts(ensemble)), spec.inputs)[0]
        replies = find_usual_replies(ensemble.name, graph)
        whole = estimate(ensemble, graph, written, datetime.now(UTC), spec.items, replies)
        own = tuple(each for number, each in enumerate(whole.tasks) if number in anew or number >= len(numbered))
        return replace(whole, tasks=own)
    return None
