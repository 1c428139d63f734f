"""Decides what starts, ends and is skipped: a pure state machine (E20, E21, E26-E28, E32, E33, E35).

Knows no asyncio, clock or model: scheduler inputs in, commands out. One mechanism serves phases and tasks: a phase is a
node whose body is a group of nodes, and the whole run is the outermost group.

A node waits until nothing holds it any more. It is held by its group (until that opens), and by each node of the same
group that it needs, whose output it has a condition on, or that it merely comes after, until that one is resolved.
Then its conditions, and what became of the nodes that it depends on, tell whether it starts. What it depends on in
another group is resolved by the time its own group opens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy, PhaseStatus
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.planning.graph_part import GraphPart
from ensemble_notebook.engine.scheduling.scheduler_commands import (
    CancelReview,
    CancelTask,
    Command,
    DenyPlaces,
    EndPhase,
    EndRun,
    GrantPlace,
    QueueReview,
    QueueTask,
    RetryPhase,
    ReviewPhase,
    SkipPhase,
    SkipTask,
    StartPhase,
    StartTask,
)
from ensemble_notebook.engine.scheduling.scheduler_inputs import (
    PhaseApproved,
    PhaseRejected,
    PhaseReviewAborted,
    PhaseSentBack,
    PlaceReturned,
    PlacesWanted,
    RunClosed,
    RunningTaskSkipped,
    RunStartRequested,
    RunStopRequested,
    SchedulerInput,
    TaskEndedWithoutOutput,
    TaskSucceeded,
)
from ensemble_notebook.engine.scheduling.scheduler_nodes import (
    MISSED,
    RESOLVED,
    UNSTARTED,
    NodeGroup,
    NodeState,
    NodeTable,
    SchedulerNode,
    find_dependents,
    get_body,
    hold_again,
)

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
            a failed phase are skipped, and unrelated ones go on (E26).
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
        self._ready: deque[SchedulerNode] = deque()
        self._to_resolve: deque[tuple[SchedulerNode, NodeState, str]] = deque()
        self._running: dict[int, SchedulerNode] = {}
        self._reviewed: dict[int, SchedulerNode] = {}
        self._free_places = float("inf") if max_concurrency is None else max_concurrency
        self._closing_reason: str | None = None
        self._is_stopping = False
        self._commands: list[Command] = []

    def handle(self, scheduler_input: SchedulerInput) -> list[Command]:
        """Take in what happened; returns what is to be done, in order.

        Raises:
            KeyError: it can't have happened to this task or phase, since that was not running or in review.
        """
        self._apply(scheduler_input)
        while self._to_resolve:
            self._resolve(*self._to_resolve.popleft())
        self._start_ready()
        if self._root.unresolved_count == 0:
            self._commands.append(EndRun())
        commands, self._commands = self._commands, []
        return commands

    def release(self) -> None:
        """The run is over, and nothing is handled any more."""
        self._nodes.unlink()

    def _apply(self, scheduler_input: SchedulerInput) -> None:
        match scheduler_input:
            case TaskSucceeded(task, met):
                self._met_conditions |= met
                self._end_task(task, NodeState.SUCCEEDED)
            case TaskEndedWithoutOutput(task):
                self._end_task(task, NodeState.SKIPPED if self._is_stopping else NodeState.FAILED)
            case RunningTaskSkipped(task):
                self._end_task(task, NodeState.SKIPPED)
            case PlacesWanted(task, count):
                self._want_places(self._tasks[task], count)
            case PlaceReturned():
                self._free_places += 1
            case RunStartRequested():
                self._open(self._root.nodes)
            case RunClosed(reason):
                self._close(reason)
            case RunStopRequested():
                self._stop()
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
            self._commands.append(StartPhase(node.index))
            self._open(node.body.nodes)

    def _find_skip(self, node: SchedulerNode) -> tuple[NodeState, str] | None:
        """Why a node that nothing holds any more does not run; None where it does (E32, E33)."""
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
            self._commands.append(QueueTask(node.index) if node.body is None else QueueReview(node.index))
        self._ready.append(node)

    def _start_ready(self) -> None:
        """Fill the free places in order of readiness."""
        while self._ready and self._free_places > 0:
            node = self._ready.popleft()
            if node.state is NodeState.READY:
                node.state = NodeState.RUNNING
                self._running[node.index] = node
                self._commands.append(StartTask(node.index))
            elif node.state is NodeState.AWAITING_REVIEW:
                node.state = NodeState.IN_REVIEW
                self._reviewed[node.index] = node
                self._commands.append(ReviewPhase(node.index))
            elif node.state is NodeState.RUNNING and node.wanted_places:
                node.wanted_places -= 1
                self._commands.append(GrantPlace(node.index))
            else:
                continue
            self._free_places -= 1

    def _want_places(self, node: SchedulerNode, count: int) -> None:
        """Items of a running task queue for places behind whatever is ready by now; none begins after a failure."""
        reason = self._closing_reason or node.group.failure_text
        if node.state is not NodeState.RUNNING or reason is not None:
            self._commands += [DenyPlaces(node.index, reason or STOPPED)] if count else []
            return
        self._ready.extend([node] * (count - node.wanted_places))
        node.wanted_places = count

    def _deny_places(self, nodes: Iterable[SchedulerNode], reason: str) -> None:
        """Let no running task begin another one of its items."""
        for node in nodes:
            if node.wanted_places:
                node.wanted_places = 0
                self._commands.append(DenyPlaces(node.index, reason))

    def _end_task(self, task: int, state: NodeState) -> None:
        """A running task has ended."""
        node = self._running.pop(task)
        node.wanted_places = 0
        self._free_places += 1
        self._to_resolve.append((node, state, ""))

    def _end_review(self, scheduler_input: PhaseApproved | PhaseSentBack | PhaseRejected | PhaseReviewAborted) -> None:
        """The review of a phase has ended; what was sent back when nothing starts any more is cut short."""
        phase = self._reviewed.pop(scheduler_input.phase)
        body = get_body(phase)
        self._free_places += 1
        if isinstance(scheduler_input, PhaseSentBack) and self._closing_reason is None:
            self._retry_phase(phase, body, scheduler_input.tasks)
            return
        body.has_failed = isinstance(scheduler_input, PhaseRejected)
        body.is_cut_short = isinstance(scheduler_input, PhaseSentBack | PhaseReviewAborted)
        self._end_phase(phase, body)

    def _resolve(self, node: SchedulerNode, state: NodeState, reason: str) -> None:
        """Settle a node. What follows from it is listed and not called at once: graphs may be 10,000 nodes deep."""
        if node.state in RESOLVED:
            return
        if node.state in UNSTARTED:
            skip = SkipTask if node.body is None else SkipPhase
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
        """What a node that failed, or was skipped for a failure, means for its group (E32)."""
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
        is_whole = not body.has_failed and not body.is_cut_short and self._closing_reason is None
        is_whole = is_whole and self._left_out.isdisjoint(body.nodes)
        if phase.has_review and is_whole and any(each.state is NodeState.SUCCEEDED for each in body.nodes):
            phase.state = NodeState.AWAITING_REVIEW
            self._queue_for_place(phase)
        else:
            self._end_phase(phase, body)

    def _end_phase(self, phase: SchedulerNode, body: NodeGroup) -> None:
        """A phase is over, and nothing in it comes after it."""
        is_whole = not body.has_failed and not body.is_cut_short
        status = PhaseStatus.COMPLETED if is_whole else PhaseStatus.FAILED
        self._commands.append(EndPhase(phase.index, status, is_cancelled=body.is_cut_short and not body.has_failed))
        self._to_resolve.append((phase, NodeState.SUCCEEDED if is_whole else NodeState.FAILED, ""))

    def _retry_phase(self, phase: SchedulerNode, body: NodeGroup, tasks: frozenset[int] | None) -> None:
        """A phase was sent back: forget what came of all its tasks, or of these and their dependents (E28, E46)."""
        again = body.nodes if tasks is None else find_dependents(self._tasks[index] for index in tasks)
        phase.state = NodeState.RUNNING
        body.unresolved_count = len(again)
        body.failure_text = None
        hold_again(again)
        for node in again:
            self._met_conditions = self._met_conditions.difference(node.own_conditions)
        self._commands.append(RetryPhase(phase.index, tuple(node.index for node in again)))
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

    def _stop(self) -> None:
        """Nothing new starts; what runs is cancelled and will be reported as lost."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._commands += [CancelTask(index) for index in self._running]
        self._commands += [CancelReview(index) for index in self._reviewed]
        self._close(STOPPED)
