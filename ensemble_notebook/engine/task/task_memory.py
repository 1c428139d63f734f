"""Memory at work: what tasks read before they start, and leave behind once they are done (E44)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.memory import MemoryEntry, get_memory_kind
from ensemble_notebook.domain.events import MemoryEnded, MemoryStarted, Warned
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.agent.prompts import write_exchange
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.errors import summarize_error

ENTRIES_PER_SCOPE: Final = 5


class TaskMemory:
    """The memory of one run. A store that fails, or takes longer than a task may take, costs a warning, never the task.

    What a store gives is anybody's, too, so it is looked at before it is believed.
    """

    def __init__(self, services: RunServices) -> None:
        self._store = services.spec.memory
        self._caller = services.caller

    async def read(
        self, scopes: Sequence[str], query: str, task: SpanEmitter, limit_s: float | None
    ) -> dict[str, Sequence[MemoryEntry]]:
        """The entries of each scope that fit the query; each scope has `limit_s` seconds to answer."""
        found: dict[str, Sequence[MemoryEntry]] = {}
        if self._store is not None:
            for name in scopes:
                found[name] = await self._use_store("retrieve", name, task, limit_s, query, ENTRIES_PER_SCOPE)
        return found

    async def write(self, scopes: Sequence[str], output: TaskOutput, task: SpanEmitter, limit_s: float | None) -> None:
        """Keep what was asked and answered in each scope, for which each has `limit_s` seconds."""
        if self._store is None or self._is_read_only(scopes, task):
            return
        facts = {"task": output.name, "agent": output.agent_role, "run_id": task.stream.run_id}
        for name in scopes:
            entry = MemoryEntry(text=write_exchange(output), created_at=output.completed_at, metadata=facts)
            await self._use_store("store", name, task, limit_s, entry)

    async def restore(
        self, scopes: Sequence[str], output: TaskOutput, task: SpanEmitter, limit_s: float | None
    ) -> None:
        """Let each scope have an output of an earlier run, as of then: a store that outlives runs has it already."""
        found = await self.read(scopes, output.raw, task, limit_s)
        made = (write_exchange(output), output.completed_at)
        missing = [name for name in scopes if all((each.text, each.created_at) != made for each in found.get(name, ()))]
        await self.write(missing, output, task, limit_s)

    def _is_read_only(self, scopes: Sequence[str], task: SpanEmitter) -> bool:
        """Whether the store is only to be read; says so once where nobody asked for it, and a task has something (E60).

        A `VectorStoreMemory` that somebody has built is read-only on purpose; a vector store as it is may be not.
        """
        is_read_only = bool(getattr(self._store, "read_only", False))
        if is_read_only and scopes and getattr(self._store, "is_wrapped", False):
            message = (
                f"What task {task.task!r} leaves for its memory is not stored: the vector store is only read. Where "
                f"tasks may write into it, give memory=VectorStoreMemory(store, read_only=False)."
            )
            task.emit_once("memory is only read", Warned, message=message)
        return is_read_only

    def _get_kind(self, name: str) -> str:
        try:
            return get_memory_kind(self._store, name)
        except Exception:  # noqa: BLE001 - the store is anybody's, and this is only to count by
            return "long_term"

    async def _use_store(
        self, operation: str, name: str, task: SpanEmitter, limit_s: float | None, *args: Any
    ) -> tuple[MemoryEntry, ...]:
        """The entries that were read or written; none where that failed."""
        span = task.child()
        span.emit(MemoryStarted, operation=operation, scope=name, store_kind=self._get_kind(name))
        limit = asyncio.timeout(limit_s)
        try:
            with CallingSpan(span):
                async with limit:
                    given = await self._caller.call(f"memory {name}", getattr(self._store, operation), name, *args)
                entries = args if operation == "store" else tuple(given or ())[:ENTRIES_PER_SCOPE]
                for each in entries:
                    if not isinstance(each, MemoryEntry):
                        kind = type(each).__name__
                        raise TypeError(f"a store must give MemoryEntry objects, and this one gave {kind}")
        except asyncio.CancelledError as stopped:
            span.emit(MemoryEnded, status=SpanStatus.CANCELLED, count=0, error=stopped)
            raise
        except Exception as error:  # noqa: BLE001 - the store is anybody's
            span.emit(MemoryEnded, status=SpanStatus.ERROR, count=0, error=error)
            verb = "be read" if operation == "retrieve" else "be written"
            reason = f"no answer within {limit_s:g} s" if limit.expired() else summarize_error(error)
            message = f"The memory {name!r} could not {verb} for task {task.task!r}: {reason}"
            task.emit_once(("memory", operation, name), Warned, message=message)
            return ()
        span.emit(MemoryEnded, status=SpanStatus.OK, count=len(entries))
        return entries
