"""Decides what starts, ends and is skipped: a pure state machine over happenings (E20, E21, E26, E32, E35).

Knows no asyncio, clock or model: happenings in, commands out. One mechanism serves phases and tasks: a phase is a
node whose body is a group of nodes, and the whole run is the outermost group.

A node starts when nothing holds it any more. It is held by its group (until that opens), by the nodes it *needs*
(which must succeed) and by the nodes it merely comes *after* (which must be resolved, one way or the other).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ensemble_notebook.domain.choice import ErrorStrategy, PhaseStatus
from ensemble_notebook.domain.graph import Graph

STOPPED: Final = "not started: the run was stopped"


@dataclass(frozen=True, slots=True)
class RunBegun:
    """Happening: the run begins."""


@dataclass(frozen=True, slots=True)
class TaskSucceeded:
    """Happening: a running task has its output."""

    task: int


@dataclass(frozen=True, slots=True)
class TaskLost:
    """Happening: a running task ended without output, failed or cancelled."""

    task: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Happening: somebody wants the run to stop; what was already asked to stop is not asked again."""


Happening = RunBegun | TaskSucceeded | TaskLost | StopAsked


@dataclass(frozen=True, slots=True)
class StartTask:
    """Command."""

    task: int


@dataclass(frozen=True, slots=True)
class QueueTask:
    """Command: the task is ready and waits for a free place; the engine notes since when."""

    task: int


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Command: the task is running; it is to end at once, and will be reported as lost."""

    task: int


@dataclass(frozen=True, slots=True)
class SkipTask:
    """Command: the task will never run."""

    task: int
    reason: str


@dataclass(frozen=True, slots=True)
class StartPhase:
    """Command: the phase's last predecessor has completed."""

    phase: int


@dataclass(frozen=True, slots=True)
class EndPhase:
    """Command: every task of the phase is resolved."""

    phase: int
    status: PhaseStatus
    is_cancelled: bool


@dataclass(frozen=True, slots=True)
class SkipPhase:
    """Command: the phase will never run."""

    phase: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """Command: everything is resolved; always the last one."""


Command = StartTask | QueueTask | CancelTask | SkipTask | StartPhase | EndPhase | SkipPhase | EndRun


class State(Enum):
    """Of a node."""

    HELD = auto()
    READY = auto()
    RUNNING = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    SKIPPED = auto()


class _Group:
    """Nodes that open together and share a failure strategy: the body of a phase, or the run as a whole."""

    __slots__ = ("fails_fast", "has_failed", "nodes", "owner", "unresolved")

    def __init__(self, owner: _Node | None, fails_fast: bool) -> None:
        self.owner = owner
        self.fails_fast = fails_fast
        self.nodes: list[_Node] = []
        self.unresolved = 0
        self.has_failed = False


class _Node:
    """A task (no body) or a phase (with the group of its tasks as body)."""

    __slots__ = ("body", "followers", "group", "holds", "index", "name", "readers", "state")

    def __init__(self, index: int, name: str, group: _Group) -> None:
        self.index = index
        self.name = name
        self.group = group
        self.body: _Group | None = None
        self.holds = 1
        self.readers: list[_Node] = []
        self.followers: list[_Node] = []
        self.state = State.HELD
        group.nodes.append(self)
        group.unresolved += 1


