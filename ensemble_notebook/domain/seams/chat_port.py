"""The seam between the engine and the models: what the engine asks for, and what it gets.

The models layer implements these Protocols; the engine knows nothing of LangChain, HTTP or providers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from ensemble_notebook.domain.outputs.conversation import ChatMessage, ToolCall
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.secrets import Record, mask
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.value_text import mend_text, mend_value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolSpec(Record):
    """A tool as a model sees it. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "description", mend_text(self.description))
        object.__setattr__(self, "parameters", mend_value(self.parameters))


class ToolOutcome(StrEnum):
    """How a requested tool call ended.

    ``DECLINED``: a person did not allow it, or has left the run at it. ``UNKNOWN``: it was begun, and a stop ended the
    wait for it, so that nobody knows whether it has done its work. ``PENDING``: it was not made, and waits until
    somebody allows it.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED_MAX_ITERATIONS = "skipped_max_iterations"
    DECLINED = "declined"
    UNKNOWN = "unknown"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What the model gets for a tool call.

    Attributes:
        text: for the model.
        outcome: whether the tool has done it.
        error: what the tool raised, if it did.
        value: for programs, which the tool gave beside its text.
        warning: for the person, where the text has not all that the tool gave.
        is_kept: whether an earlier run had it, and no tool was called now.
    """

    text: str
    outcome: ToolOutcome
    error: BaseException | None = None
    value: Any = None
    warning: str = ""
    is_kept: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", mend_text(self.text))


class ToolLeftRunning(BaseException):
    """In place of a `CancelledError`: a stop has ended the wait for a tool that goes on, or has just ended.

    It goes from the call of the tool to whoever has asked for it, and no further.

    Args:
        hear_end: is given what takes the answer, on any thread, should the tool end while the process lives: None where
            it was stopped itself. By default nobody ever hears of it.
        answer: what it gave, where it has ended; None: its end is not known.
    """

    def __init__(
        self,
        hear_end: Callable[[Callable[[ToolAnswer | None], None]], object] = bool,
        answer: ToolAnswer | None = None,
    ) -> None:
        super().__init__()
        self.hear_end = hear_end
        self.answer = answer


class ToolNeverBegun(BaseException):
    """In place of its cause, a stop or the error of a review: the tool has not heard of its call. Goes no further."""


class RunTool(Protocol):
    """Calls a tool."""

    def __call__(self, begun_in: str | None = None, /) -> Awaitable[ToolAnswer]:
        """Call it.

        Args:
            begun_in: the earlier run in which the same call was begun, and its end is not known: a person is asked
                first whether to make it again. None for a call that is new, or known to have been stopped.
        """


class CallLeftPending(Exception):  # noqa: N818 - no error
    """Nobody has answered whether a call of a reviewed tool is to be made, so it was not. It goes to whoever asked.

    Attributes:
        by: who did not answer: as of a `ReviewAnswer`.
        call: as it is listed; None until that is known.
    """

    def __init__(self, by: str, call: PendingCall | None = None) -> None:
        super().__init__("the call waits for an answer")
        self.by = by
        self.call = call


class ReviewedRun:
    """A `RunTool` that calls a tool only once somebody has allowed it.

    Attributes:
        waiting: the call as an earlier run has left it pending; None where none has.
        begun_in: the earlier run in which it was begun, and its end is not known; None where there is none.
        on_begin: is called once it is allowed, with whether somebody has answered, and awaited before the tool hears of
            it.

    Args:
        run: has it allowed, and calls the tool.
    """

    def __init__(self, run: Callable[[ReviewedRun], Awaitable[ToolAnswer]]) -> None:
        self._run = run
        self.waiting: PendingCall | None = None
        self.begun_in: str | None = None
        self.on_begin: list[Callable[[bool], Awaitable[object]]] = []

    def __call__(self, _begun_in: str | None = None, /) -> Awaitable[ToolAnswer]:
        """Have it allowed, and call the tool."""
        return self._run(self)

    async def begin(self, *, is_answered: bool) -> None:
        """The tool is about to hear of its call, which somebody has allowed where it `is_answered`."""
        for tell in self.on_begin:
            await tell(is_answered)


