"""Model sources that write down every exchange: a recording, for a later run without any model (E42).

Wraps the Protocols of `domain.seams.chat_port`; knows nothing of what is behind them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.seams.chat_port import (
    ChatPort,
    ChatSource,
    Conversation,
    Fault,
    ModelReply,
    ToolAnswer,
    ToolCall,
    ToolSpec,
)
from ensemble_notebook.errors import get_message
from ensemble_notebook.models.recording.exchange import CancelledRequest, FailedRequest, Outcome
from ensemble_notebook.models.recording.exchange_log import ExchangeLog
from ensemble_notebook.models.recording.pending_exchange import PendingRequest
from ensemble_notebook.models.recording.port_info import PortInfo, to_recorded_name


class RecordingSource:
    """A `ChatSource` that passes on to another, and writes every exchange down.

    Args:
        source: the models.
        log: where it is written.
    """

    def __init__(self, source: ChatSource, log: ExchangeLog) -> None:
        self._source = source
        self._log = log

    @property
    def warnings(self) -> Sequence[str]:
        """What could not be written, beside what the source warns of."""
        return (*self._source.warnings, *self._log.warnings)

    @property
    def has_reviews(self) -> bool:
        """As the source that is recorded has it."""
        return self._source.has_reviews

    async def review(self, request: ReviewRequest, ask: Callable[[], Awaitable[ReviewAnswer]]) -> ReviewAnswer:
        """Get the answer as the source that is recorded does; it is written down before anybody acts on it."""
        started = time.monotonic()
        outcome: ReviewAnswer | Exception | None = None
        try:
            answer: ReviewAnswer = await self._source.review(request, ask)
            outcome = answer
        except Exception as error:
            outcome = error
            raise
        finally:
            self._log.add_review(request, outcome, time.monotonic() - started)
        return answer

    def check(self, llm: Any) -> None:
        """Check as the source that is recorded does."""
        self._source.check(llm)

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> RecordingPort:
        """Make a port of the source's, which writes down what goes through it."""
        port = await self._source.prepare(llm, notice)
        info, name = PortInfo.from_port(port), to_recorded_name(llm)
        self._log.add_model(name, info)
        return RecordingPort(**info.to_attributes(), port=port, llm=name, log=self._log)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordingPort(PortInfo):
    """A `ChatPort` whose conversations are written down; all else is as the port has it."""

    port: ChatPort
    llm: str
    log: ExchangeLog

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> RecordingConversation:
        """Begin a conversation."""
        request = PendingRequest(opening=(self.llm, system, user, tuple(tools), schema))
        return RecordingConversation(self.port, self.port.open(system, user, tools, schema), request, self.log)

    def classify(self, error: Exception) -> Fault:
        """Classify as the recorded port does."""
        return self.port.classify(error)


class RecordingConversation:
    """A `Conversation` that is written down: its beginning once, then what each exchange adds."""

    def __init__(self, port: ChatPort, conversation: Conversation, request: PendingRequest, log: ExchangeLog) -> None:
        self._port = port
        self._conversation = conversation
        self._request = request
        self._log = log
        self._last_exchange = 0
        self._answers: dict[str, str | None] = {}

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        self._conversation.add_tool_result(call, text)
        is_written_with_call = self._answers.pop(call.id, None) == text
        self._request.results.append((call, None if is_written_with_call else text))

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        self._conversation.add_user_message(text)
        self._request.user = text

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        """Run the tool; its answer is written down before the model sees it."""
        started = time.monotonic()
        answer = None
        try:
            answer = await self._conversation.run_tool(call, run)
        finally:
            self._log.add_tool(self._last_exchange, call, answer, time.monotonic() - started)
        # Where a model gives one id to two calls, what was answered is written with the results, too.
        self._answers[call.id] = None if call.id in self._answers else answer.text
        return answer

    def add_reply(self, reply: ModelReply, *, exchange: int | None = None) -> None:
        """Append a reply of an earlier run.

        Args:
            reply: as it was.
            exchange: its number, where it is written down already.
        """
        self._conversation.add_reply(reply)
        if exchange is None:
            exchange = self._log.add_exchange(self._request, reply, (), 0.0)
        else:
            self._log.note_reply(exchange)
        self._note_reply(exchange)

    def take_kept_reply(self) -> ModelReply | None:
        """Take the reply that the conversation which is recorded has already; it is written down, too."""
        self._log.note_request()
        reply = self._conversation.take_kept_reply()
        if reply is not None:
            self._note_reply(self._log.add_exchange(self._request, reply, (), 0.0))
        return reply

    def _note_reply(self, exchange: int) -> None:
        self._last_exchange = exchange
        self._request = PendingRequest(continues=exchange)

    def input_bound(self) -> int:
        """Tell what the conversation that is recorded tells."""
        return self._conversation.input_bound()

    async def reply(
        self,
        on_token: Callable[[str], None] | None = None,
        *,
        max_tokens: int | None = None,
        check_sending: Callable[[], None] | None = None,
    ) -> ModelReply:
        """Ask for the next reply; it is written down before anybody sees it, and so is a failure."""
        pieces: list[str] = []

        def take_piece(piece: str) -> None:
            pieces.append(piece)
            if on_token is not None:
                on_token(piece)

        started = time.monotonic()

        def write(outcome: Outcome) -> int:
            return self._log.add_exchange(self._request, outcome, pieces, time.monotonic() - started)

        try:
            reply = await self._conversation.reply(
                None if on_token is None else take_piece, max_tokens=max_tokens, check_sending=check_sending
            )
        except Exception as error:
            self._request = PendingRequest(repeats=write(_to_failed_request(error, self._port.classify(error))))
            raise
        except BaseException:
            write(CancelledRequest())
            self._request = self._request.copy()  # it may be made again, and grow
            raise
        self._note_reply(write(reply))
        return reply


def _to_failed_request(error: Exception, fault: Fault) -> FailedRequest:
    return FailedRequest(type(error).__name__, get_message(error), fault)
