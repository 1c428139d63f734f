"""A model source that answers as an earlier run was answered, and asks where that was not.

Requests are known by what they say, as in a replay; unlike there, what is not known is asked of the model.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest, Verdict
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, RunTool, ToolAnswer, ToolSpec, find_asking_task
from ensemble_notebook.models.recording.documents import BROKEN_DOCUMENT, ExchangeReader, to_question
from ensemble_notebook.models.recording.exchange import (
    ModelRequest,
    PortInfo,
    RecordedExchange,
    make_request,
    to_call_part,
    to_reply_parts,
    to_result_part,
    to_user_part,
)
from ensemble_notebook.models.recording.recorder import RecordingConversation, RecordingPort, RecordingSource

# ----------------------------------------------------------------------------------------------------------------------
# The answers that an earlier run has had, for a run that goes on from there: found where they are, missed in silence.
#
# What failed, was stopped or had a secret in it that was masked is no answer, nor is the reply that a task failed for.
# Knows nothing of stores and runs.


class KeptAnswers:
    """The answers in the documents of an `ExchangeJournal`, each of which answers once, equal ones in order.

    A document that is not whole is passed over, and so are those that refer to it: what they answered is asked again.

    Args:
        documents: as the journal has handed them on, in order.
        run_id: of the earlier run.

    Attributes:
        last_number: of the exchanges.
        models: the names of those that were asked.
        has_reviews: whether reviewers were asked.
        redone: the names of the tools whose calls are made again, although it is not known how they ended.
    """

    def __init__(self, documents: Iterable[Mapping[str, Any]], run_id: str = "") -> None:
        reader = ExchangeReader()
        numbers = [0]
        for each in documents:
            try:
                numbers.append(int(each.get("exchange", 0)))
                reader.add(each)
            except BROKEN_DOCUMENT:
                continue
        self.last_number: int = max(numbers)
        self.models: tuple[str, ...] = tuple(reader.models)
        self.has_reviews: bool = bool(reader.reviews)
        self.redone: frozenset[str] = frozenset()
        self._run_id = run_id
        self._tools = reader.tools
        self._begun = reader.begun
        self._tasks = {number: each.task for number, each in reader.exchanges.items()}
        self._reviews = reader.reviews
        self._by_request: dict[ModelRequest, list[RecordedExchange]] = defaultdict(list)
        for exchange in reader.exchanges.values():
            is_answer = isinstance(exchange.outcome, ModelReply) and not exchange.is_masked
            if is_answer and exchange.number not in reader.left_out:
                self._by_request[exchange.request].append(exchange)
        self._finished: frozenset[str] = frozenset()
        self._lock = threading.Lock()  # a nested run may be on another loop (E52)

    def reserve(self, tasks: Collection[str]) -> None:
        """Keep what finished tasks were answered for themselves: their results hold it already."""
        self._finished = frozenset(tasks)

    def leave_out(self, tasks: Collection[str]) -> None:
        """Give nothing of what these tasks were answered: they are no part of the run that goes on."""
        for exchanges in self._by_request.values():
            exchanges[:] = [each for each in exchanges if each.task not in tasks]

    def take(self, request: ModelRequest, task: str | None = None) -> RecordedExchange | None:
        """Take the exchange that answers a request, if there is one left: one of the same task before others."""
        with self._lock:
            equal = self._by_request.get(request, [])
            fitting = [each for each in equal if each.task == task or each.task not in self._finished]
            found = min(fitting, key=lambda each: each.task != task, default=None)
            if found is not None:
                equal.remove(found)
            return found

    def take_tool(self, exchange: int, call: ToolCall) -> ToolAnswer | None:
        """Take what a tool answered to a call that the reply of an exchange asked for, if it did."""
        part = to_call_part(call)
        with self._lock:
            calls = self._tools.get((exchange, call.id), [])
            for tool in calls:
                if tool.answer is not None and not tool.is_masked and tool.part == part:
                    calls.remove(tool)
                    return tool.answer
        return None

    def list_unknown(self, tasks: Collection[str] | None = None) -> list[ToolCall]:
        """The calls that were begun, are not known to have ended, and are not to be made again without asking.

        Args:
            tasks: whose; None: of all that are not finished.
        """
        asked = ((self._tasks.get(each.exchange), each.call) for each in self._begun.values())
        return [
            call
            for task, call in asked
            if call.name not in self.redone and (task not in self._finished if tasks is None else task in tasks)
        ]

    def find_beginning(self, exchange: int, call: ToolCall) -> str | None:
        """The run in which a call was begun that is not known to have ended; None where it may simply be made."""
        is_unknown = (exchange, call.id, to_call_part(call)) in self._begun
        return self._run_id if is_unknown and call.name not in self.redone else None

    def take_review(self, request: ReviewRequest) -> ReviewAnswer | None:
        """Take what a reviewer decided about the same question, if that let the run go on.

        Who has left or rejected is asked again, since otherwise nobody could ever get past that; so is who was late, or
        could not be asked.
        """
        question = to_question(request)
        with self._lock:
            for review in self._reviews:
                answer = review.outcome
                if review.question != question or review.is_masked or not isinstance(answer, ReviewAnswer):
                    continue
                verdict = answer.decision.verdict
                # Whether a task, a phase or the run was over with it; a rejected tool call is only told to the model.
                has_ended = verdict is Verdict.EXIT_EARLY or (verdict is Verdict.REJECT and request.subject != "tool")
                if answer.is_decided and not has_ended:
                    self._reviews.remove(review)
                    return answer
        return None


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

    async def run_tool(self, call: ToolCall, run: RunTool) -> ToolAnswer:
        """Give what the tool has answered in the earlier run, or run it."""
        if self._kept_exchange is not None:
            answer = self._answers.take_tool(self._kept_exchange, call)
            if answer is not None:
                return replace(answer, is_kept=True)
            if (begun_in := self._answers.find_beginning(self._kept_exchange, call)) is not None:
                return await self._conversation.run_tool(call, lambda _=None, /: run(begun_in))
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
