"""A model source that answers as an earlier run was answered, and asks where that was not.

Requests are known by what they say, as in a replay; unlike there, what is not known is asked of the model.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest, Verdict
from ensemble_notebook.domain.outputs.conversation import ChatMessage, Messages, ToolCall
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.seams.chat_port import (
    ChangedRequest,
    ChatPort,
    ChatSource,
    Fault,
    ModelReply,
    ReviewedRun,
    RunTool,
    Said,
    ToolAnswer,
    ToolSpec,
    find_asking_task,
    list_said,
    say_again,
    to_message,
)
from ensemble_notebook.errors import ReplayError
from ensemble_notebook.models.recording.documents import BROKEN_DOCUMENT, ExchangeReader, to_question
from ensemble_notebook.models.recording.exchange import (
    FailedRequest,
    ModelRequest,
    PortInfo,
    RecordedExchange,
    ReplayedError,
    make_replayed_error,
    make_request,
    to_call_part,
    to_reply_parts,
    to_result_part,
    to_user_part,
)
from ensemble_notebook.models.recording.recorder import ExchangeLog, RecordingPort, RecordingSource

# ----------------------------------------------------------------------------------------------------------------------
# The answers that an earlier run has had, for a run that goes on from there: found where they are, missed in silence.
#
# What failed, was stopped or had a secret in it that was masked is no answer, nor is the reply that a task failed for.
# Knows nothing of stores and runs.


@dataclass(slots=True, kw_only=True)
class ForkPoint:
    """Where a run that goes on with another one is to be different, and how (F2).

    Attributes:
        exchange: the number of the exchange of the model call; None where that was never sent.
        call_id: of the call of a tool that the reply of this exchange asks for, where the point is there; else None.
        task: the path of the task of the plan that it is in, secrets masked.
        reply: what the model says in place of its reply.
        answer: what the tool gives in place of its answer.
        llm: who is asked from here on in place of the agent's model.
        system, user: what the agent is told in place of its system prompt, and of the prompt of this conversation.
        messages: all that it is told before the next reply, its system prompt left out.
        is_reached: whether the run has come there.
        asked_system: the system prompt that the agent had there.
    """

    exchange: int | None
    task: str | None
    call_id: str | None = None
    reply: ModelReply | None = None
    answer: ToolAnswer | None = None
    llm: Any = None
    system: str | None = None
    user: str | None = None
    messages: Messages | None = None
    is_reached: bool = False
    asked_system: str = ""

    @property
    def changes_request(self) -> bool:
        """Whether the model is told something else, or another one is asked."""
        return any(each is not None for each in (self.llm, self.system, self.user, self.messages))


class KeptAnswers:
    """The answers in the documents of an `ExchangeJournal`, each of which answers once, equal ones in order.

    A document that is not whole is passed over, and so are those that refer to it: what they answered is asked again.

    Args:
        documents: as the journal has handed them on, in order.
        run_id: of the earlier run.
        point: where this run is to be different; None for one that only goes on.
        earlier: the points of the forks by which that run came about, which change what is asked in the same task.
        forked_task: the path of the task in which it forks the earlier run, secrets masked; None where it forks none.
        asked_anew: what else the earlier run had asked: known to be asked, and not answered from there.
        survived: the numbers of the exchanges that failed and that a task went on after, which fail again.
        read: has read all documents of the earlier run, so that none is read twice; None: nobody has.

    Attributes:
        point: as given.
        earlier: as given.
        last_number: of the exchanges.
        models: the names of those that were asked.
        has_reviews: whether reviewers were asked.
        redone: the names of the tools whose calls are made again, although it is not known how they ended.
    """

    def __init__(
        self,
        documents: Iterable[Mapping[str, Any]],
        run_id: str = "",
        point: ForkPoint | None = None,
        *,
        earlier: Sequence[ForkPoint] = (),
        forked_task: str | None = None,
        asked_anew: Iterable[ModelRequest] = (),
        survived: Collection[int] = (),
        read: ExchangeReader | None = None,
    ) -> None:
        self.point = point
        self.earlier = earlier
        self._is_fork = forked_task is not None
        self._asked_anew = frozenset(asked_anew)
        reader = ExchangeReader(read)
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
        self._waiting = reader.waiting
        self._tasks = {number: each.task for number, each in reader.exchanges.items()}
        self._reviews = reader.reviews
        self._spans = reader.spans
        self._by_request: dict[ModelRequest, list[RecordedExchange]] = defaultdict(list)
        placed = {*reader.spans.values()}  # what a conversation began with, of an earlier one, is no answer of this run
        for exchange in reader.exchanges.values():
            is_answer = isinstance(exchange.outcome, ModelReply) and not exchange.is_masked
            is_answer = is_answer and (not self._is_fork or exchange.number in placed)
            is_point = point is not None and point.exchange == exchange.number and point.call_id is None
            # What the task at the point has failed for before that, as before its fallback, it fails for again.
            is_before = self._is_fork and (exchange.task == forked_task or exchange.number in survived)
            is_before = is_before and self._is_last(exchange, placed)
            is_point = is_point or any(each.exchange == exchange.number for each in earlier)
            if is_point or is_before or (is_answer and exchange.number not in reader.left_out):
                self._by_request[exchange.request].append(exchange)
        of_task = [each for each in reader.exchanges.values() if each.task == forked_task and each.number in placed]
        first = min(of_task, key=lambda each: each.number, default=None)
        is_first = first is not None and point is not None and point.exchange == first.number and point.call_id is None
        self._first_of_task = first if is_first else None
        self._finished: frozenset[str] = frozenset()
        self._lock = threading.Lock()  # a nested run may be on another loop (E52)

    @staticmethod
    def _is_last(exchange: RecordedExchange, placed: Collection[int]) -> bool:
        """Whether this is what came of its model call at last, and is known."""
        is_known = isinstance(exchange.outcome, ModelReply | FailedRequest) and not exchange.is_masked
        return is_known and exchange.number in placed

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
            fitting = [
                each for each in equal if each.task == task or not (self._is_fork or each.task in self._finished)
            ]
            found = min(fitting, key=lambda each: each.task != task, default=None)
            if found is not None:
                equal.remove(found)
                self._first_of_task = None if found is self._first_of_task else self._first_of_task
            elif self._is_on_way(task) and request not in self._asked_anew:
                if self._first_of_task is not None:  # whatever it says now: nothing was kept that it could go on from
                    self._by_request[self._first_of_task.request].remove(self._first_of_task)
                    found, self._first_of_task = self._first_of_task, None
                else:
                    self._check_on_way()
            return found

    def _is_on_way(self, task: str | None) -> bool:
        """Whether a task is the one with the point, which is still to come."""
        return self.point is not None and not self.point.is_reached and task == self.point.task

    def _check_on_way(self) -> None:
        """Look whether a request of the task with the point may be a new one: it is where that was never sent.

        Raises:
            ReplayError: the task asks something else than it did, although the point is still to come.
        """
        point = self.point
        assert point is not None
        left = any(each.task == point.task for exchanges in self._by_request.values() for each in exchanges)
        if point.exchange is not None or left:
            raise ReplayError(
                f"Task {point.task!r} asks something else than in run {self._run_id} before the fork: it, or what it "
                f"is given, has changed since. Run the cell as it was then, or fork at the task itself."
            )

    def take_tool(self, exchange: int, call: ToolCall) -> ToolAnswer | None:
        """Take what a tool answered to a call that the reply of an exchange asked for, if it did."""
        part, point = to_call_part(call), self.point
        with self._lock:
            if point is not None and not point.is_reached and (exchange, call.id) == (point.exchange, point.call_id):
                point.is_reached = True
                return point.answer
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

    def find_beginning(self, exchange: int, call: ToolCall, *, is_reviewed: bool = False) -> str | None:
        """The run in which a call was begun that is not known to have ended; None where it may simply be made.

        Of a reviewed tool that is never so: `redone` says nothing of it.
        """
        is_unknown = (exchange, call.id, to_call_part(call)) in self._begun
        return self._run_id if is_unknown and (is_reviewed or call.name not in self.redone) else None

    def find_waiting(self, exchange: int, call: ToolCall) -> PendingCall | None:
        """The call as it was left pending; None where it was not. What waits in a run does not wait in a fork of it."""
        return None if self._is_fork else self._waiting.get((exchange, call.id, to_call_part(call)))

    def list_waiting(self) -> list[PendingCall]:
        """The calls that were left pending, and have had no answer since."""
        return [
            pending
            for (exchange, call_id, part), pending in self._waiting.items()
            if not any(
                each.answer is not None and each.part == part for each in self._tools.get((exchange, call_id), ())
            )
        ]

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
    def file_log(self) -> ExchangeLog | None:
        """As the source has it."""
        return self._source.file_log

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
        port, point = await self._source.prepare(llm, notice), self._answers.point
        points = self._answers.earlier if point is None else (*self._answers.earlier, point)
        others = {id(each): await self._source.prepare(each.llm, notice) for each in points if each.llm is not None}
        return ResumingPort.from_port(port, port=port, others=others, answers=self._answers)


@dataclass(frozen=True, slots=True)
class OneModelSource:
    """A `ChatSource` that asks one model in place of all: the run that is forked was a replay, and asked none.

    Attributes:
        source: whose models are asked.
        llm: the model.
    """

    source: ChatSource
    llm: Any

    @property
    def warnings(self) -> Sequence[str]:
        """As the source has them."""
        return self.source.warnings

    @property
    def has_reviews(self) -> bool:
        """As of the source."""
        return self.source.has_reviews

    async def review(self, request: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask as the source does."""
        return await self.source.review(request, ask)

    def check(self, llm: Any) -> None:  # noqa: ARG002 - whose key need not be here
        """Check the one that will be asked."""
        self.source.check(self.llm)

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> ChatPort:  # noqa: ARG002
        """Make a port of the one model."""
        return await self.source.prepare(self.llm, notice)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResumingPort(PortInfo):
    """A `ChatPort` whose conversations begin with what is known of them.

    Attributes:
        others: of the models that are asked in its place once a point is reached, by the identity of that.
    """

    port: RecordingPort
    others: Mapping[int, RecordingPort]
    answers: KeptAnswers

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> ResumingConversation:
        """Begin a conversation."""
        request = make_request(self.port.llm, system, user, tools, schema)
        return ResumingConversation(self, Opening(system, user, tuple(tools), schema), request)

    def classify(self, error: Exception) -> Fault:
        """Classify as the port does that was asked; what a kept failure meant is kept, too."""
        return error.fault if isinstance(error, ReplayedError) else self.port.classify(error)


