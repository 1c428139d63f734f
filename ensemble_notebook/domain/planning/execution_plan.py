"""The execution plan: what will run, in which order and how wide, by Kahn's algorithm in O(V + E).

See docs/contract/engine.md#plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from ensemble_notebook.domain.definitions.definition import PlainValue, read_settings
from ensemble_notebook.domain.definitions.item_list import Items, describe_count
from ensemble_notebook.domain.definitions.nested_ensemble import fill_inputs
from ensemble_notebook.domain.definitions.templates import (
    PlacedText,
    find_appended_parts,
    get_prompt_places,
    hide_item,
    render,
)
from ensemble_notebook.domain.definitions.tool import list_told_names
from ensemble_notebook.domain.outputs.secrets import Record, mask_values
from ensemble_notebook.domain.planning.delegation import add_team
from ensemble_notebook.domain.planning.graph import ConditionNode, Graph, PhaseNode, TaskNode
from ensemble_notebook.domain.planning.map_design import MapDesign
from ensemble_notebook.domain.seams.views import make_mime_bundle

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate

KnownItems = Mapping[int, Items]
"""The items that are known before a run, those of given lists and tables, and of inputs (E53): by index of the task."""
NONE_KNOWN: Final[KnownItems] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlannedAgent(Record):
    """Who takes part, as the trace shows it. `tools` are the names that the model sees.

    `system_prompt` is the agent's own; None where it is made of the texts above.
    """

    role: str
    goal: str
    background: str | None
    tools: tuple[str, ...]
    allow_delegation: bool
    system_prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlannedTask(Record):
    """One row of the plan, with everything a view needs to show it before it runs.

    `when` are its conditions in words, such as ``triage contains 'urgent'``; it runs when any of them holds.
    `settings` are the fields of the task that are shown as they were declared, where they differ from their defaults:
    trace and timeline take them from here. `max_retries` is how often each of its model requests may be sent again, or
    its handler tried again, and `max_retry_wait` the most seconds before that; None in files of older versions.
    `for_each` is where the items come from that it runs for, in words, and None where it runs once; `item_count` is how
    many there are, None as long as nobody knows.
    `nested` is the plan of the ensemble that does it. `prompt` is the task's own, with its places as they
    are written. `is_named`: somebody chose its name; None in files of older versions. `managed` are the tasks that it
    sees to, as written, where it is that of a manager.
    """

    name: str
    agent: str
    phase: str | None
    description: str
    context: tuple[str, ...]
    depends_on: tuple[str, ...]
    llm: str | None
    when: tuple[str, ...] = ()
    expected_output: str = ""
    settings: Mapping[str, PlainValue] = field(default_factory=dict)
    max_retries: int | None = None
    max_retry_wait: float | None = None
    for_each: str | None = None
    item_count: int | None = None
    nested: ExecutionPlan | None = None
    prompt: str | None = None
    is_named: bool | None = None
    managed: tuple[PlannedTask, ...] = ()

    @property
    def times(self) -> str:
        """How often it runs, behind its name: ``x 12``, ``x ?``; empty for once."""
        if self.for_each is None:
            return ""
        return f"x {'?' if self.item_count is None else format(self.item_count, ',')}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanPreview(Record):
    """What a picture of a plan says besides, as long as nothing runs.

    Attributes:
        tools: by the role of an agent, the names that its model sees.
        estimate: what the run will take; None where nobody can tell.
        warnings: what is odd about it here, such as gates at which nobody can be asked.
    """

    tools: Mapping[str, tuple[str, ...]]
    estimate: CostEstimate | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecutionPlan(Record):
    """The plan of a run, made before anything runs.

    Attributes:
        groups: task names level by level; the tasks of a level depend only on earlier levels.
        total_tasks: number of tasks.
        max_parallelism: size of the largest level.
        estimated_rounds: number of levels.
        critical_path: task names of one longest chain.
        tasks: one row per task, in order of declaration.
        phases: phase name -> names of the phases that it waits for, in order of declaration; empty without phases.
        phase_settings: phase name -> its ``when``, ``until`` and ``review`` in words, if it has them.
        design: of a map: which rows its tasks are; None for other runs, and in files of older versions.
        row_plan: of a map: what each of its rows does; None for other runs, and in files of older versions.
        preview: of a plan that somebody asked for; no run has it.
    """

    groups: tuple[tuple[str, ...], ...]
    total_tasks: int
    max_parallelism: int
    estimated_rounds: int
    critical_path: tuple[str, ...]
    tasks: tuple[PlannedTask, ...]
    phases: dict[str, tuple[str, ...]]
    phase_settings: Mapping[str, Mapping[str, PlainValue]] = field(default_factory=dict)
    design: MapDesign | None = None
    row_plan: ExecutionPlan | None = None
    preview: PlanPreview | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts, ready for JSON; secrets masked."""
        plain: dict[str, Any] = mask_values(self._to_plain())
        return plain

    def _to_plain(self) -> dict[str, Any]:
        return {
            "groups": [{"group": number, "tasks": group} for number, group in enumerate(self.groups)],
            **{name: getattr(self, name) for name in _PLAIN_FIELDS},
            "tasks": [
                {name: getattr(task, name) for name in _PLAIN_TASK_FIELDS}
                | {"ensemble": None if task.nested is None else task.nested._to_plain()}
                for task in self.tasks
            ],
            "phases": [
                {"name": name, "after": after, "settings": self.phase_settings.get(name, {})}
                for name, after in self.phases.items()
            ],
        }

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """A picture of the plan, where the notebook layer is there to draw it."""
        return make_mime_bundle("plan", self)