REFUSED: Final = "refused by the model"
"""Finish reason of a reply that is a refusal: its text is what the model said in place of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ModelReply(Record):
    """One reply of a model.

    Attributes:
        text: the text part, whatever content blocks it came in; empty when there is none.
        reasoning: what the model thought before it, as far as the provider sends that.
        tool_calls: in the order of the request; malformed ones included, with their arguments as text.
        usage: as the provider counted.
        model, finish_reason: as the provider says, where it does; or `REFUSED`.
        refused_usage: what the provider said instead of usage that can be counted, for a warning; usually None.
        extras: what else the message had that the model wants back with it, JSON values that only the port can read.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    model: str | None = None
    finish_reason: str | None = None
    refused_usage: str | None = None
    reasoning: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fault(Record):
    """What a foreign exception of a model request means.

    Attributes:
        reason: short, for people: ``"429"``, ``"500"``, ``"timeout"``, ``"connection"``, ``"401"``, ...
        is_transient: worth another try.
        retry_after_s: what the server asked to wait, where it did.
        has_changed_request: the server refused a field that nobody has asked for, and the next request is without it.
        usage: NO_USAGE where the server refused the request, unknown where the reply may have been paid for.
        advice: the next step for a person, as a sentence, or None (no key in it, ever).
    """

    reason: str
    is_transient: bool
    retry_after_s: float | None = None
    has_changed_request: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)
    advice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRequest:
    """That a fork has changed what is asked from here on, in a conversation that has it already.

    Attributes:
        port: of the model that is asked.
        has_other_model: whether that is another one than the agent's.
        messages: all that the model is told now, its system prompt first where it has one.
    """

    port: ChatPort
    has_other_model: bool
    messages: tuple[ChatMessage, ...]


class Conversation(Protocol):
    """The messages of one task with one model, kept in the model's own form, so nothing is lost between turns."""

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""

    def add_reply(self, reply: ModelReply) -> None:
        """Append a reply that the model gave in an earlier run."""

    def take_kept_reply(self) -> ModelReply | ChangedRequest | None:
        """Take the reply that an earlier run had to the same request, and append it.

        Returns:
            None, or what a fork has changed, where the model is to be asked.

        Raises:
            Exception: what the earlier run's request failed with for good, before the point of a fork of it.
            ReplayError: nothing like this was asked there.
        """

    async def run_tool(self, call: ToolCall, run: RunTool) -> ToolAnswer:
        """Get the answer to a tool call of the last reply.

        From `run`, which calls the tool, from a recording, or from an earlier run.

        Raises:
            ReplayError: the recording has no answer to this call.
            ToolLeftRunning: nobody waits any more, and its end is not known.
        """

    def input_bound(self) -> int:
        """Tokens that the next request can have at most, tool schemas included; no tokenizer is asked."""

    async def reply(
        self,
        on_token: Callable[[str], None] | None = None,
        *,
        max_tokens: int | None = None,
        check_sending: Callable[[], None] | None = None,
    ) -> ModelReply:
        """Ask for the next reply and append it; on failure nothing is appended, so it may be asked for again.

        Streams when `on_token` is given and the model can; the pieces joined are exactly the reply's text.
        `max_tokens` limits the output of this one request, where the model has no lower limit of its own.
        `check_sending` is called when nothing but the sending is left, after all that a user has hung on the model, and
        raises where nothing may be sent any more.

        Raises:
            Exception: whatever the model raises; `ChatPort.classify` says what it means.
        """


Said = ModelReply | tuple[ToolCall, str] | str
"""What is added to a conversation: a reply, the result of a tool call, or what is said to the model."""


def list_said(messages: Iterable[ChatMessage]) -> Iterator[Said]:
    """What messages add to a conversation. Each result of a tool call comes after the reply that asks for it."""
    calls: dict[str | None, ToolCall] = {}
    for each in messages:
        if each.role == "assistant":
            calls = {call.id: call for call in each.tool_calls}
            yield ModelReply(text=mend_text(each.text), tool_calls=each.tool_calls)
        elif each.role == "tool":
            yield calls[each.tool_call_id], mend_text(each.text)
        else:
            yield mend_text(each.text)


def to_message(said: Said) -> ChatMessage:
    """What is added as a message."""
    match said:
        case ModelReply():
            return ChatMessage(role="assistant", text=said.text, tool_calls=said.tool_calls)
        case str():
            return ChatMessage(role="user", text=said)
        case (call, text):
            return ChatMessage(role="tool", text=text, tool_call_id=call.id, name=call.name)


def say_again(conversation: Conversation, said: Iterable[Said]) -> None:
    """Say again what was said."""
    for each in said:
        match each:
            case ModelReply():
                conversation.add_reply(each)
            case str():
                conversation.add_user_message(each)
            case (call, text):
                conversation.add_tool_result(call, text)


