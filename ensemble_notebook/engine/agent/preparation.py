"""What is made ready once for a run, however many agents wait for it: models, and tools behind connections (E83)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.run_context import leave_context
from ensemble_notebook.domain.definitions.tool import SourcedTool, ToolSession, ToolSource, list_tool_names
from ensemble_notebook.domain.events import Noted, WaitEnded, WaitStarted, Warned
from ensemble_notebook.domain.planning.graph import get_llm_key
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.engine.events.event_stream import STARTUP, SpanEmitter
from ensemble_notebook.engine.function_caller import call_safely
from ensemble_notebook.engine.loop_thread import call_on_loop
from ensemble_notebook.errors import AgentExecutionError, EnsembleError, summarize_error

CLOSING_LIMIT_S: Final = 5.0


class PreparedModels:
    """Models by spec text or object.

    Args:
        source: where they come from.
        run: the span of the run, in which preparations are noted.
    """

    def __init__(self, source: ChatSource, run: SpanEmitter) -> None:
        self._source = source
        self._run = run
        self._preparations: dict[object, asyncio.Task[ChatPort]] = {}
        self._startups: list[StartupSpan] = []

    def close(self) -> None:
        """Stop preparing: nobody waits for a model any more."""
        for preparation in self._preparations.values():
            call_on_loop(preparation.get_loop(), preparation.cancel)
        for startup in self._startups:  # what is cancelled gets to its own end only when the run is told as ended
            startup.cancel()

    async def get(self, llm: Any, agent: Agent, description: str, task: SpanEmitter) -> ChatPort:
        """The port of a model, for an agent that works on the task of this description.

        Until there is one, the time of `task` stands still: a model is made ready once for all.

        Raises:
            AgentExecutionError: the model can't be had.
        """
        key = get_llm_key(llm)
        preparation = self._preparations.get(key)
        if preparation is None:
            preparation = self._preparations[key] = asyncio.ensure_future(call_safely(self._prepare, llm))
        try:
            if preparation.done():
                return preparation.result()
            # Shielded, since others wait for the same model: a task that is cancelled must not end it for them.
            with task.timer.starting_up():
                return await asyncio.shield(preparation)
        except EnsembleError:
            raise
        except Exception as error:
            raise AgentExecutionError(
                f"The model of agent {agent.role!r} could not be made ready: {summarize_error(error)}",
                agent_role=agent.role,
                task_description=description,
            ) from error

    async def _prepare(self, llm: Any) -> ChatPort:
        leave_context()
        startup = StartupSpan(self._run)
        self._startups.append(startup)
        with startup:
            port = await self._source.prepare(llm, startup.note)
        if port.warning:
            self._run.emit(Warned, message=port.warning)
        return port


class StartupSpan:
    """Begins with the first notice, so that a model which is ready leaves no span; ends with the block.

    Args:
        run: the span of the run, which the startup is a child of.
    """

    def __init__(self, run: SpanEmitter) -> None:
        self._run = run
        self._span: SpanEmitter | None = None
        self._began_s = 0.0

    def note(self, message: str) -> None:
        """Tell what is being done, before it takes its time."""
        if self._span is None:
            self._span, self._began_s = self._run.child(), self._run.stream.offset_s()
            self._span.emit(WaitStarted, cause=STARTUP, subject=message.rstrip(". "))
        self._run.emit(Noted, message=message)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        status = SpanStatus.OK if error is None else SpanStatus.ERROR
        if isinstance(error, asyncio.CancelledError):
            status = SpanStatus.CANCELLED
        self._end(status, error)

    def cancel(self) -> None:
        """The run is over: whatever is being made ready, nobody waits for it."""
        self._end(SpanStatus.CANCELLED, None)

    def _end(self, status: SpanStatus, error: BaseException | None) -> None:
        span, self._span = self._span, None
        if span is not None:
            waited_s = self._run.stream.offset_s() - self._began_s
            span.emit(WaitEnded, cause=STARTUP, waited_s=waited_s, status=status, error=error)


class PreparedTools:
    """Sessions by their connections. The runs inside a run share those of the outermost one.

    Args:
        run: the span of the outermost run, in which a startup is noted.
    """

    def __init__(self, run: SpanEmitter) -> None:
        self._run = run
        self._opening: dict[tuple[int, int], asyncio.Task[tuple[SourcedTool, ...]]] = {}
        self._sessions: list[tuple[asyncio.AbstractEventLoop, ToolSession]] = []
        self._startups: list[StartupSpan] = []

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
                opened += (
                    self._leave_out_faulty(await self._open(each, task), each)
                    if isinstance(each, ToolSource)
                    else [each]
                )
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

    async def _open(self, source: ToolSource, task: SpanEmitter) -> tuple[SourcedTool, ...]:
        loop = asyncio.get_running_loop()
        key = (id(source.connection), id(loop))
        opening = self._opening.get(key)
        if opening is None:
            session = source.make_session()
            self._sessions.append((loop, session))
            opening = self._opening[key] = asyncio.ensure_future(call_safely(self._start, session))
        if opening.done():
            return source.select(opening.result())
        with task.timer.starting_up():
            return source.select(await asyncio.shield(opening))  # others wait for the same one

    def _leave_out_faulty(self, tools: Sequence[SourcedTool], source: ToolSource) -> list[SourcedTool]:
        """Those that can be called; of each other one the run warns once."""
        for each in tools:
            message = f"The tool {each.source_name!r} of {source.label} {each.fault}, so it is not offered."
            if each.fault:
                self._run.emit_once(message, Warned, message=message)
        return [each for each in tools if not each.fault]

    async def _start(self, session: ToolSession) -> tuple[SourcedTool, ...]:
        leave_context()
        startup = StartupSpan(self._run)
        self._startups.append(startup)
        with startup:
            startup.note(session.notice)
            return await session.open()

    def stop_opening(self) -> None:
        """The run is over: nobody waits for a tool any more."""
        for opening in self._opening.values():
            call_on_loop(opening.get_loop(), opening.cancel)
        for startup in self._startups:
            startup.cancel()
        for message in (each for _, session in self._sessions for each in session.warnings):
            self._run.emit(Warned, message=message)

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
