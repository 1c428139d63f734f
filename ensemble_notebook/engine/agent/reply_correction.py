"""Reads a reply as a value of the output type, and has the agent correct it until it can be read (E16)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from ensemble_notebook.domain.seams.chat_port import ChatPort
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.agent.prompts import write_correction_prompt
from ensemble_notebook.engine.agent.structured_output import OutputFormat
from ensemble_notebook.engine.agent.turn_span import turn_span
from ensemble_notebook.engine.events.event_stream import SpanEmitter


class ReplyCorrector:
    """The corrections of one request.

    Args:
        request: the work that is corrected.
        output_format: of the request.
        port: the model.
        llm: asks it.
        schema: the JSON schema that the model is held to by itself; None where the prompt has to say it.
    """

    def __init__(
        self,
        request: AgentRequest,
        output_format: OutputFormat,
        port: ChatPort,
        llm: LlmCaller,
        schema: Mapping[str, Any] | None,
    ) -> None:
        self._request = request
        self._output_format = output_format
        self._port = port
        self._llm = llm
        self._schema = schema

    async def read(self, text: str, task: SpanEmitter, iteration: int) -> tuple[str, Any]:
        """The reply that could be read, and its value; the next turn has number `iteration`.

        Raises:
            OutputParsingError: no reply was of the output type, corrections included.
        """
        faults: list[str] = []
        for number in count(iteration):
            try:
                return text, self._output_format.read(text)
            except ValueError as error:
                faults.append(str(error))
            if len(faults) > self._request.max_output_retries:
                raise self._output_format.make_error(text, faults)
            text = await self._correct(text, faults[-1], task, number)
        raise AssertionError("unreachable")

    async def _correct(self, previous: str, fault: str, task: SpanEmitter, iteration: int) -> str:
        prompt = write_correction_prompt(previous, fault, self._output_format.instructions)
        with turn_span(self._request, task, iteration, is_correction=True, prompt=prompt) as turn:
            conversation = self._port.open(self._request.system_prompt, prompt, (), self._schema)
            reply = await self._llm.ask(conversation, turn)
        return reply.text
