"""The models of one run, each made ready once, however many agents wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.events import Warned
from ensemble_notebook.domain.planning.graph import get_llm_key
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.engine.agent.startup_span import StartupSpan
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.threads.function_caller import call_safely
from ensemble_notebook.engine.threads.loop_thread import call_on_loop
from ensemble_notebook.errors import AgentExecutionError, EnsembleError, summarize_error


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

        Until there is one, the time of `task` stands still: a model is made ready once for all (E50, E57).

        Raises:
            AgentExecutionError: the model can't be had.
        """
        key = get_llm_key(llm)
        preparation = self._preparations.get(key)
        if preparation is None:
            preparation = self._preparations[key] = asyncio.ensure_future(call_safely(self._prepare, llm))
        try:
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
        startup = StartupSpan(self._run)
        self._startups.append(startup)
        with startup:
            port = await self._source.prepare(llm, startup.note)
        if port.warning:
            self._run.emit(Warned, message=port.warning)
        return port
