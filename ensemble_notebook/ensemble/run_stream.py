"""A run whose events are read as they come (E80)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.reasoning import read_streamed_answer
from ensemble_notebook.engine.agent.agent_runner import LONG_REPLY
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.partial_outputs import Partial, PartialOutputs
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.errors import EnsembleError, SuggestsNames


class RunStream(SuggestsNames):
    """A run whose events are read as they come, and whose output is there after the last one.

    Made by `Ensemble.stream`, and entered by ``async with``. There is one reader: of the events, of
    `text` or of `partials`. ::

        async with ensemble.stream(topic="tides") as run:
            async for piece in run.text():
                print(piece, end="")
        print(run.output.metrics.cost)

    Leaving the block before the last event stops the run, and so does the cancellation of whoever reads. A run that
    ended by itself raises its error when the block is left, as `Ensemble.run` does; `output` is there by then.

    Args:
        handle: of the run, which has not begun.

    Attributes:
        run_id: unique.
    """

    def __init__(self, handle: RunHandle) -> None:
        self.run_id: str = handle.run_id
        self._handle = handle
        self._queue: asyncio.Queue[ev.Event | None] = asyncio.Queue()
        self._driving: asyncio.Task[None] | None = None
        self._is_read = False

    @property
    def output(self) -> EnsembleOutput | None:
        """The output, once the run has ended, failed or been stopped; None until then."""
        return self._handle.output

    async def __aenter__(self) -> Self:
        """Start the run on the current event loop."""
        if self._driving is not None:
            raise EnsembleError("This stream has been read already: call `ensemble.stream(...)` once for each run.")
        self._driving = asyncio.ensure_future(self._handle._run_here([self._queue.put_nowait]))
        self._driving.add_done_callback(lambda _: self._queue.put_nowait(None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the run if it goes on, and wait until it has ended.

        Raises:
            EnsembleError: that of the run, where it has ended by itself and the block raises nothing.
        """
        assert self._driving is not None
        if self._driving.done():
            if error is None:
                await self._handle
            return
        self._handle.cancel()
        await asyncio.wait([self._driving])

    def __aiter__(self) -> Self:
        """The events that have not been read yet, until the last one."""
        if self._driving is None:
            raise EnsembleError("A stream is read inside its block: `async with ensemble.stream(...) as run:`.")
        return self

    async def __anext__(self) -> ev.Event:
        """The next event, once it has happened."""
        event = None if self._is_read else await self._queue.get()
        if event is None:
            self._is_read = True
            raise StopAsyncIteration
        return event

    async def text(self) -> AsyncIterator[str]:
        """The words of the final task alone, in pieces as its model says them.

        Together they are what it said, ending with `EnsembleOutput.raw`. A reply that follows another one, after a
        tool call or a correction, begins on a new paragraph. Where nothing is streamed (a handler, a task taken over
        from an earlier run, several tasks at the end), the text comes in one piece.
        """
        graph, only = self._handle._spec.graph, self._handle._spec.only
        final = find_final_tasks(graph) if only is None else (only.task,)
        words = _Words(graph.tasks[final[0]].name if len(final) == 1 else None)
        async for event in self:
            if piece := words.read(event):
                yield piece
        if self.output is not None and (piece := words.tell(self.output.raw)):
            yield piece

    def partials(self, task: str | None = None) -> AsyncIterator[Partial]:
        """The typed outputs as far as they have come, while their models write them: the last one of each is whole.

        ::

            async with ensemble.stream(topic="tides") as run:
                async for partial in run.partials():
                    print(partial.get("title", "..."), len(partial.get("facts", [])))

        Args:
            task: the name of the task whose output is wanted; None: all that have an `output_type`, of which
                `Partial.task` tells them apart.

        Raises:
            EnsembleError: there is no such task, or none with an output type.
        """
        return self._read_partials(PartialOutputs(self._handle._spec.graph, task))

    async def _read_partials(self, outputs: PartialOutputs) -> AsyncIterator[Partial]:
        async for event in self:
            read = functools.partial(outputs.read, event, is_newest=self._queue.empty())
            is_long = isinstance(event, ev.TaskCompleted) and len(event.output.raw) > LONG_REPLY
            for partial in await asyncio.to_thread(read) if is_long else read():
                yield partial
        for partial in outputs.read_rest(self.output or ()):
            yield partial

    def __repr__(self) -> str:
        """Id and status."""
        return f"<RunStream {self._handle.name or self.run_id}: {self._handle.status.value}>"


class _Words:
    """Finds in the events of a run what its final task says.

    A request that is tried again says its reply once more from the beginning, so what has been told of it is not told
    again.

    Args:
        task: the name of the final task; None: no event is of interest.
    """

    def __init__(self, task: str | None) -> None:
        self._task = task
        self._spans: set[str] = set()  # the task's own, its turns and their calls; those of its peers are not in it
        self._reply = ""
        self._told = ""

    def read(self, event: ev.Event) -> str:
        """What an event adds to the words; empty for most."""
        if event.task != self._task or self._task is None:
            return ""
        is_own = event.parent_id in self._spans
        if isinstance(event, ev.TaskStarted) or (is_own and isinstance(event, ev.TurnStarted | ev.LlmCallStarted)):
            self._spans.add(event.span_id)
            self._reply = ""
        elif event.span_id in self._spans:
            if isinstance(event, ev.LlmCallRetried):
                self._reply = ""
            elif isinstance(event, ev.LlmToken):
                self._reply += event.text
                return self.tell(read_streamed_answer(self._reply))
        return ""

    def tell(self, reply: str) -> str:
        """What a reply, as far as it is known, adds to the words."""
        told = self._told
        if told.startswith(reply):
            return ""
        self._told = reply
        return reply[len(told) :] if reply.startswith(told) else f"\n\n{reply}"