class Scheduler:
    """The state of one run.

    Args:
        graph: a valid graph.
        strategy: what a failed task means for the others of its group; phases never pull down unrelated phases (E26).
        max_concurrency: how many tasks may run at once, in all phases together; None for no limit.
    """

    def __init__(self, graph: Graph, strategy: ErrorStrategy, max_concurrency: int | None = None) -> None:
        fails_fast = strategy is ErrorStrategy.FAIL_FAST
        self._root = _Group(None, fails_fast=fails_fast and not graph.phases)
        self._phases = [_Node(phase.index, phase.name, self._root) for phase in graph.phases]
        for node in self._phases:
            node.body = _Group(node, fails_fast)
        self._tasks: list[_Node] = []
        for task in graph.tasks:
            group = self._root if task.phase is None else self._phases[task.phase].body
            assert group is not None
            self._tasks.append(_Node(task.index, task.name, group))
        for task in graph.tasks:
            self._link(self._tasks[task.index], (self._tasks[index] for index in task.context), task.after)
        for phase in graph.phases:
            self._link(self._phases[phase.index], (self._phases[index] for index in phase.after), None)
        self._ready: deque[_Node] = deque()
        self._running: dict[int, _Node] = {}
        self._free = float("inf") if max_concurrency is None else max_concurrency
        self._is_stopping = False
        self._commands: list[Command] = []

    def handle(self, happening: Happening) -> list[Command]:
        """Take in what happened; returns what is to be done, in order."""
        commands: list[Command] = []
        self._commands = commands
        if isinstance(happening, TaskSucceeded):
            self._leave(self._running.pop(happening.task), State.SUCCEEDED)
        elif isinstance(happening, TaskLost):
            self._leave(self._running.pop(happening.task), State.FAILED)
        elif isinstance(happening, RunBegun):
            self._open(self._root)
        elif not self._is_stopping:
            self._stop()
        self._start_ready()
        if self._root.unresolved == 0:
            commands.append(EndRun())
        return commands

    def _link(self, node: _Node, needed: Iterable[_Node], after: int | None) -> None:
        for each in needed:
            each.readers.append(node)
            node.holds += 1
        if after is not None:
            self._tasks[after].followers.append(node)
            node.holds += 1

    def _open(self, group: _Group) -> None:
        for node in group.nodes:
            self._release(node)

    def _release(self, node: _Node) -> None:
        """One hold less; what nothing holds any more gets in line, or, being a phase, opens."""
        node.holds -= 1
        if node.holds or node.state is not State.HELD:
            return
        if node.body is None:
            node.state = State.READY
            if self._free <= len(self._ready):
                self._commands.append(QueueTask(node.index))
            self._ready.append(node)
        else:
            node.state = State.RUNNING
            self._commands.append(StartPhase(node.index))
            self._open(node.body)

    def _start_ready(self) -> None:
        """Fill the free places in order of readiness; whoever has just come and finds none is queued."""
        while self._ready and self._free > 0:
            node = self._ready.popleft()
            if node.state is State.READY:
                node.state = State.RUNNING
                self._running[node.index] = node
                self._free -= 1
                self._commands.append(StartTask(node.index))

    def _leave(self, node: _Node, state: State) -> None:
        """A running task has ended."""
        self._free += 1
        self._resolve(node, state, "")

    def _resolve(self, node: _Node, state: State, reason: str) -> None:
        """Settle a node and everything that follows from it, without recursion: graphs may be 10,000 deep."""
        todo = [(node, state, reason)]
        while todo:
            node, state, reason = todo.pop()
            if node.state in (State.SUCCEEDED, State.FAILED, State.SKIPPED):
                continue
            node.state = state
            if state is State.SKIPPED:
                self._record_skip(node, reason)
            group = node.group
            later: list[tuple[_Node, State, str]] = []
            if state is State.SUCCEEDED:
                for reader in node.readers:
                    self._release(reader)
            else:
                is_first, group.has_failed = not group.has_failed, True
                word = "failed" if state is State.FAILED else "was skipped"
                later += [(reader, State.SKIPPED, f"needs {node.name!r}, which {word}") for reader in node.readers]
                if is_first and group.fails_fast:
                    text = f"not started: {node.name!r} {word}"
                    later += [(each, State.SKIPPED, text) for each in group.nodes if each.state in _UNSTARTED]
            for follower in node.followers:
                self._release(follower)
            if node.body is not None and state is State.SKIPPED:
                text = STOPPED if self._is_stopping else f"phase {node.name!r} was skipped"
                later += [(each, State.SKIPPED, text) for each in node.body.nodes]
            group.unresolved -= 1
            if group.unresolved == 0 and group.owner is not None and group.owner.state is State.RUNNING:
                later.append(self._end_phase(group, group.owner))
            todo += reversed(later)

    def _record_skip(self, node: _Node, reason: str) -> None:
        self._commands.append(SkipTask(node.index, reason) if node.body is None else SkipPhase(node.index, reason))

    def _end_phase(self, body: _Group, phase: _Node) -> tuple[_Node, State, str]:
        """Every task of a phase is resolved, so the phase is."""
        status = PhaseStatus.FAILED if body.has_failed else PhaseStatus.COMPLETED
        is_cancelled = self._is_stopping and body.has_failed
        self._commands.append(EndPhase(phase.index, status, is_cancelled))
        return phase, State.FAILED if body.has_failed else State.SUCCEEDED, ""

    def _stop(self) -> None:
        """Nothing new starts; what runs is cancelled and will be reported as lost."""
        self._is_stopping = True
        self._commands += [CancelTask(index) for index in self._running]
        for node in (*self._tasks, *self._phases):
            if node.state in _UNSTARTED:
                self._resolve(node, State.SKIPPED, STOPPED)


_UNSTARTED: Final = (State.HELD, State.READY)
