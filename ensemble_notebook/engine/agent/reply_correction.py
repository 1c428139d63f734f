"""Reads a reply as a value of the output type, and has the agent correct it until it can be read (E16)."""

from __future__ import annotations

from typing import Any, Final

from ensemble_notebook.engine.agent.agent_loop import AgentLoop
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.prompts import write_correction_prompt
from ensemble_notebook.engine.agent.structured_output import OutputFormat
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.threads.function_caller import FunctionCaller

# A longer reply is read on a thread: it takes a while, in which the run can be stopped (E67).
LONG_REPLY: Final = 100_000


class ReplyCorrector:
    """The corrections of one request.

    Args:
        request: the work that is corrected.
        output_format: of the request.
        loop: of the agent; its conversation goes on.
        caller: reads long replies.
    """

    def __init__(
        self, request: AgentRequest, output_format: OutputFormat, loop: AgentLoop, caller: FunctionCaller
    ) -> None:
        self._request = request
        self._output_format = output_format
        self._loop = loop
        self._caller = caller

    async def read(self, text: str, task: SpanEmitter) -> tuple[str, Any]:
        """The reply that could be read, and its value.

        Raises:
            OutputParsingError: no reply was of the output type, corrections included, or one was cut off (E58).
            AgentExecutionError, MaxIterationsExceededError: as `AgentLoop.correct`.
        """
        faults: list[str] = []
        while True:
            try:
                return text, await self._read(text)
            except ValueError as error:
                faults.append(str(error))
            if self._loop.cut is not None:  # asked again, the model would be cut off again
                faults[-1] = f"it was cut off: {self._loop.cut}"
                raise self._output_format.make_error(text, faults, advice="")
            if len(faults) > self._request.max_output_retries:
                raise self._output_format.make_error(text, faults)
            prompt = write_correction_prompt(faults[-1], self._output_format.instructions)
            text = await self._loop.correct(prompt, task)

    async def _read(self, text: str) -> Any:
        """The value of a reply; of one that was cut off, only where all of it is the value.

        Raises:
            ValueError: there is none.
        """
        read = self._output_format.read if self._loop.cut is None else self._output_format.read_whole
        if len(text) <= LONG_REPLY:
            return read(text)
        return await self._caller.call(f"reading a reply of {len(text):,} characters", read, text)
