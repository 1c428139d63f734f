"""Model sources that write down every exchange, for a later run without any model, or one that goes on (E42).

Wraps the Protocols of `domain.seams.chat_port`; knows nothing of what is behind them, nor where documents are kept:
that is their sink's, a file or the store of runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.secrets import MASK
from ensemble_notebook.domain.seams.chat_port import (
    CallLeftPending,
    ChangedRequest,
    ChatPort,
    ChatSource,
    Conversation,
    Fault,
    ModelReply,
    ReviewedRun,
    RunTool,
    ToolAnswer,
    ToolLeftRunning,
    ToolSpec,
    get_asking_span,
    get_asking_task,
)
from ensemble_notebook.errors import get_message
from ensemble_notebook.models.model_kinds import to_recorded_name
from ensemble_notebook.models.recording.documents import (
    RecordedTool,
    copy_call,
    pending_to_document,
    review_to_document,
)
from ensemble_notebook.models.recording.exchange import (
    PLAIN,
    UNMASKED,
    CancelledRequest,
    FailedRequest,
    Form,
    Outcome,
    PortInfo,
    outcome_to_document,
    request_to_document,
    result_to_document,
    to_plain,
)

# --- Exchanges on their way: what was said, held as it is until somebody makes a document of it -----------------
#
# The loop of the run only holds on to the texts; who keeps exchanges may write them later, on another thread.


# Not frozen, as is no value that is made for each request: setting the fields of a frozen one takes several times as
# long. Neither changes once it is handed on.
@dataclass(slots=True, kw_only=True)
class PendingRequest:
    """What a request says beyond the one before it.

    Attributes:
        opening: model, system message, user message, tools and schema, for the request that begins a conversation.
        continues: the number of the exchange whose conversation goes on.
        repeats: the number of the exchange that failed, and is tried once more.
        results: of tool calls; a text is None where it is written with its call.
        user: what was said to the model after its last reply.
    """

    opening: tuple[str, str, str, Sequence[ToolSpec], Mapping[str, Any] | None] | None = None
    continues: int | None = None
    repeats: int | None = None
    results: list[tuple[ToolCall, str | None]] = field(default_factory=list)
    user: str | None = None

    def copy(self) -> PendingRequest:
        """The same request, which may grow."""
        return replace(self, results=[*self.results])

    def to_document(self, form: Form) -> dict[str, Any]:
        """Make the document, without what came of it.

        Where a prompt has of itself what stands for a secret, that is noted, for whoever asks for the same once more.
        """
        told = [*(self.opening or ())[1:3], *(text for _, text in self.results if text), self.user or ""]
        if self.opening is not None:
            document = request_to_document(*self.opening, form)
        else:
            name, number = ("continues", self.continues) if self.repeats is None else ("repeats", self.repeats)
            document = {name: number}
        if self.results:
            document["results"] = [result_to_document(call, text, form) for call, text in self.results]
        if self.user is not None:
            document["user"] = form.mask(self.user)
        if any(MASK in each for each in told) and all(form.mask(each) == each for each in told):
            document["verbatim"] = True
        return document


@dataclass(slots=True)
class PendingExchange:
    """A request and what came of it.

    Attributes:
        number: of the exchange.
        task: the path of the task that it was for, as far as that is to be known.
        span: the id of the span of the model call, likewise.
        pieces: those in which the reply was streamed, as far as they are to be known.
        seconds: from the request to the outcome.
    """

    number: int
    task: str | None
    span: str | None
    request: PendingRequest
    outcome: Outcome
    pieces: Sequence[str]
    seconds: float

    def fix(self) -> None:
        """Copy what could be another one later: the arguments of a tool call are the tool's."""
        if isinstance(self.outcome, ModelReply) and self.outcome.tool_calls:
            self.outcome = replace(self.outcome, tool_calls=tuple(map(copy_call, self.outcome.tool_calls)))

    def to_document(self, form: Form) -> dict[str, Any]:
        """Make the document. The seconds come last: a document without them was cut off."""
        of_task = {} if self.task is None else {"task": form.mask(self.task)}
        if self.span is not None:
            of_task["span"] = self.span
        facts = outcome_to_document(self.outcome, self.pieces, form)
        request = self.request.to_document(form)
        return {"exchange": self.number, **of_task, **request, **facts, "seconds": round(self.seconds, 3)}


PendingDocument = PendingExchange | RecordedTool


# --- What goes on between a run and its models, tools and reviewers, as numbered documents ----------------------


