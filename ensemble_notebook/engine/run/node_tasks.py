"""The asyncio tasks that work for one run; the only place that creates any for the tasks and phases of a run.

Knows nothing of what they do.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.engine.limits.parent_run import ParentRun
from ensemble_notebook.engine.loop_thread import call_on_loop

Node: TypeAlias = TaskNode | PhaseNode
Work = Callable[[Any], Coroutine[Any, Any, Any]]
Settle = Callable[[Any, Any, "BaseException | None"], None]


class NodeTasks:
    """At most one asyncio task works on each node at a time.

    Args:
        act: calls a function that moves the run on, and ends the run where that fails.
        run: that the work is part of.
    """

    def __init__(self, act: Callable[..., None], run: ParentRun) -> None:
        self._act = act
        self._run = run
        self._context: contextvars.Context | None = None
        self._working: dict[Node, _NodeTask] = {}

    def start(self, node: Node, work: Work, settle: Settle) -> None:
        """Let ``work(node)`` be done, on the next turn of the loop.

        ``settle(node, result, error)`` is called when it is over: with what it gave and None, or with None and what it
        raised, its cancellation among that.
        """
        # Made once, since a copy of it costs a tenth; and not before the run begins, which sets variables (E68).
        if self._context is None:
            self._context = self._run.make_context()
        self._working[node] = _NodeTask(self, node, work, settle, self._context.copy())

    def cancel(self, node: Node) -> None:
        """Ask the work on a node to end; from any thread."""
        self._working[node].cancel()

    def cancel_all(self) -> None:
        """Ask all work to end."""
        for node_task in self._working.values():
            node_task.cancel()

    def detach(self) -> list[Node]:
        """Forget the work that still goes on, so that nobody is told of its end; gives the nodes that it was for."""
        nodes = list(self._working)
        self._working.clear()
        return nodes

    def end(self, node_task: _NodeTask, settle: Settle, result: Any, error: BaseException | None) -> bool:
        """Tell how the work on a node ended; False where it is forgotten, or not known yet."""
        node = node_task.node
        if self._working.get(node) is not node_task:
            return False
        del self._working[node]
        self._act(settle, node, result, error)
        return True


class _NodeTask:
    """The asyncio task that works on one node, and its callback."""

    __slots__ = ("_node_tasks", "_settle", "_task", "_work", "node")

    def __init__(
        self, node_tasks: NodeTasks, node: Node, work: Work, settle: Settle, context: contextvars.Context
    ) -> None:
        self.node = node
        self._node_tasks = node_tasks
        self._work = work
        self._settle = settle
        self._task = asyncio.get_running_loop().create_task(self._do(), context=context)
        # For all other ends than a result: a task that is cancelled before its first step runs no code of its own.
        self._task.add_done_callback(self, context=context)

    def cancel(self) -> None:
        """Ask it to end; from any thread."""
        call_on_loop(self._task.get_loop(), self._task.cancel)

    async def _do(self) -> Any:
        """Do the work, and tell of its result at once: what follows need not wait for another turn of the loop."""
        result = await self._work(self.node)
        if self._node_tasks.end(self, self._settle, result, None):
            self._task.remove_done_callback(self)
        return result

    def __call__(self, task: asyncio.Task[Any]) -> None:
        """The asyncio task has ended, and nobody knows."""
        # Looked at in any case: asyncio prints errors that nobody has looked at.
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        del self._task  # it keeps the traceback of its error, which has a frame of ours: a ring
        self._node_tasks.end(self, self._settle, task.result() if error is None else None, error)