class Opening(NamedTuple):
    """What a conversation begins with."""

    system: str
    user: str
    tools: tuple[ToolSpec, ...]
    schema: Mapping[str, Any] | None


class ResumingConversation:
    """A `Conversation` that has its replies from an earlier run as long as that had any.

    From the point of a fork on it is one with another beginning, or with another model: what was said by then is said
    to that one, too.
    """

    def __init__(self, port: ResumingPort, opening: Opening, request: ModelRequest) -> None:
        self._port = port
        self._opening = opening
        self._conversation = port.port.open(*opening)
        self._request = request
        self._answers = port.answers
        self._kept_exchange: int | None = None
        self._said: list[Said] = []
        self._changed: ChangedRequest | None = None
        self._prompt_at: int | None = None  # the task's own prompt among what was said; None: it began with that
        self._is_begun = False
        self._other: RecordingPort | None = None  # of another model that is asked by now
        # What holds for the agent from the point on holds for its later conversations in the same task, too.
        for each in (*self._answers.earlier, self._answers.point):
            if each is not None and each.is_reached and each.changes_request and self._is_of(each):
                self._other = port.others.get(id(each), self._other)
                self._change(replace(each, user=None, messages=None, system=each.system or None))

    def _is_of(self, point: ForkPoint) -> bool:
        """Whether this is a conversation of the agent at the point, in the same task."""
        return find_asking_task() == point.task and self._opening.system == point.asked_system

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        self._conversation.add_tool_result(call, text)
        self._said.append((call, text))
        self._request = (*self._request, to_result_part(call.id, call.name, text))

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        self._conversation.add_user_message(text)
        self._said.append(text)
        self._request = (*self._request, to_user_part(text))

    def add_reply(self, reply: ModelReply) -> None:
        """Append a reply that came from somewhere else."""
        self._conversation.add_reply(reply)
        self._note_reply(reply, None)

    def take_kept_reply(self) -> ModelReply | ChangedRequest | None:
        """Take the reply that the earlier run has had to the same request, or learn that a fork has changed that."""
        if not self._is_begun:
            self._is_begun = True
            self._prompt_at = max((at for at, each in enumerate(self._said) if isinstance(each, str)), default=None)
        point = self._answers.point
        exchange = self._answers.take(self._request, find_asking_task())
        for each in self._answers.earlier:
            if not each.is_reached and self._is_at(each, exchange):
                self._reach(each)
                exchange = self._answers.take(self._request, find_asking_task())
        if point is not None and not point.is_reached and self._is_at(point, exchange):
            if point.reply is not None:
                point.is_reached, point.asked_system = True, self._opening.system
                self.add_reply(point.reply)
                return point.reply
            self._reach(point)
            exchange = None
        if exchange is not None and isinstance(exchange.outcome, FailedRequest):
            failed = exchange.outcome
            raise make_replayed_error(failed.error, failed.message, failed.fault)
        if exchange is None or not isinstance(exchange.outcome, ModelReply):
            reply, changed = self._conversation.take_kept_reply(), self._changed
            if isinstance(reply, ModelReply):
                self._note_reply(reply, None)
                return reply
            self._changed = None
            return changed and replace(changed, messages=self._tell())
        self._conversation.add_reply(exchange.outcome, exchange=exchange.number)
        self._note_reply(exchange.outcome, exchange.number)
        return exchange.outcome

    def _is_at(self, point: ForkPoint, exchange: RecordedExchange | None) -> bool:
        """Whether the next reply is the one at the point; `exchange` is what the earlier run has of it."""
        if point.call_id is not None:
            return False
        if point.exchange is None:  # it was never sent: the first request that is not known
            return exchange is None and find_asking_task() == point.task
        return exchange is not None and exchange.number == point.exchange

    def _reach(self, point: ForkPoint) -> None:
        """The next reply is the one at a point: from here on it is as that wants it."""
        point.is_reached, point.asked_system = True, self._opening.system
        if point.changes_request:
            self._other = self._port.others.get(id(point), self._other)
            self._change(point)

    def _change(self, point: ForkPoint) -> None:
        """Begin again as the fork wants it, and say what was said by now."""
        opening = self._opening._replace(system=self._opening.system if point.system is None else point.system)
        said = self._said
        if point.messages is not None:
            first, *others = point.messages
            opening, said = opening._replace(user=first.text), [*list_said(others)]
        elif point.user is not None and self._prompt_at is not None:  # after those of an earlier run
            said = [point.user if at == self._prompt_at else each for at, each in enumerate(said)]
        elif point.user is not None:
            opening = opening._replace(user=point.user)
        port = self._other or self._port.port
        self._conversation = port.open(*opening)
        self._request = make_request(port.llm, *opening)
        self._opening, self._said = opening, []
        say_again(self, said)
        self._changed = ChangedRequest(
            port=self._other or self._port, has_other_model=self._other is not None, messages=self._tell()
        )

    def _tell(self) -> Messages:
        """All that the model is told by now."""
        opening = self._opening
        told = [] if not opening.system else [ChatMessage(role="system", text=opening.system)]
        return (*told, ChatMessage(role="user", text=opening.user), *map(to_message, self._said))

    def _note_reply(self, reply: ModelReply, kept_exchange: int | None) -> None:
        self._said.append(reply)
        self._request = (*self._request, *to_reply_parts(reply))
        self._kept_exchange = kept_exchange

    async def run_tool(self, call: ToolCall, run: RunTool) -> ToolAnswer:
        """Give what the tool has answered in the earlier run, or run it."""
        if self._kept_exchange is not None:
            answer = self._answers.take_tool(self._kept_exchange, call)
            if answer is not None:
                return replace(answer, is_kept=True)
            is_reviewed = isinstance(run, ReviewedRun)
            begun_in = self._answers.find_beginning(self._kept_exchange, call, is_reviewed=is_reviewed)
            if isinstance(run, ReviewedRun):
                run.begun_in, run.waiting = begun_in, self._answers.find_waiting(self._kept_exchange, call)
            elif begun_in is not None:
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
