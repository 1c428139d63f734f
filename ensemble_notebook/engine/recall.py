"""Memory at work: what tasks read before they start, and leave behind once they are done (E44)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from ensemble_notebook.domain.choice import SpanStatus
from ensemble_notebook.domain.event import MemoryEnded, MemoryStarted, Warned
from ensemble_notebook.domain.memory import MemoryEntry, MemoryStore
from ensemble_notebook.domain.output import TaskOutput
from ensemble_notebook.engine.call import Caller
from ensemble_notebook.engine.stream import Scope
from ensemble_notebook.errors import one_line

ENTRIES_PER_SCOPE: Final = 5


class Recall:
    """The memory of one run. A store that fails costs a warning, never the task."""

    def __init__(self, store: MemoryStore | None, caller: Caller) -> None:
        self._store = store
        self._caller = caller

    async def read(self, scopes: Sequence[str], query: str, task: Scope) -> dict[str, Sequence[MemoryEntry]]:
        """The entries of each scope that fit the query."""
        found: dict[str, Sequence[MemoryEntry]] = {}
        if self._store is not None:
            for name in scopes:
                retrieve = self._store.retrieve
                entries = await self._work("retrieve", name, task, retrieve, name, query, ENTRIES_PER_SCOPE)
                found[name] = tuple(entries or ())[:ENTRIES_PER_SCOPE]
        return found

    async def write(self, scopes: Sequence[str], output: TaskOutput, task: Scope) -> None:
        """Keep an output in each scope."""
        if self._store is None:
            return
        facts = {"task": output.name, "agent": output.agent_role, "run_id": task.stream.run_id}
        for name in scopes:
            entry = MemoryEntry(text=output.raw, created_at=output.completed_at, metadata=facts)
            await self._work("store", name, task, self._store.store, name, entry)

    async def _work(self, operation: str, name: str, task: Scope, function: Callable[..., Any], *args: Any) -> Any:
        scope = task.child()
        scope.emit(MemoryStarted, operation=operation, scope=name)
        try:
            result = await self._caller.call(f"memory {name}", function, *args)
        except asyncio.CancelledError as stopped:
            scope.emit(MemoryEnded, status=SpanStatus.CANCELLED, count=0, error=stopped)
            raise
        except Exception as error:  # noqa: BLE001 - the store is anybody's
            scope.emit(MemoryEnded, status=SpanStatus.ERROR, count=0, error=error)
            verb = "be read" if operation == "retrieve" else "be written"
            task.emit(Warned, message=f"The memory {name!r} could not {verb} for task {task.task!r}: {one_line(error)}")
            return None
        count = len(result) if operation == "retrieve" else 1
        scope.emit(MemoryEnded, status=SpanStatus.OK, count=count)
        return result