_PLAIN_FIELDS: Final = ("total_tasks", "max_parallelism", "estimated_rounds", "critical_path")
_PLAIN_TASK_FIELDS: Final = (
    *("name", "agent", "phase", "description", "prompt", "context", "depends_on", "llm", "when"),
    *("max_retries", "max_retry_wait", "for_each", "item_count", "settings"),
)


def sort_topologically(edges: Sequence[Sequence[int]]) -> list[int]:
    """Kahn's algorithm: ``edges[i]`` are the predecessors of node i; nodes on or behind a cycle are left out."""
    waiting = [len(predecessors) for predecessors in edges]
    # The successors of all nodes stand in one list: thousands of small lists set off the garbage collector, which takes
    # ten times as long as the sorting where much else is alive, such as a large cell.
    counts = [0] * len(edges)
    for predecessors in edges:
        for predecessor in predecessors:
            counts[predecessor] += 1
    ends = list(accumulate(counts))
    starts = ends.copy()
    successors = [0] * sum(counts)
    for node in range(len(edges) - 1, -1, -1):
        for predecessor in edges[node]:
            starts[predecessor] -= 1
            successors[starts[predecessor]] = node
    order = [node for node, count in enumerate(waiting) if count == 0]
    for node in order:  # grows meanwhile
        for successor in successors[starts[node] : ends[node]]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                order.append(successor)
    return order


def find_cycle(edges: Sequence[Sequence[int]]) -> list[int] | None:
    """Find the nodes of exactly one cycle, each depending on the one after it, or None."""
    stuck = set(range(len(edges))) - set(sort_topologically(edges))
    if not stuck:
        return None
    node = min(stuck)
    position: dict[int, int] = {}
    while node not in position:
        position[node] = len(position)
        node = next(predecessor for predecessor in edges[node] if predecessor in stuck)
    return list(position)[position[node] :]


def list_task_predecessors(node: TaskNode) -> tuple[int, ...]:
    """List the tasks that a task waits for.

    Those it reads, the one whose items it runs for, those its conditions test, its predecessor in a chain.
    """
    after = () if node.after is None else (node.after,)
    if not node.context and not node.sources and node.item_source is None:
        return after
    items = () if node.item_source is None else (node.item_source,)
    return tuple(dict.fromkeys([*node.context, *items, *node.sources, *after]))


def list_phase_predecessors(phase: PhaseNode) -> tuple[int, ...]:
    """List the phases that a phase waits for: its declared predecessors, and those whose tasks its conditions test."""
    return tuple(dict.fromkeys([*phase.after, *phase.sources]))


