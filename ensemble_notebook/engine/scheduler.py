"""Decides what starts, ends and is skipped: a pure state machine (E20, E21, E26-E28, E32, E33, E35, E81).

Knows no asyncio, clock or model: scheduler inputs in, commands out. One mechanism serves phases and tasks: a phase is a
node whose body is a group of nodes, and the whole run is the outermost group.

A node waits until nothing holds it any more. It is held by its group (until that opens), and by each node of the same
group that it needs, whose output it has a condition on, or that it merely comes after, until that one is resolved.
Then its conditions, and what became of the nodes that it depends on, tell whether it starts. What it depends on in
another group is resolved by the time its own group opens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy, OnExhausted, PhaseStatus
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.planning.only_selection import GraphPart
from ensemble_notebook.engine import scheduler_messages as messages

STOPPED: Final = "not started: the run was stopped"
UNMET: Final = "condition not met"

_MAX_NAMED_NEEDS: Final = 3
_NO_NODES: Final[frozenset[SchedulerNode]] = frozenset()
_NO_CONDITIONS: Final[frozenset[int]] = frozenset()


class Scheduler:
    """The state of one run.

    Args:
        graph: a valid graph.
        strategy: what a failed task means for the others of its group. Between phases there is but one: dependents of
            a failed phase are skipped, and unrelated ones go on.
        max_concurrency: how many tasks, and reviews of phases, may run at once, in all phases together; None for no
            limit.
        only: the part of the graph that runs; the rest is skipped, which is no failure. None for all of it.
    """

    def __init__(
        self,
        graph: Graph,
        strategy: ErrorStrategy,
        max_concurrency: int | None = None,
        only: GraphPart | None = None,
    ) -> None:
        nodes = NodeTable(graph, strategy)
        self._nodes = nodes
        self._root = nodes.root
        self._tasks = nodes.tasks
        self._phases = nodes.phases
        self._left_out = _NO_NODES if only is None else frozenset(nodes.list_left_out(only.tasks))
        self._left_out_reason = "" if only is None else f"not needed for {only.name!r}, which alone was asked for"
        self._met_conditions = _NO_CONDITIONS
        self._broken_conditions = _NO_CONDITIONS
        self._ready: deque[SchedulerNode] = deque()
        self._to_resolve: deque[tuple[SchedulerNode, NodeState, str]] = deque()
        self._running: dict[int, SchedulerNode] = {}
        self._reviewed: dict[int, SchedulerNode] = {}
        self._free_places = float("inf") if max_concurrency is None else max_concurrency
        self._closing_reason: str | None = None
        self._is_exit = False
        self._is_stopping = False
        self._commands: list[messages.Command] = []

    def handle(self, scheduler_input: messages.SchedulerInput) -> list[messages.Command]:
        """Take in what happened; returns what is to be done, in order.

        Raises:
            KeyError: it can't have happened to this task or phase, since that was not running or in review.
        """
        self._apply(scheduler_input)
        while self._to_resolve:
            self._resolve(*self._to_resolve.popleft())
        self._start_ready()
        if self._root.unresolved_count == 0:
            self._commands.append(messages.EndRun())
        commands, self._commands = self._commands, []
        return commands

    def release(self) -> None:
        """The run is over, and nothing is handled any more."""
        self._nodes.unlink()

    def _apply(self, scheduler_input: messages.SchedulerInput) -> None:
        match scheduler_input:
            case messages.TaskSucceeded(task, met, broken):
                self._met_conditions |= met
                self._broken_conditions |= broken
                self._end_task(task, NodeState.SUCCEEDED)
            case messages.TaskEndedWithoutOutput(task):
                self._end_task(task, NodeState.SKIPPED if self._is_stopping else NodeState.FAILED)
            case messages.RunningTaskSkipped(task, has_worked):
                self._end_task(task, NodeState.SKIPPED, has_worked=has_worked)
            case messages.PlacesWanted(task, count):
                self._want_places(self._tasks[task], count)
            case messages.PlaceReturned():
                self._free_places += 1
            case messages.RunStartRequested():
                self._open(self._root.nodes)
            case messages.RunClosed(reason, is_exit):
                self._is_exit = is_exit
                self._close(reason)
            case messages.RunStopRequested():
                if not self._is_stopping:  # what runs is cancelled and will be reported as lost
                    self._is_stopping = True
                    self._commands += [messages.CancelTask(index) for index in self._running]
                    self._commands += [messages.CancelReview(index) for index in self._reviewed]
                    self._close(STOPPED)
            case _:
                self._end_review(scheduler_input)

    def _open(self, nodes: Iterable[SchedulerNode]) -> None:
        for node in nodes:
            self._release(node)

    def _release(self, node: SchedulerNode) -> None:
        """Take one hold from a node. Once nothing holds it, it starts, or is listed to be skipped."""
        node.hold_count -= 1
        if node.hold_count or node.state is not NodeState.HELD or self._closing_reason is not None:
            return
        if (skip := self._find_skip(node)) is not None:
            self._to_resolve.append((node, *skip))
        elif node.body is None:
            node.state = NodeState.READY
            self._queue_for_place(node)
        else:
            node.state = NodeState.RUNNING
            self._commands.append(messages.StartPhase(node.index))
            self._open(node.body.nodes)

    def _find_skip(self, node: SchedulerNode) -> tuple[NodeState, str] | None:
        """Why a node that nothing holds any more does not run; None where it does."""
        if node in self._left_out:
            return NodeState.PASSED_OVER, self._left_out_reason
        needs = [each for each in node.needs if each not in self._left_out] if self._left_out else node.needs
        missed = next((each for each in needs if each.state in MISSED), None)
        if missed is not None and node.group.strategy is not ErrorStrategy.PARTIAL:
            return NodeState.SKIPPED, f"needs {missed.named_outcome}"
        if node.item_source is not None and node.item_source.state is not NodeState.SUCCEEDED:
            state = NodeState.SKIPPED if node.item_source.state in MISSED else NodeState.PASSED_OVER
            return state, f"needs {node.item_source.named_outcome}"
        if node.conditions:
            if any(
                number in self._met_conditions and source.state is NodeState.SUCCEEDED
                for number, source in node.conditions
            ):
                return None
            missed = next((source for _, source in node.conditions if source.state in MISSED), None)
            if missed is None:
                return NodeState.PASSED_OVER, UNMET
            return NodeState.SKIPPED, f"{UNMET}: {missed.name!r} {missed.outcome}"
        if needs and all(each.state is not NodeState.SUCCEEDED for each in needs):
            fates = [each.named_outcome for each in needs[:_MAX_NAMED_NEEDS]]
            more = ["and so on"] if len(needs) > _MAX_NAMED_NEEDS else []
            return NodeState.PASSED_OVER if missed is None else NodeState.SKIPPED, f"needs {'; '.join([*fates, *more])}"
        return None

    def _queue_for_place(self, node: SchedulerNode) -> None:
        """Queue a task to start, or a phase to review; where there is no free place, a command says so."""
        if self._free_places <= len(self._ready):
            self._commands.append(
                messages.QueueTask(node.index) if node.body is None else messages.QueueReview(node.index)
            )
        self._ready.append(node)

    def _start_ready(self) -> None:
        """Fill the free places in order of readiness."""
        while self._ready and self._free_places > 0:
            node = self._ready.popleft()
            if node.state is NodeState.READY:
                node.state = NodeState.RUNNING
                self._running[node.index] = node
                self._commands.append(messages.StartTask(node.index))
            elif node.state is NodeState.AWAITING_REVIEW:
                node.state = NodeState.IN_REVIEW
                self._reviewed[node.index] = node
                self._commands.append(messages.ReviewPhase(node.index))
            elif node.state is NodeState.RUNNING and node.wanted_places:
                node.wanted_places -= 1
                self._commands.append(messages.GrantPlace(node.index))
            else:
                continue
            self._free_places -= 1

    def _want_places(self, node: SchedulerNode, count: int) -> None:
        """Items of a running task queue for places behind whatever is ready by now; none begins after a failure."""
        reason = self._closing_reason or node.group.failure_text
        if node.state is not NodeState.RUNNING or reason is not None:
            self._commands += [messages.DenyPlaces(node.index, reason or STOPPED)] if count else []
            return
        self._ready.extend([node] * (count - node.wanted_places))
        node.wanted_places = count

    def _deny_places(self, nodes: Iterable[SchedulerNode], reason: str) -> None:
        """Let no running task begin another one of its items."""
        for node in nodes:
            if node.wanted_places:
                node.wanted_places = 0
                self._commands.append(messages.DenyPlaces(node.index, reason))

    def _end_task(self, task: int, state: NodeState, *, has_worked: bool = True) -> None:
        """A running task has ended."""
        node = self._running.pop(task)
        node.group.has_worked = node.group.has_worked or has_worked
        node.wanted_places = 0
        self._free_places += 1
        self._to_resolve.append((node, state, ""))

    def _end_review(self, scheduler_input: messages.PhaseReviewEnded) -> None:
        """The review of a phase has ended; what was sent back when nothing starts any more is cut short."""
        phase = self._reviewed.pop(scheduler_input.phase)
        body = get_body(phase)
        self._free_places += 1
        if isinstance(scheduler_input, messages.PhaseSentBack) and self._closing_reason is None:
            self._retry_phase(phase, body, scheduler_input.tasks)
            return
        body.has_failed = isinstance(scheduler_input, messages.PhaseRejected)
        body.is_cut_short = isinstance(scheduler_input, messages.PhaseSentBack | messages.PhaseReviewAborted)
        self._end_phase(phase, body)

    def _resolve(self, node: SchedulerNode, state: NodeState, reason: str) -> None:
        """Settle a node. What follows from it is listed and not called at once: graphs may be 10,000 nodes deep."""
        if node.state in RESOLVED:
            return
        if node.state in UNSTARTED:
            skip = messages.SkipTask if node.body is None else messages.SkipPhase
            self._commands.append(skip(node.index, reason))
            if node.body is not None:
                text = self._closing_reason or f"phase {node.name!r} was skipped"
                self._to_resolve.extend((each, state, text) for each in node.body.nodes)
        node.state = state
        if state in MISSED:
            self._to_resolve.extend(
                (reader, NodeState.SKIPPED, f"needs {node.named_outcome}") for reader in node.readers
            )
            self._note_missed(node)
        else:
            for reader in node.readers:
                self._release(reader)
        for follower in node.followers:
            self._release(follower)
        group = node.group
        group.unresolved_count -= 1
        if group.unresolved_count == 0 and group.owner is not None and group.owner.state is NodeState.RUNNING:
            self._complete(group.owner, group)

    def _note_missed(self, node: SchedulerNode) -> None:
        """What a node that failed, or was skipped for a failure, means for its group."""
        group = node.group
        if node.state is NodeState.SKIPPED and self._closing_reason is not None:
            group.is_cut_short = True
            return
        is_first, group.has_failed = not group.has_failed, True
        if is_first and group.strategy is ErrorStrategy.FAIL_FAST:
            text = group.failure_text = f"not started: {node.name!r} {node.outcome}"
            self._deny_places(group.nodes, text)
            self._to_resolve.extend((each, NodeState.SKIPPED, text) for each in group.nodes if each.state in UNSTARTED)

    def _complete(self, phase: SchedulerNode, body: NodeGroup) -> None:
        """Every task of a phase is resolved: it is reviewed where somebody is to and there is something to see."""
        goes_on = not body.is_cut_short and self._closing_reason is None and self._left_out.isdisjoint(body.nodes)
        if phase.loop is not None and goes_on and not (body.has_failed and body.strategy is ErrorStrategy.FAIL_FAST):
            self._end_round(phase, body, phase.loop)
            return
        is_whole = goes_on and not body.has_failed
        if phase.has_review and is_whole and any(each.state is NodeState.SUCCEEDED for each in body.nodes):
            phase.state = NodeState.AWAITING_REVIEW
            self._queue_for_place(phase)
        else:
            self._end_phase(phase, body)

    def _end_round(self, phase: SchedulerNode, body: NodeGroup, loop: Loop) -> None:
        """A round of a phase is over: there is another one, unless its condition holds or none is left."""
        tested = [number for number, source in loop.until if source.state is NodeState.SUCCEEDED]
        broken = self._broken_conditions.intersection(tested)
        if not self._met_conditions.intersection(tested) - broken:
            if loop.rounds_left and not broken:
                loop.rounds_left -= 1
                body.has_failed = False
                self._retry_phase(phase, body, None)
                return
            self._commands.append(messages.EndRounds(phase.index))
            body.has_failed = body.has_failed or bool(broken) or not loop.keeps_last
        self._end_phase(phase, body)

    def _end_phase(self, phase: SchedulerNode, body: NodeGroup) -> None:
        """A phase is over, and nothing in it comes after it."""
        is_whole = not body.has_failed and not body.is_cut_short
        is_left = self._is_exit and not self._is_stopping and not body.has_failed and body.is_cut_short
        if is_left:
            status = PhaseStatus.EXITED_EARLY if body.has_worked else PhaseStatus.SKIPPED
        else:
            status = PhaseStatus.COMPLETED if is_whole else PhaseStatus.FAILED
        is_cancelled = body.is_cut_short and not body.has_failed and not is_left
        reason = self._closing_reason if is_left else None
        self._commands.append(messages.EndPhase(phase.index, status, is_cancelled=is_cancelled, reason=reason))
        self._to_resolve.append((phase, NodeState.SUCCEEDED if is_whole else NodeState.FAILED, ""))

    def _retry_phase(self, phase: SchedulerNode, body: NodeGroup, tasks: frozenset[int] | None) -> None:
        """A phase is done again: forget what came of all its tasks, or of these and their dependents."""
        again = body.nodes if tasks is None else find_dependents(self._tasks[index] for index in tasks)
        phase.state = NodeState.RUNNING
        body.unresolved_count = len(again)
        body.failure_text = None
        hold_again(again)
        for node in again:
            self._met_conditions = self._met_conditions.difference(node.own_conditions)
            self._broken_conditions = self._broken_conditions.difference(node.own_conditions)
        self._commands.append(messages.RetryPhase(phase.index, tuple(node.index for node in again)))
        self._open(again)

    def _close(self, reason: str) -> None:
        """Nothing new starts; what runs goes on."""
        self._closing_reason = reason
        self._deny_places(self._running.values(), reason)
        for node in (*self._tasks, *self._phases):
            if node.state in UNSTARTED:
                self._to_resolve.append((node, NodeState.SKIPPED, reason))
            elif node.state is NodeState.AWAITING_REVIEW:
                self._end_phase(node, get_body(node))


class NodeState(Enum):
    """The state of a node. The last four are final, unless a phase is sent back.

    ``PASSED_OVER``: skipped since a condition was not met, which is no failure for those that depend on it.
    """

    HELD = auto()
    READY = auto()
    RUNNING = auto()
    AWAITING_REVIEW = auto()
    IN_REVIEW = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    SKIPPED = auto()
    PASSED_OVER = auto()


UNSTARTED: Final = (NodeState.HELD, NodeState.READY)
RESOLVED: Final = (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.SKIPPED, NodeState.PASSED_OVER)
MISSED: Final = (NodeState.FAILED, NodeState.SKIPPED)


@dataclass(slots=True, eq=False)
class NodeGroup:
    """Nodes that open together and share an error strategy: the body of a phase, or the run as a whole.

    Attributes:
        owner: the phase; None for the run.
        unresolved_count: how many of its nodes are not.
        has_failed: a node failed, or was skipped for a failure elsewhere.
        failure_text: why nothing in it starts any more after a failure (FAIL_FAST); None where that is not so.
        is_cut_short: a node did not come to its end because nothing was to start any more, or everything was to stop.
        has_worked: a task of it has done something, whatever came of it.
    """

    owner: SchedulerNode | None
    strategy: ErrorStrategy
    nodes: list[SchedulerNode] = field(default_factory=list)
    unresolved_count: int = 0
    has_failed: bool = False
    is_cut_short: bool = False
    has_worked: bool = False
    failure_text: str | None = None


@dataclass(slots=True, eq=False)
class Loop:
    """The rounds of a phase that is done again until a condition holds.

    Attributes:
        until: the conditions by number, each with the task that must have succeeded for it to hold.
        rounds_left: how often it may be done again.
        keeps_last: whether its last outputs count where no condition holds in the end.
    """

    until: tuple[tuple[int, SchedulerNode], ...]
    rounds_left: int
    keeps_last: bool


@dataclass(slots=True, eq=False)
class SchedulerNode:
    """A task, or a phase.

    Attributes:
        body: the tasks of a phase; None for a task.
        has_review: a phase that is reviewed.
        loop: of a phase that is done again; None for most.
        needs: what it depends on.
        item_source: the one of these for whose items it runs, without which there is nothing to do; None for most.
        wanted_places: how many of its items wait for a place, while it runs.
        conditions: its conditions by number, each with the node that must have succeeded for it to hold.
        own_conditions: numbers of the conditions on its own output.
        hold_count: how many nodes still hold it until they are resolved, its group included.
        readers: nodes of its group that can't do without it.
        followers: nodes of its group that only wait for it.
    """

    index: int
    name: str
    group: NodeGroup
    body: NodeGroup | None = None
    has_review: bool = False
    loop: Loop | None = None
    needs: tuple[SchedulerNode, ...] = ()
    item_source: SchedulerNode | None = None
    wanted_places: int = 0
    conditions: tuple[tuple[int, SchedulerNode], ...] = ()
    own_conditions: tuple[int, ...] = ()
    hold_count: int = 1
    readers: Sequence[SchedulerNode] = ()
    followers: Sequence[SchedulerNode] = ()
    state: NodeState = NodeState.HELD

    def __post_init__(self) -> None:
        self.group.nodes.append(self)
        self.group.unresolved_count += 1

    @property
    def outcome(self) -> str:
        """What became of a node that did not succeed."""
        return "failed" if self.state is NodeState.FAILED else "was skipped"

    @property
    def named_outcome(self) -> str:
        """The same, with its name."""
        return f"{self.name!r}, which {self.outcome}"


def find_dependents(nodes: Iterable[SchedulerNode]) -> list[SchedulerNode]:
    """Find these nodes of a group and all of it that depend on them, directly or through others, in order.

    A node depends on what it needs and on what its conditions test; what merely comes after it in a list does not.
    """
    found = set(nodes)
    to_follow = list(found)
    while to_follow:
        each = to_follow.pop()
        for other in (*each.readers, *each.followers):
            if other not in found and (each in other.needs or any(each is source for _, source in other.conditions)):
                found.add(other)
                to_follow.append(other)
    return sorted(found, key=lambda node: node.index)


def hold_again(nodes: Iterable[SchedulerNode]) -> None:
    """Let nodes of one group wait once more for their group and for each other; all else is resolved."""
    again = set(nodes)
    for node in again:
        node.state = NodeState.HELD
        node.hold_count = 1
    for node in again:
        for other in (*node.readers, *node.followers):
            if other in again:
                other.hold_count += 1


def get_body(phase: SchedulerNode) -> NodeGroup:
    """The tasks of a phase."""
    assert phase.body is not None
    return phase.body


class NodeTable:
    """The nodes of one graph, each linked with those that it waits for.

    Attributes:
        root: the group of the whole run: its phases, or its tasks where it has none.
        phases: by index.
        tasks: by index.
    """

    __slots__ = ("phases", "root", "tasks")

    def __init__(self, graph: Graph, strategy: ErrorStrategy) -> None:
        # Phases that don't depend on a failed one always go on, whatever the strategy of the tasks is.
        self.root = NodeGroup(None, ErrorStrategy.CONTINUE_ON_ERROR if graph.phases else strategy)
        self.phases = tuple([SchedulerNode(phase.index, phase.name, self.root) for phase in graph.phases])
        for node in self.phases:
            node.body = NodeGroup(node, strategy)
        self.tasks: list[SchedulerNode] = []
        for task in graph.tasks:
            group = self.root if task.phase is None else get_body(self.phases[task.phase])
            self.tasks.append(SchedulerNode(task.index, task.name, group))
        self._link_tasks(graph)
        self._link_phases(graph)
        for condition in graph.conditions:
            self.tasks[condition.source].own_conditions += (condition.index,)

    def unlink(self) -> None:
        """Let nodes know no others any more, so that they are freed without the garbage collector."""
        self.root.nodes.clear()
        for node in (*self.phases, *self.tasks):
            node.needs, node.item_source, node.conditions, node.loop = (), None, (), None
            if node.body is not None:
                node.body.owner = None
                node.body.nodes.clear()

    def list_left_out(self, taking_part: Collection[int]) -> Iterator[SchedulerNode]:
        """The tasks that take no part, and the phases none of whose tasks does."""
        for task in self.tasks:
            if task.index not in taking_part:
                yield task
        for phase in self.phases:
            if all(task.index not in taking_part for task in get_body(phase).nodes):
                yield phase

    def _link_tasks(self, graph: Graph) -> None:
        for task in graph.tasks:
            node = self.tasks[task.index]
            node.needs = tuple([self.tasks[index] for index in task.context])
            if task.item_source is not None:
                node.item_source = self.tasks[task.item_source]
                node.needs = tuple(dict.fromkeys((*node.needs, node.item_source)))
            if task.when:
                sources = [self.tasks[graph.conditions[number].source] for number in task.when]
                node.conditions = tuple(zip(task.when, sources, strict=True))
            _add_holds(node, () if task.after is None else (self.tasks[task.after],))

    def _link_phases(self, graph: Graph) -> None:
        for phase in graph.phases:
            node = self.phases[phase.index]
            node.has_review = phase.phase.review is not None
            if phase.until:
                until = tuple((number, self.tasks[graph.conditions[number].source]) for number in phase.until)
                is_kept = phase.phase.on_exhausted is OnExhausted.KEEP
                node.loop = Loop(until, (phase.phase.max_rounds or 1) - 1, keeps_last=is_kept)
            node.needs = tuple(self.phases[index] for index in phase.after)
            owners = (self.tasks[graph.conditions[number].source].group.owner for number in phase.when)
            node.conditions = tuple((number, owner) for number, owner in zip(phase.when, owners, strict=True) if owner)
            _add_holds(node, ())


def _add_holds(node: SchedulerNode, after: Iterable[SchedulerNode]) -> None:
    """Let a node wait for all that it depends on in its own group, and for what it merely comes after."""
    is_partial = node.group.strategy is ErrorStrategy.PARTIAL
    sources = dict.fromkeys(source for _, source in node.conditions)
    for each in node.needs:
        if each.group is node.group:
            if is_partial:
                each.followers = _append(each.followers, node)
            else:
                each.readers = _append(each.readers, node)
            node.hold_count += 1
    for each in (*sources, *after):
        if each.group is node.group:
            each.followers = _append(each.followers, node)
            node.hold_count += 1


def _append(nodes: Sequence[SchedulerNode], node: SchedulerNode) -> list[SchedulerNode]:
    """A list with one more node; made for the first one, since most nodes hold no other."""
    if isinstance(nodes, list):
        nodes.append(node)
        return nodes
    return [node]
