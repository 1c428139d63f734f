"""Decides what starts, ends and is skipped: a pure state machine (E20, E21, E26-E28, E32, E33, E35).

Knows no asyncio, clock or model: scheduler inputs in, commands out. One mechanism serves phases and tasks: a phase is a
node whose body is a group of nodes, and the whole run is the outermost group.

A node waits until nothing holds it any more. It is held by its group (until that opens), and by each node of the same
group that it needs, whose condition it looks at, or that it merely comes after, until that one is resolved. Then its
conditions and the fates of what it depends on tell whether it starts. What it depends on in another group is resolved
by the time its own group opens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy, PhaseStatus
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.engine.scheduling.scheduler_commands import (
    CancelReview,
    CancelTask,
    Command,
    EndPhase,
    EndRun,
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
    RunClosed,
    RunningTaskSkipped,
    RunStartRequested,
    RunStopRequested,
    SchedulerInput,
    TaskEndedWithoutOutput,
    TaskSucceeded,
)
from ensemble_notebook.engine.scheduling.scheduler_nodes import MISSED, RESOLVED, UNSTARTED, Group, Node, State, body_of

STOPPED: Final = "not started: the run was stopped"
UNMET: Final = "condition not met"

_NAMED: Final = 3


class Scheduler:
    """The state of one run.

    Args:
        graph: a valid graph.
        strategy: what a failed task means for the others of its group. Between phases there is but one: dependents of
            a failed phase are skipped, and unrelated ones go on (E26).
        max_concurrency: how many tasks, and reviews of phases, may run at once, in all phases together; None for no
            limit.
    """

    def __init__(self, graph: Graph, strategy: ErrorStrategy, max_concurrency: int | None = None) -> None:
        self._root = Group(None, ErrorStrategy.CONTINUE_ON_ERROR if graph.phases else strategy)
        self._phases = [Node(phase.index, phase.name, self._root) for phase in graph.phases]
        for node in self._phases:
            node.body = Group(node, strategy)
        self._tasks: list[Node] = []
        for task in graph.tasks:
            group = self._root if task.phase is None else self._phases[task.phase].body
            assert group is not None
            self._tasks.append(Node(task.index, task.name, group))
        self._connect(graph)
        self._held: set[int] = set()
        self._ready: deque[Node] = deque()
        self._agenda: deque[tuple[Node, State, str]] = deque()
        self._running: dict[int, Node] = {}
        self._reviewed: dict[int, Node] = {}
        self._free = float("inf") if max_concurrency is None else max_concurrency
        self._closing: str | None = None
        self._is_stopping = False
        self._commands: list[Command] = []

    def handle(self, scheduler_input: SchedulerInput) -> list[Command]:
        """Take in what happened; returns what is to be done, in order.

        Raises:
            KeyError: it can't have happened to this task or phase, since that was not running or in review.
        """
        commands: list[Command] = []
        self._commands = commands
        self._take_in(scheduler_input)
        while self._agenda:
            self._resolve(*self._agenda.popleft())
        self._start_ready()
        if self._root.unresolved == 0:
            commands.append(EndRun())
        return commands

    def _take_in(self, scheduler_input: SchedulerInput) -> None:
        match scheduler_input:
            case TaskSucceeded(task, held):
                self._held |= held
                self._leave(task, State.SUCCEEDED)
            case TaskEndedWithoutOutput(task):
                self._leave(task, State.SKIPPED if self._is_stopping else State.FAILED)
            case RunningTaskSkipped(task):
                self._leave(task, State.SKIPPED)
            case RunStartRequested():
                self._open(self._root)
            case RunClosed(reason):
                self._close(reason)
            case RunStopRequested():
                self._stop()
            case _:
                self._leave_review(scheduler_input)

    def _connect(self, graph: Graph) -> None:
        for task in graph.tasks:
            node = self._tasks[task.index]
            node.needs = tuple(self._tasks[index] for index in task.context)
            sources = (self._tasks[graph.conditions[number].source] for number in task.when)
            node.tests = tuple(zip(task.when, sources, strict=True))
            self._hold(node, () if task.after is None else (self._tasks[task.after],))
        for phase in graph.phases:
            node = self._phases[phase.index]
            node.has_review = phase.phase.review is not None
            node.needs = tuple(self._phases[index] for index in phase.after)
            owners = (self._tasks[graph.conditions[number].source].group.owner for number in phase.when)
            node.tests = tuple((number, owner) for number, owner in zip(phase.when, owners, strict=True) if owner)
            self._hold(node, ())
        for condition in graph.conditions:
            self._tasks[condition.source].tested.append(condition.index)

    def _hold(self, node: Node, after: Iterable[Node]) -> None:
        """Let a node wait for all that it depends on in its own group, and for what it merely comes after."""
        is_partial = node.group.strategy is ErrorStrategy.PARTIAL
        sources = dict.fromkeys(source for _, source in node.tests)
        for each in node.needs:
            if each.group is node.group:
                (each.followers if is_partial else each.readers).append(node)
                node.links += 1
        for each in (*sources, *after):
            if each.group is node.group:
                each.followers.append(node)
                node.links += 1
        node.holds += node.links

    def _open(self, group: Group) -> None:
        for node in group.nodes:
            self._release(node)

    def _release(self, node: Node) -> None:
        """One hold less; once nothing holds it, a node starts, or is put on the agenda to be skipped."""
        node.holds -= 1
        if node.holds or node.state is not State.HELD or self._closing is not None:
            return
        if (skip := self._skip(node)) is not None:
            self._agenda.append((node, *skip))
        elif node.body is None:
            node.state = State.READY
            self._line_up(node)
        else:
            node.state = State.RUNNING
            self._commands.append(StartPhase(node.index))
            self._open(node.body)

    def _skip(self, node: Node) -> tuple[State, str] | None:
        """Why a node that nothing holds any more does not run; None where it does (E32, E33)."""
        missed = next((each for each in node.needs if each.state in MISSED), None)
        if missed is not None and node.group.strategy is not ErrorStrategy.PARTIAL:
            return State.SKIPPED, f"needs {missed.fate}"
        if node.tests:
            if any(number in self._held and source.state is State.SUCCEEDED for number, source in node.tests):
                return None
            missed = next((source for _, source in node.tests if source.state in MISSED), None)
            if missed is None:
                return State.PASSED_OVER, UNMET
            return State.SKIPPED, f"{UNMET}: {missed.name!r} {missed.word}"
        if node.needs and all(each.state is not State.SUCCEEDED for each in node.needs):
            fates = [each.fate for each in node.needs[:_NAMED]]
            more = ["and so on"] if len(node.needs) > _NAMED else []
            return State.PASSED_OVER if missed is None else State.SKIPPED, f"needs {'; '.join([*fates, *more])}"
        return None

    def _line_up(self, node: Node) -> None:
        """A task to start, or a phase to review, gets in line; where there is no free place, that is told."""
        if self._free <= len(self._ready):
            self._commands.append(QueueTask(node.index) if node.body is None else QueueReview(node.index))
        self._ready.append(node)

    def _start_ready(self) -> None:
        """Fill the free places in order of readiness."""
        while self._ready and self._free > 0:
            node = self._ready.popleft()
            if node.state is State.READY:
                node.state = State.RUNNING
                self._running[node.index] = node
                self._commands.append(StartTask(node.index))
            elif node.state is State.AWAITING_REVIEW:
                node.state = State.IN_REVIEW
                self._reviewed[node.index] = node
                self._commands.append(ReviewPhase(node.index))
            else:
                continue
            self._free -= 1

    def _leave(self, task: int, state: State) -> None:
        """A running task has ended."""
        node = self._running.pop(task)
        self._free += 1
        self._agenda.append((node, state, ""))

    def _leave_review(
        self, scheduler_input: PhaseApproved | PhaseSentBack | PhaseRejected | PhaseReviewAborted
    ) -> None:
        """The review of a phase has ended; what was sent back when nothing starts any more is cut short."""
        phase = self._reviewed.pop(scheduler_input.phase)
        body = body_of(phase)
        self._free += 1
        if isinstance(scheduler_input, PhaseSentBack) and self._closing is None:
            self._redo(phase, body)
            return
        body.has_failed = isinstance(scheduler_input, PhaseRejected)
        body.is_cut = isinstance(scheduler_input, PhaseSentBack | PhaseReviewAborted)
        self._end_phase(phase, body)

    def _resolve(self, node: Node, state: State, reason: str) -> None:
        """Settle a node; what follows from it goes on the agenda, not on the stack: graphs may be 10,000 deep."""
        if node.state in RESOLVED:
            return
        if node.state in UNSTARTED:
            skip = SkipTask if node.body is None else SkipPhase
            self._commands.append(skip(node.index, reason))
            if node.body is not None:
                text = self._closing or f"phase {node.name!r} was skipped"
                self._agenda.extend((each, state, text) for each in node.body.nodes)
        node.state = state
        if state in MISSED:
            self._agenda.extend((reader, State.SKIPPED, f"needs {node.fate}") for reader in node.readers)
            self._count_as_missed(node)
        else:
            for reader in node.readers:
                self._release(reader)
        for follower in node.followers:
            self._release(follower)
        group = node.group
        group.unresolved -= 1
        if group.unresolved == 0 and group.owner is not None and group.owner.state is State.RUNNING:
            self._complete(group.owner, group)

    def _count_as_missed(self, node: Node) -> None:
        """What a node that failed, or was skipped for a failure, means for its group (E32)."""
        group = node.group
        if node.state is State.SKIPPED and self._closing is not None:
            group.is_cut = True
            return
        is_first, group.has_failed = not group.has_failed, True
        if is_first and group.strategy is ErrorStrategy.FAIL_FAST:
            text = f"not started: {node.name!r} {node.word}"
            self._agenda.extend((each, State.SKIPPED, text) for each in group.nodes if each.state in UNSTARTED)

    def _complete(self, phase: Node, body: Group) -> None:
        """Every task of a phase is resolved: it is reviewed where somebody is to and there is something to see."""
        is_whole = not body.has_failed and not body.is_cut and self._closing is None
        if phase.has_review and is_whole and any(each.state is State.SUCCEEDED for each in body.nodes):
            phase.state = State.AWAITING_REVIEW
            self._line_up(phase)
        else:
            self._end_phase(phase, body)

    def _end_phase(self, phase: Node, body: Group) -> None:
        """A phase is over, and nothing in it comes after it."""
        is_whole = not body.has_failed and not body.is_cut
        status = PhaseStatus.COMPLETED if is_whole else PhaseStatus.FAILED
        self._commands.append(EndPhase(phase.index, status, is_cancelled=body.is_cut and not body.has_failed))
        self._agenda.append((phase, State.SUCCEEDED if is_whole else State.FAILED, ""))

    def _redo(self, phase: Node, body: Group) -> None:
        """A phase was sent back: forget what came of its tasks, and open it again (E28)."""
        phase.state = State.RUNNING
        body.unresolved = len(body.nodes)
        for node in body.nodes:
            node.state = State.HELD
            node.holds = 1 + node.links
            self._held.difference_update(node.tested)
        self._commands.append(RetryPhase(phase.index))
        self._open(body)

    def _close(self, reason: str) -> None:
        """Nothing new starts; what runs goes on."""
        self._closing = reason
        for node in (*self._tasks, *self._phases):
            if node.state in UNSTARTED:
                self._agenda.append((node, State.SKIPPED, reason))
            elif node.state is State.AWAITING_REVIEW:
                self._end_phase(node, body_of(node))

    def _stop(self) -> None:
        """Nothing new starts; what runs is cancelled and will be reported as lost."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._commands += [CancelTask(index) for index in self._running]
        self._commands += [CancelReview(index) for index in self._reviewed]
        self._close(STOPPED)