def find_final_tasks(graph: Graph) -> tuple[int, ...]:
    """Find the indices of the tasks that no other task waits for, in phases that no other phase waits for."""
    before = {each for phase in graph.phases for each in list_phase_predecessors(phase)}
    last = [node for node in graph.tasks if node.phase is None or node.phase not in before]
    awaited = {index for node in last for index in list_task_predecessors(node)}
    return tuple(node.index for node in last if node.index not in awaited)


def build_gated_edges(graph: Graph) -> list[tuple[int, ...]]:
    """Edges of the tasks, then of one opening and one closing gate per phase; gates keep the count of edges linear.

    A phase's opening gate waits for the closing gates of its predecessors, its tasks for the opening gate, and its
    closing gate for its tasks.
    """
    first = len(graph.tasks)
    edges: list[tuple[int, ...]] = []
    for node in graph.tasks:
        gate = () if node.phase is None else (first + 2 * node.phase,)
        edges.append((*list_task_predecessors(node), *gate))
    for phase in graph.phases:
        edges.append(tuple(first + 2 * predecessor + 1 for predecessor in list_phase_predecessors(phase)))
        edges.append((*phase.tasks, first + 2 * phase.index))
    return edges


def make_plan(
    graph: Graph, inputs: Mapping[str, Any] = MappingProxyType({}), items: KnownItems = NONE_KNOWN
) -> ExecutionPlan:
    """Make the plan of a valid graph; `inputs` fill the variables in its texts, `items` are those that are known."""
    count, edges = len(graph.tasks), build_gated_edges(graph)
    height = [0] * len(edges)
    longest = [-1] * len(edges)
    for index in sort_topologically(edges):
        longest[index] = max(edges[index], key=height.__getitem__, default=-1)
        height[index] = (height[longest[index]] if longest[index] >= 0 else 0) + (index < count)
    groups: list[list[str]] = [[] for _ in range(max(height, default=0))]
    for node in graph.tasks:
        groups[height[node.index] - 1].append(node.name)
    path, index = [], max(range(count), key=height.__getitem__, default=-1)
    while index >= 0:
        path += [graph.tasks[index].name] if index < count else []
        index = longest[index]
    settings: dict[str, dict[str, PlainValue]] = {}
    for phase in graph.phases:
        words: dict[str, PlainValue] = {"when": describe_conditions(phase.when, graph)} if phase.when else {}
        if phase.until:
            rounds = f"1 to {phase.phase.max_rounds} rounds, then {phase.phase.on_exhausted.value}"
            words["until"] = f"{describe_conditions(phase.until, graph)}, {rounds}"
        settings[phase.name] = words | read_settings(phase.phase)
    return ExecutionPlan(
        groups=tuple(tuple(group) for group in groups),
        total_tasks=count,
        max_parallelism=max((len(group) for group in groups), default=0),
        estimated_rounds=len(groups),
        critical_path=tuple(reversed(path)),
        tasks=tuple(_plan_task(node, graph, inputs, items) for node in graph.tasks),
        phases={
            phase.name: tuple(graph.phases[each].name for each in list_phase_predecessors(phase))
            for phase in graph.phases
        },
        phase_settings=settings,
    )


def list_tools(plan: ExecutionPlan, graph: Graph) -> dict[str, tuple[str, ...]]:
    """By the roles of a plan, the names of the tools that each has; those of the ensembles inside, too."""
    found: dict[str, tuple[str, ...]] = {}
    for planned, node in zip(plan.tasks, graph.tasks, strict=True):
        if planned.nested is not None and node.nested is not None:
            inner: Any = node.task.ensemble
            found.update(list_tools(planned.nested, add_team(inner, node.nested)))
        if node.agent is not None and node.agent.tools:
            found[planned.agent] = tuple(name for tool in node.agent.tools for name in list_told_names(tool))
    return found


def fill_plan(plan: ExecutionPlan, graph: Graph, inputs: Mapping[str, Any]) -> ExecutionPlan:
    """The plan of a graph that was made without inputs, with these in its texts; no items of the graph are known."""
    tasks = (
        replace(
            planned, **_fill_texts(node, inputs), managed=tuple(_fill_managed(each, inputs) for each in planned.managed)
        )
        for planned, node in zip(plan.tasks, graph.tasks, strict=True)
    )
    return replace(plan, tasks=tuple(tasks))


