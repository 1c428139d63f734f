"""What is made ready once for a run, however many agents wait for it: models, and tools behind connections (E83)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.run_context import leave_context
from ensemble_notebook.domain.definitions.tool import (
    ReadInput,
    SourcedInput,
    SourcedTool,
    ToolSession,
    ToolSource,
    list_tool_names,
)
from ensemble_notebook.domain.events import Noted, WaitEnded, WaitStarted, Warned
from ensemble_notebook.domain.planning.graph import get_llm_key
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.engine.events.event_stream import STARTUP, SpanEmitter, find_status
from ensemble_notebook.engine.function_caller import call_safely
from ensemble_notebook.engine.loop_thread import call_on_loop
from ensemble_notebook.errors import AgentExecutionError, EnsembleError, summarize_error

CLOSING_LIMIT_S: Final = 5.0


T = TypeVar("T")


class _Preparations:
    """What is made ready once, each under its key, however many agents wait for it.

    Args:
        run: the span of the run, in which preparations are noted; None before it begins.
    """

    def __init__(self, run: SpanEmitter | None = None) -> None:
        self._run = run
        self._begun: dict[object, asyncio.Task[Any]] = {}
        self._startups: list[StartupSpan] = []

    async def _get(self, key: object, make: Callable[[StartupSpan], Awaitable[T]], task: SpanEmitter | None) -> T:
        """What `make` gives, now or when it was asked for first; until then the time of `task` stands still."""
        begun: asyncio.Task[T] | None = self._begun.get(key)
        if begun is None:
            begun = self._begun[key] = asyncio.ensure_future(call_safely(self._make, make))
        if begun.done():
            return begun.result()
        # Shielded, since others wait for the same: a task that is cancelled must not end it for them.
        with nullcontext() if task is None else task.timer.starting_up():
            return await asyncio.shield(begun)

    async def _make(self, make: Callable[[StartupSpan], Awaitable[T]]) -> T:
        leave_context()  # it is made for all, and not for the task that happens to ask first
        startup = StartupSpan(self._run)
        self._startups.append(startup)
        with startup:
            return await make(startup)

    def _warn_once(self, key: object, message: str) -> None:
        if self._run is not None:
            self._run.emit_once(key, Warned, message=message)

    def stop(self) -> None:
        """The run is over: nobody waits for anything any more."""
        for begun in self._begun.values():
            call_on_loop(begun.get_loop(), begun.cancel)
        for startup in self._startups:  # what is cancelled gets to its own end only when the run is told as ended
            startup.cancel()


class PreparedModels(_Preparations):
    """Models by spec text or object.

    Args:
        source: where they come from.
        run: the span of the run, in which preparations are noted.
    """

    def __init__(self, source: ChatSource, run: SpanEmitter) -> None:
        super().__init__(run)
        self._source = source

    async def get(self, llm: Any, agent: Agent, description: str, task: SpanEmitter) -> ChatPort:
        """The port of a model, for an agent that works on the task of this description.

        Raises:
            AgentExecutionError: the model can't be had.
        """
        key = get_llm_key(llm)
        try:
            port = await self._get(key, lambda startup: self._source.prepare(llm, startup.note), task)
        except EnsembleError:
            raise
        except Exception as error:
            raise AgentExecutionError(
                f"The model of agent {agent.role!r} could not be made ready: {summarize_error(error)}",
                agent_role=agent.role,
                task_description=description,
            ) from error
        if port.warning:
            self._warn_once(("model", key), port.warning)
        return port


class StartupSpan:
    """Begins with the first notice, so that a model which is ready leaves no span; ends with the block.

    Args:
        run: the span of the run, which the startup is a child of; None before it begins, where nothing is told.
    """

    def __init__(self, run: SpanEmitter | None) -> None:
        self._run = run
        self._span: SpanEmitter | None = None
        self._began_s = 0.0

    def note(self, message: str) -> None:
        """Tell what is being done, before it takes its time."""
        if self._run is None:
            return
        if self._span is None:
            self._span, self._began_s = self._run.child(), self._run.stream.offset_s()
            self._span.emit(WaitStarted, cause=STARTUP, subject=message.rstrip(". "))
        self._run.emit(Noted, message=message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._end(find_status(error), error)

    def cancel(self) -> None:
        """The run is over: whatever is being made ready, nobody waits for it."""
        self._end(SpanStatus.CANCELLED, None)

    def _end(self, status: SpanStatus, error: BaseException | None) -> None:
        span, self._span = self._span, None
        if span is not None and self._run is not None:
            waited_s = self._run.stream.offset_s() - self._began_s
            span.emit(WaitEnded, cause=STARTUP, waited_s=waited_s, status=status, error=error)


class PreparedTools(_Preparations):
    """Sessions by their connections, and what was read there. The runs inside a run share the outermost one's."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions: list[tuple[asyncio.AbstractEventLoop, ToolSession]] = []
        self._read: list[str] = []

    def begin(self, run: SpanEmitter) -> None:
        """The outermost run has begun: tell in its span what was read for it by then."""
        self._run = run
        for message in self._read:
            run.emit(Noted, message=message)

    async def open(self, entries: Sequence[Any], agent: Agent, description: str, task: SpanEmitter) -> tuple[Any, ...]:
        """The tools of an agent, those of sources one by one; the time of `task` stands still while one is opened.

        Raises:
            AgentExecutionError: a source can't be opened, or two of the tools have one name.
        """
        if not any(isinstance(each, ToolSource) for each in entries):
            return tuple(entries)
        opened: list[Any] = []
        for each in entries:
            try:
                opened += await self._open(each, task) if isinstance(each, ToolSource) else [each]
            except Exception as error:
                raise _make_error(agent, description, summarize_error(error)) from error
        seen: set[str] = set()
        for each in opened:
            names = (each.name,) if isinstance(each, SourcedTool) else list_tool_names(each) or ()
            for name in names:
                if name in seen:
                    hint = "Take some of them alone: toolbox.only('NAME')."
                    raise _make_error(agent, description, f"the name {name!r} stands twice among its tools. {hint}")
                seen.add(name)
        return tuple(opened)

    async def read(self, source: SourcedInput, inputs: Mapping[str, str], task: SpanEmitter | None) -> ReadInput:
        """Read an input of a run, once for all runs that share this; the time of `task` stands still.

        Args:
            source: where it is read.
            inputs: of the run, as texts.
            task: whose run it is an input of; None for the outermost run.

        Raises:
            EnsembleError: the source can't be opened, or has no such thing.
        """
        # What may fill it is a part of what it is; of the others none is read.
        names = source.variables
        own = {name: text for name, text in inputs.items() if names is None or name in names}

        async def read(startup: StartupSpan) -> ReadInput:
            session = await self._get_session(source, task)
            startup.note(f"Reading {source.told} ...")
            found = await source.read(session, own)
            self._note_read(f"Read {found.told}: {found.size}.")
            return found

        return await self._get((source, tuple(own.items()), id(asyncio.get_running_loop())), read, task)

    def _note_read(self, message: str) -> None:
        if self._run is None:
            self._read.append(message)
        else:
            self._run.emit(Noted, message=message)

    async def _get_session(self, source: ToolSource, task: SpanEmitter | None) -> ToolSession:
        """The session of a source on this loop, which is opened where it is not open."""
        loop = asyncio.get_running_loop()

        async def start(startup: StartupSpan) -> ToolSession:
            session = source.make_session()
            self._sessions.append((loop, session))
            startup.note(session.notice)
            await session.open()
            return session

        return await self._get((id(source.connection), id(loop)), start, task)

    async def _open(self, source: ToolSource, task: SpanEmitter) -> list[SourcedTool]:
        """The tools of a source that can be called; of each other one the run warns once."""
        tools = await source.select(await self._get_session(source, task))
        for each in tools:
            if each.fault:
                message = f"The tool {each.source_name!r} of {source.label} {each.fault}, so it is not offered."
                self._warn_once(message, message)
        return [each for each in tools if not each.fault]

    def stop_opening(self) -> None:
        """The run is over: nobody waits for a tool any more."""
        self.stop()
        for _, session in self._sessions:
            for message in session.warnings:
                self._warn_once((session, message), message)

    async def close(self, limit_s: float) -> None:
        """Close all sessions, and wait for those of this loop, at most so long."""
        here = asyncio.get_running_loop()
        own = [session for loop, session in self._sessions if loop is here]
        for loop, session in self._sessions:
            if loop is not here and not loop.is_closed():
                call_on_loop(loop, session.request_close)
        self._sessions.clear()
        if own:
            closing = [asyncio.ensure_future(each.close()) for each in own]
            await asyncio.wait(closing, timeout=limit_s)


def _make_error(agent: Agent, description: str, why: str) -> AgentExecutionError:
    return AgentExecutionError(
        f"The tools of agent {agent.role!r} could not be made ready: {why}",
        agent_role=agent.role,
        task_description=description,
    )