class RequestPlaces(Protocol):
    """What the requests to a model take of the places that this process has for connections. Thread-safe."""

    def try_take(self) -> bool:
        """Take what one request needs, if it is free and nobody waits for it."""

    async def take(self) -> None:
        """Wait in line, and take what one request needs."""

    def give_back(self) -> None:
        """The request is over."""


class ChatPort(Protocol):
    """One model, ready for use on the current event loop.

    Attributes:
        name: as requested, e.g. ``"gpt-4o-mini"`` or ``"SmolLM2-135M-Instruct"``.
        provider: e.g. ``"openai"``, ``"local"``, ``"scripted"``; None when unknown.
        is_scripted: True when a script answers and no model; always labelled in views.
        has_tool_support: False when the model is known not to call tools.
        has_schema_support: True when the model is known to hold its reply to a JSON schema by itself.
        max_tokens: the limit of the output of one request that the model was made with; None where it has none.
        context_window: tokens that it can take, as far as it says so itself; None where it does not.
        warning: something to tell once per run (e.g. hidden retries that can't be switched off), or None.
        places: what a request has to take before it is sent; None where it opens no connection.
        refused_kinds: what it is known not to take: ``"picture"``, ``"PDF"``.
    """

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str | None: ...

    @property
    def is_scripted(self) -> bool: ...

    @property
    def has_tool_support(self) -> bool: ...

    @property
    def has_schema_support(self) -> bool: ...

    @property
    def max_tokens(self) -> int | None: ...

    @property
    def context_window(self) -> int | None: ...

    @property
    def warning(self) -> str | None: ...

    @property
    def places(self) -> RequestPlaces | None: ...

    @property
    def refused_kinds(self) -> Collection[str]: ...

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> Conversation:
        """Begin a conversation. `schema` is a JSON schema with a ``title``; only for a port that takes one.

        Marks in what a user says stand for pictures and PDFs (`split_text`), which are sent in their places.
        """

    def classify(self, error: Exception) -> Fault:
        """What an exception raised by `Conversation.reply` means. Never raises."""


class ChatSource(Protocol):
    """Where the engine gets its models from, and what stands for people where a run is replayed.

    Attributes:
        warnings: what went wrong beside the requests, to be told once at the end of a run.
        has_reviews: True for a recording in which reviewers were asked: they need not be there.
    """

    @property
    def warnings(self) -> Sequence[str]: ...

    @property
    def has_reviews(self) -> bool: ...

    async def review(self, request: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Get the answer to a review: from `ask`, which asks the reviewer, or from a recording.

        Args:
            request: a `ReviewRequest`, which is defined in a room above this one.
            ask: gives a `ReviewAnswer`.

        Raises:
            ReplayError: the recording has no answer to this question.
            Exception: what `ask` raises.
        """

    def check(self, llm: Any) -> None:
        """Whether a model object or spec text can be used here, as far as that can be told without starting anything.

        Raises:
            ValidationError: unknown spec, key variable missing, file not found.
        """

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> ChatPort:
        """The port of a model object or spec text for the running loop.

        One client and connection pool per model and loop. May import a client, fetch weights or start a server; says
        so through `notice`, on the running loop and before it takes the time. What is ready says nothing.
        """


# --- The seam between the engine and what writes down its requests ----------------------------------------------------
#
# It goes with the context, so that what stands between them need not know of tasks.


_asking_task: Final[ContextVar[str | None]] = ContextVar("ensemble_asking_task", default=None)
_asking_span: Final[ContextVar[str | None]] = ContextVar("ensemble_asking_span", default=None)


def make_task_path(task: str, phase: str | None) -> str:
    """What a task is found by: ``"phase/task"`` or ``"task"``."""
    return task if phase is None else f"{phase}/{task}"


def set_asking_task(task: str, phase: str | None) -> None:
    """What is asked from here on in this context is for this task."""
    _asking_task.set(make_task_path(task, phase))


def get_asking_task() -> str | None:
    """The path of the task that this code works for; None where it works for none."""
    return _asking_task.get()


def set_asking_span(span_id: str | None) -> None:
    """What is asked next in this context is the model call, or the review, of this span; None: of none yet."""
    _asking_span.set(span_id)


def get_asking_span() -> str | None:
    """The span that is asking; None where none is."""
    return _asking_span.get()


def find_asking_task() -> str | None:
    """The same as it is written down: secrets masked."""
    path = _asking_task.get()
    return None if path is None else mask(path)
