"""A model source that answers as an earlier run was answered, and asks where that was not.

Requests are known by what they say, as in a replay; unlike there, what is not known is asked of the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.seams.asking_task import find_asking_task
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, ToolAnswer, ToolCall, ToolSpec
from ensemble_notebook.models.recording.exchange import (
    ModelRequest,
    make_request,
    to_reply_parts,
    to_result_part,
    to_user_part,
)
from ensemble_notebook.models.recording.kept_answers import KeptAnswers
from ensemble_notebook.models.recording.port_info import PortInfo
from ensemble_notebook.models.recording.recorder import RecordingConversation, RecordingPort, RecordingSource


class ResumingSource:
    """A `ChatSource` that asks another one only what an earlier run has no answer to.

    Args:
        source: asks, and writes down what was asked; its log has all that the earlier run wrote.
        answers: of the earlier run.
    """

    def __init__(self, source: RecordingSource, answers: KeptAnswers) -> None:
        self._source = source
        self._answers = answers

    @property
    def warnings(self) -> Sequence[str]:
        """As the source has them."""
        return self._source.warnings

    @property
    def has_reviews(self) -> bool:
        """Whether reviewers were asked: a gate that was passed stays one where nobody can be asked now."""
        return self._answers.has_reviews or self._source.has_reviews

    async def review(self, request: ReviewRequest, ask: Callable[[], Awaitable[ReviewAnswer]]) -> ReviewAnswer:
        """Give what the reviewer has decided, or ask."""
        answer = self._answers.take_review(request)
        if answer is None:
            return await self._source.review(request, ask)
        return answer._replace(is_kept=True)

    def check(self, llm: Any) -> None:
        """Check as the source does: it will be asked."""
        self._source.check(llm)

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> ResumingPort:
        """Make a port of the source's, which is asked only what is not known."""
        port = await self._source.prepare(llm, notice)
        return ResumingPort(**PortInfo.from_port(port).to_attributes(), port=port, answers=self._answers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResumingPort(PortInfo):
    """A `ChatPort` whose conversations begin with what is known of them."""

    port: RecordingPort
    answers: KeptAnswers

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> ResumingConversation:
        """Begin a conversation."""
        request = make_request(self.port.llm, system, user, tools, schema)
        return ResumingConversation(self.port.open(system, user, tools, schema), request, self.answers)

    def classify(self, error: Exception) -> Fault:
        """Classify as the port does that was asked."""
        return self.port.classify(error)


class ResumingConversation:
    """A `Conversation` that has its replies from an earlier run as long as that had any."""

    def __init__(self, conversation: RecordingConversation, request: ModelRequest, answers: KeptAnswers) -> None:
        self._conversation = conversation
        self._request = request
        self._answers = answers
        self._kept_exchange: int | None = None

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        self._conversation.add_tool_result(call, text)
        self._request = (*self._request, to_result_part(call.id, call.name, text))

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        self._conversation.add_user_message(text)
        self._request = (*self._request, to_user_part(text))

    def add_reply(self, reply: ModelReply) -> None:
        """Append a reply that came from somewhere else."""
        self._conversation.add_reply(reply)
        self._note_reply(reply, None)

    def take_kept_reply(self) -> ModelReply | None:
        """Take the reply that the earlier run has had to the same request."""
        exchange = self._answers.take(self._request, find_asking_task())
        if exchange is None or not isinstance(exchange.outcome, ModelReply):
            reply = self._conversation.take_kept_reply()
            if reply is not None:
                self._note_reply(reply, None)
            return reply
        self._conversation.add_reply(exchange.outcome, exchange=exchange.number)
        self._note_reply(exchange.outcome, exchange.number)
        return exchange.outcome

    def _note_reply(self, reply: ModelReply, kept_exchange: int | None) -> None:
        self._request = (*self._request, *to_reply_parts(reply))
        self._kept_exchange = kept_exchange

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        """Give what the tool has answered in the earlier run, or run it."""
        if self._kept_exchange is not None:
            answer = self._answers.take_tool(self._kept_exchange, call)
            if answer is not None:
                return replace(answer, is_kept=True)
        return await self._conversation.run_tool(call, run)

    def input_bound(self) -> int:
        """Bound the tokens that the next request can have."""
        return self._conversation.input_bound()

    async def reply(
        self,
        on_token: Callable[[str], None] | None = None,
        *,
        max_tokens: int | None = None,
        check_sending: Callable[[], None] | None = None,
    ) -> ModelReply:
        """Ask for the next reply."""
        reply = await self._conversation.reply(on_token, max_tokens=max_tokens, check_sending=check_sending)
        self._note_reply(reply, None)
        return reply