class ExchangeSink(Protocol):
    """Where the documents of a run are kept. `write` never raises.

    Attributes:
        warnings: what could not be kept, for the person.
        keeps_pieces: whether it is to know in which pieces a reply was streamed.
        keeps_tasks: whether it is to know which task and span each exchange was for.
    """

    @property
    def warnings(self) -> Sequence[str]: ...

    @property
    def keeps_pieces(self) -> bool: ...

    @property
    def keeps_tasks(self) -> bool: ...

    def write(self, document: Mapping[str, Any], /) -> None:
        """Keep a document after those before it."""

    def write_pending(self, pending: PendingDocument, /) -> None:
        """Keep a document after those before it; it may be made later."""

    async def keep_now(self) -> None:
        """Return once all by now is where a killed process leaves it, or can't be brought there."""


MakeDocument = Callable[[bool], Mapping[str, Any]]
"""Makes a plain document, on whatever thread: secrets masked, or, where that is False, perhaps not yet."""


class ExchangeJournal:
    """A sink that hands plain documents on, ready for JSON, to what keeps them with the run.

    Args:
        put: takes what makes the next document; it warns of its own faults.
        flush: returns once all that it has taken is kept; None where there is nothing to wait for.
    """

    warnings: Final = ()
    keeps_pieces: Final = False
    keeps_tasks: Final = True

    def __init__(
        self, put: Callable[[MakeDocument], object], flush: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self._put = put
        self._flush = flush

    async def keep_now(self) -> None:
        """Wait until all documents by now are kept."""
        if self._flush is not None:
            await self._flush()

    def write(self, document: Mapping[str, Any]) -> None:
        """Hand the next document on."""
        plain = to_plain(document)
        self._put(lambda _: plain)

    def write_pending(self, pending: PendingDocument) -> None:
        """Hand on what makes the next document."""
        pending.fix()
        self._put(lambda is_masking: pending.to_document(PLAIN if is_masking else UNMASKED))


class ExchangeList:
    """A sink that holds on to documents, for a log in another process: see `ExchangeLog.add_all`."""

    warnings: Final = ()
    keeps_pieces: Final = True
    keeps_tasks: Final = False

    def __init__(self) -> None:
        self.documents: list[Mapping[str, Any] | PendingDocument] = []

    def write(self, document: Mapping[str, Any]) -> None:
        """Hold on to the next document."""
        self.documents.append(document)

    async def keep_now(self) -> None:
        """Whether they are kept, the other process knows."""

    def write_pending(self, pending: PendingDocument) -> None:
        """Hold on to what makes the next document."""
        pending.fix()
        self.documents.append(pending)


class ExchangeLog:
    """Numbers exchanges and makes their documents, from whichever loop they come.

    Args:
        sink: keeps the documents.
        last_number: of the exchanges that the sink has already; later ones may go on from those.
        models: the names of those that the sink has already.
    """

    def __init__(self, sink: ExchangeSink, *, last_number: int = 0, models: Sequence[str] = ()) -> None:
        self._sink = sink
        self._models = set(models)
        self._count = last_number
        self._last_replies: dict[str, int] = {}
        self._lock = threading.RLock()  # a nested run may be on another loop (E52)

    @property
    def warnings(self) -> Sequence[str]:
        """What could not be kept."""
        return self._sink.warnings

    def add_model(self, llm: str, info: PortInfo) -> None:
        """Note what is known of a model, once."""
        with self._lock:
            if llm in self._models:
                return
            self._sink.write({"llm": llm, **info.to_document()})
            self._models.add(llm)

    def add_exchange(self, request: PendingRequest, outcome: Outcome, pieces: Sequence[str], seconds: float) -> int:
        """Note an exchange, and give back its number."""
        sink, task = self._sink, get_asking_task()
        with self._lock:
            self._count = number = self._count + 1
            sink.write_pending(
                PendingExchange(
                    number,
                    task if sink.keeps_tasks else None,
                    get_asking_span() if sink.keeps_tasks else None,
                    request,
                    outcome,
                    pieces if sink.keeps_pieces else (),
                    seconds,
                )
            )
            if task is not None and isinstance(outcome, ModelReply):
                self._last_replies[task] = number
        return number

    def add_all(self, documents: Iterable[Mapping[str, Any] | PendingDocument]) -> None:
        """Add what an `ExchangeList` has; its numbers go on from those that are here."""
        with self._lock:
            before = self._count
            for each in documents:
                if isinstance(each, PendingExchange):
                    request = copy(each.request)
                    for name in ("continues", "repeats"):
                        if (number := getattr(request, name)) is not None:
                            setattr(request, name, before + number)
                    self._count = before + each.number
                    self._sink.write_pending(replace(each, number=self._count, request=request))
                elif isinstance(each, RecordedTool):
                    self._sink.write_pending(replace(each, exchange=before + each.exchange))
                elif (llm := each.get("llm")) is None:
                    of_reply = {"asked_in": before + each["asked_in"]} if "asked_in" in each else {}
                    self._sink.write({**each, **of_reply})
                elif llm not in self._models:
                    self._models.add(llm)
                    self._sink.write(each)

    def note_request(self) -> None:
        """The task that asks wants a reply: if it fails before there is one, that is not for what it had by then."""
        if (task := get_asking_task()) is not None:
            with self._lock:
                self._last_replies.pop(task, None)

    def note_reply(self, exchange: int) -> None:
        """The task that asks goes on with the reply of this exchange, which is written down already."""
        task, span = get_asking_task(), get_asking_span()
        with self._lock:
            if task is not None:
                self._last_replies[task] = exchange
            if span is not None and self._sink.keeps_tasks:
                self._sink.write({"kept": exchange, "span": span})

    def leave_out_reply(self, task: str) -> None:
        """A task has failed: where that was for its last reply, a run that goes on from here asks for another one."""
        with self._lock:
            if (exchange := self._last_replies.pop(task, None)) is not None:
                self._sink.write({"left_out": exchange})

    def add_review(self, request: ReviewRequest, outcome: ReviewAnswer | Exception | None, seconds: float) -> None:
        """Note what a reviewer was asked and decided; it may come before any model."""
        span = get_asking_span() if self._sink.keeps_tasks else None
        with self._lock:
            self._sink.write(review_to_document(request, outcome, seconds, span))

    @property
    def keeps_beginnings(self) -> bool:
        """Whether a run may go on from here, so that it has to know of calls that were begun and have no end."""
        return self._sink.keeps_tasks

    def begin_tool(self, exchange: int, call: ToolCall) -> None:
        """Note that a tool is called."""
        with self._lock:
            self._sink.write_pending(RecordedTool(exchange, call, None, 0.0, begins=True))

    async def keep_now(self) -> None:
        """Return once all by now is kept."""
        await self._sink.keep_now()

    def leave_pending(self, exchange: int, call: ToolCall, pending: PendingCall) -> None:
        """Note that a tool call waits for an answer."""
        with self._lock:
            self._sink.write(pending_to_document(exchange, call, pending))

    def add_tool(self, exchange: int, call: ToolCall, answer: ToolAnswer | None, seconds: float) -> None:
        """Note what came of a tool call that the reply of an exchange asked for."""
        with self._lock:
            self._sink.write_pending(RecordedTool(exchange, call, answer, seconds))


class RecordingSource:
    """A `ChatSource` that passes on to another, and writes every exchange down.

    Args:
        source: the models.
        log: where it is written.
        finish: is called when the run has completed; None for nothing.
    """

    def __init__(self, source: ChatSource, log: ExchangeLog, finish: Callable[[], object] | None = None) -> None:
        self._source = source
        self._log = log
        self._finish = finish

    def finish(self) -> None:
        """The run has completed: nothing more comes."""
        if self._finish is not None:
            self._finish()

    @property
    def warnings(self) -> Sequence[str]:
        """What could not be written, beside what the source warns of."""
        return (*self._source.warnings, *self._log.warnings)

    @property
    def file_log(self) -> ExchangeLog | None:
        """The log of the recording that somebody has asked for; None where only the store keeps exchanges."""
        return getattr(self._source, "file_log", None) if self._log.keeps_beginnings else self._log

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
        return RecordingPort.from_port(info, port=port, llm=name, log=self._log)


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

    async def run_tool(self, call: ToolCall, run: RunTool) -> ToolAnswer:
        """Run the tool; its answer is written down before the model sees it, also one that nobody waits for."""
        started, exchange = time.monotonic(), self._last_exchange

        def write(answer: ToolAnswer | None) -> None:
            self._log.add_tool(exchange, call, answer, time.monotonic() - started)

        async def begin(is_answered: bool) -> None:
            self._log.begin_tool(exchange, call)
            if is_answered:  # an answer counts once, whatever becomes of this process
                await self._log.keep_now()

        if self._log.keeps_beginnings and isinstance(run, ReviewedRun):
            run.on_begin.append(begin)
        elif self._log.keeps_beginnings:
            self._log.begin_tool(exchange, call)
        try:
            answer = await self._conversation.run_tool(call, run)
        except BaseException as error:
            self._log.note_request()  # what fails now does so for the tool that was cut off
            if isinstance(error, ToolLeftRunning) and self._log.keeps_beginnings:
                error.hear_end(write)
            elif isinstance(error, CallLeftPending) and error.call is not None and self._log.keeps_beginnings:
                self._log.leave_pending(exchange, call, error.call)
            else:
                write(None)
            raise
        write(answer)
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

    def take_kept_reply(self) -> ModelReply | ChangedRequest | None:
        """Take the reply that the conversation which is recorded has already; it is written down, too."""
        self._log.note_request()
        reply = self._conversation.take_kept_reply()
        if isinstance(reply, ModelReply):
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
            failed = FailedRequest(type(error).__name__, get_message(error), self._port.classify(error))
            self._request = PendingRequest(repeats=write(failed))
            raise
        except BaseException:
            write(CancelledRequest())
            self._request = self._request.copy()  # it may be made again, and grow
            raise
        self._note_reply(write(reply))
        return reply