def _fill_managed(task: PlannedTask, inputs: Mapping[str, Any]) -> PlannedTask:
    description, expected_output = render(task.description, inputs), render(task.expected_output, inputs)
    return replace(task, description=description, expected_output=expected_output)


def _fill_texts(node: TaskNode, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What of a planned task follows from the inputs; what stands for an item is filled in later."""
    task, inner = node.task, cast("Any", node.task.ensemble)
    texts = (task.description, task.expected_output)
    texts = texts if task.for_each is None else (hide_item(texts[0]), hide_item(texts[1]))
    prompt, nested = None, None
    if task.prompt is not None:
        prompt = PlacedText(task.prompt, inputs, get_prompt_places(has_items=task.for_each is not None)).text
    if node.nested is not None:  # what the task will read is not known yet
        nested = make_plan(add_team(inner, node.nested), {**inner.inputs, **fill_inputs(task.inputs, inputs)})
    return {
        "agent": render(node.role, inputs),
        "description": render(texts[0], inputs),
        "expected_output": render(texts[1], inputs),
        "prompt": prompt,
        "nested": nested,
    }


def _plan_task(node: TaskNode, graph: Graph, inputs: Mapping[str, Any], items: KnownItems) -> PlannedTask:
    task, agent = node.task, node.agent
    source = task.for_each if isinstance(task.for_each, str) else None  # an input
    if node.item_source is not None:
        source = graph.tasks[node.item_source].name
    elif isinstance(task.for_each, Items):
        source = describe_count(len(task.for_each))
    settings: dict[str, PlainValue] = {} if source is None else {"for_each": source}
    if graph.managed:
        settings["workers"] = ", ".join(member.agent.role for member in graph.team)
    if task.prompt is not None:
        at_end = find_appended_parts(task)
        settings["own_prompt"] = f"{' and '.join(at_end)} at its end" if at_end else "has a place for all"
    retries = task.max_retries if agent is None or task.max_retries is not None else agent.max_retries
    wait_s = task.max_retry_wait
    return PlannedTask(
        name=node.name,
        phase=graph.get_phase_name(node),
        context=graph.get_context_names(node),
        depends_on=tuple(graph.tasks[index].name for index in list_task_predecessors(node)),
        llm=None if node.llm is None else describe_llm(node.llm),
        when=tuple(_describe_condition(graph.conditions[number], graph) for number in node.when),
        settings={**settings, **read_settings(task)},
        max_retries=retries or 0,
        max_retry_wait=wait_s if agent is None else agent.find_max_retry_wait(node.llm, wait_s),
        for_each=source,
        item_count=len(items[node.index]) if node.index in items else None,
        is_named=task.name is not None,
        managed=tuple(_plan_managed(each, inputs) for each in graph.managed),
        **_fill_texts(node, inputs),
    )


def _plan_managed(node: TaskNode, inputs: Mapping[str, Any]) -> PlannedTask:
    """A task that a manager sees to: who does it is the manager's business."""
    return PlannedTask(
        name=node.name,
        agent="",
        phase=None,
        description=render(node.task.description, inputs),
        context=(),
        depends_on=(),
        llm=None,
        expected_output=render(node.task.expected_output, inputs),
        is_named=node.task.name is not None,
    )


def describe_conditions(numbers: Iterable[int], graph: Graph) -> str:
    """Describe conditions, of which any may hold: ``triage.category equals 'billing' or triage contains 'urgent'``."""
    return " or ".join(_describe_condition(graph.conditions[number], graph) for number in numbers)


def _describe_condition(node: ConditionNode, graph: Graph) -> str:
    return node.condition.describe(graph.tasks[node.source].name)


def describe_llm(llm: Any) -> str:
    """Name a model for people: the spec text, or the model's own name and class."""
    if isinstance(llm, str):
        return llm
    if isinstance(llm, Mapping):
        return str(llm.get("model"))
    name = getattr(llm, "model_name", None) or getattr(llm, "model", None)
    return f"{name} ({type(llm).__name__})" if isinstance(name, str) and name else type(llm).__name__
