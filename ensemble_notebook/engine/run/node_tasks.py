"""The asyncio tasks that work for one run; the only place that creates any for the tasks and phases of a run.

Knows nothing of what they do.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.engine.limits.parent_run import ParentRun
from ensemble_notebook.engine.threads.loop_thread import call_on_loop

Node: TypeAlias = TaskNode | PhaseNode
Settle = Callable[[Any, asyncio.Task[Any]], None]


class NodeTasks:
    """At most one asyncio task works on each node at a time.

    Args:
        act: calls a function that moves the run on, and ends the run where that fails.
        run: that the work is part of.
    """

    def __init__(self, act: Callable[..., None], run: ParentRun) -> None:
        self._act = act
        self._run = run
        self._working: dict[Node, asyncio.Task[Any]] = {}

    def start(self, node: Node, work: Coroutine[Any, Any, Any], settle: Settle) -> None:
        """Let `work` be done for a node; ``settle(node, task)`` is called when it is over, in whichever way."""
        task = asyncio.get_running_loop().create_task(work, context=self._run.make_context())
        self._working[node] = task
        # A callback, since a task that is cancelled before its first step runs no code of its own.
        task.add_done_callback(functools.partial(self._ended, node, settle))

    def cancel(self, node: Node) -> None:
        """Ask the work on a node to end; from any thread."""
        task = self._working[node]
        call_on_loop(task.get_loop(), task.cancel)

    def cancel_all(self) -> None:
        """Ask all work to end."""
        for task in self._working.values():
            call_on_loop(task.get_loop(), task.cancel)

    def detach(self) -> list[Node]:
        """Forget the work that still goes on, so that nobody is told of its end; gives the nodes that it was for."""
        nodes = list(self._working)
        self._working.clear()
        return nodes

    def _ended(self, node: Node, settle: Settle, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # looked at in any case: asyncio prints errors that nobody has looked at
        if self._working.get(node) is task:
            del self._working[node]
            self._act(settle, node, task)
