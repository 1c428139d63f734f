"""A model source that answers from a recording, strictly and offline (E42): no model, no key, no connection.

Requests are known by what they say, not by when they come, so that runs may do things side by side.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.kernel_limits import kernel_limits
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.secrets import protect
from ensemble_notebook.domain.outputs.task_output import NO_USAGE
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, ToolAnswer, ToolSpec
from ensemble_notebook.errors import ReplayError
from ensemble_notebook.models.langchain.error_classification import classify_error
from ensemble_notebook.models.langchain.langchain_model import find_core_model, protect_secrets
from ensemble_notebook.models.langchain.langchain_port import bound_message_tokens, bound_option_tokens, to_openai_tool
from ensemble_notebook.models.model_kinds import parse_spec, to_recorded_name
from ensemble_notebook.models.openai.request_fields import make_response_format
from ensemble_notebook.models.recording.documents import (
    BROKEN_DOCUMENT,
    ExchangeReader,
    RecordedReview,
    RecordedTool,
    to_question,
)
from ensemble_notebook.models.recording.exchange import (
    CancelledRequest,
    FailedRequest,
    ModelRequest,
    PortInfo,
    RecordedExchange,
    ReplayedError,
    RequestPart,
    make_replayed_error,
    make_request,
    to_call_part,
    to_reply_parts,
    to_result_part,
    to_user_part,
)
from ensemble_notebook.models.recording.recording_file import (
    TOOLS_FORMAT,
    describe_remedy,
    read_documents,
    read_format,
)

# --- Where a request differs from the recorded one that it was meant to be, shown at the exact place ------------
#
# Why not `difflib`: it takes a second to compare two prompts of four pages, and a request is compared with each
# exchange of a recording. Knows requests as texts; nothing of files and models.


_AROUND: Final = 36
_MISSING: Final = RequestPart("", "")


def find_nearest(request: ModelRequest, recorded: Iterable[RecordedExchange]) -> RecordedExchange | None:
    """Find the exchange whose request is most like this one; the first of equals."""

    def count_different_characters(exchange: RecordedExchange) -> int:
        pairs = zip_longest(request, exchange.request, fillvalue=_MISSING)
        return sum(_count_different_in_part(now, then) for now, then in pairs if now != then)

    return min(recorded, key=count_different_characters, default=None)


def describe_difference(now: ModelRequest, then: ModelRequest) -> str:
    """Describe the first difference of two requests that do differ: which part and line, and both texts there."""
    places = [(old, new) for old, new in zip_longest(then, now, fillvalue=_MISSING) if old != new]
    old, new = places[0]
    others = len(places) - 1
    more = f" ({others} other {'part differs' if others == 1 else 'parts differ'})" if others else ""
    if _MISSING in (old, new) or old.title != new.title:
        return f"the recording has {_describe_part(old)} where now is {_describe_part(new)}{more}"
    at = _count_common_start(old.text, new.text)
    line = new.text.count("\n", 0, at) + 1
    before = _cut_window(new.text, at)[0]
    return (
        f"the {new.title} differs in line {line}{more}:\n"
        f"  recorded: {_quote_around(old.text, at)}\n"
        f"  now:      {_quote_around(new.text, at)}\n"
        f"            {' ' * len(before)}^"
    )


def _describe_part(part: RequestPart) -> str:
    return f"the {part.title}" if part != _MISSING else "nothing more"


def _count_different_in_part(one: RequestPart, other: RequestPart) -> int:
    """Count the characters that are not common to both."""
    longer = max(len(one.text), len(other.text)) + 1
    if one.title != other.title:
        return longer
    shorter = min(len(one.text), len(other.text))
    start = _count_common_start(one.text, other.text)
    end = _count_common_start(one.text[::-1], other.text[::-1])
    return longer - min(start + end, shorter)


def _count_common_start(one: str, other: str) -> int:
    """Count the characters that two texts begin with alike."""
    # By halves, whose comparisons run in C: a loop over the characters of long prompts takes seconds in all.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _cut_window(text: str, at: int) -> tuple[str, str]:
    """Cut out what stands before and after a place, as it is shown."""
    start, end = max(0, at - _AROUND), at + _AROUND
    before = ("..." if start else "") + _escape_unprintable(text[start:at])
    return f"'{before}", _escape_unprintable(text[at:end]) + ("..." if end < len(text) else "") + "'"


def _quote_around(text: str, at: int) -> str:
    return "".join(_cut_window(text, at))


def _escape_unprintable(text: str) -> str:
    """Write a text on one line, with escapes for what can't be seen."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


# --- The answers in a recording: found by what was asked, not by when -------------------------------------------
#
# Why not simply in order: tasks run side by side, so that requests come in another order in each run. Knows nothing of
# runs; what is asked of whom is the replay's.


class RecordedAnswers:
    """What a recording holds: its models, its exchanges, each of which answers once, what tools and reviewers answered.

    Attributes:
        path: of the file.
        models: by the names of their specs.
        has_tool_answers: False for files of the first version, which kept none.
        has_reviews: True where reviewers were asked; files of the first version don't tell.

    Raises:
        ReplayError: the file is none, or not whole; names it and the line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        reader = ExchangeReader()
        for document in read_documents(path):
            try:
                reader.add(document.content)
            except BROKEN_DOCUMENT as error:
                wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise ReplayError(
                    f"{path}, line {document.line}: here the recording is not whole: {wrong}. {describe_remedy(path)}"
                ) from error
        self.models = reader.models
        self._exchanges, self._tools, self._reviews = reader.exchanges, reader.tools, reader.reviews
        self.has_tool_answers = read_format(path) >= TOOLS_FORMAT
        self.has_reviews = bool(self._reviews)
        self._by_request: dict[ModelRequest, list[RecordedExchange]] = defaultdict(list)
        for exchange in self._exchanges.values():
            self._by_request[exchange.request].append(exchange)
        self._taken_counts: dict[ModelRequest, int] = defaultdict(int)

    def take(self, request: ModelRequest) -> RecordedExchange:
        """Take the exchange that answers a request; equal ones are answered in the order of the recording.

        Raises:
            ReplayError: there is none, or none left; shows what differs.
        """
        equal = self._by_request.get(request, [])
        taken = self._taken_counts[request]
        if taken == len(equal):
            raise ReplayError(self._describe_missing(request, equal))
        self._taken_counts[request] = taken + 1
        return equal[taken]

    def take_tool(self, exchange: int, call: ToolCall) -> RecordedTool:
        """Take what came of a tool call that the reply of an exchange asked for.

        Raises:
            ReplayError: there is none, or another one was made; shows what differs.
        """
        recorded = self._tools.get((exchange, call.id), [])
        part = to_call_part(call)
        for tool in recorded:
            if tool.part == part:
                recorded.remove(tool)
                return tool
        if recorded:
            differs = describe_difference((part,), (recorded[0].part,))
            problem = f"has another call of a tool after exchange {exchange}; {differs}\n"
        else:
            problem = f"has no answer of the tool {call.name} after exchange {exchange}. "
        raise ReplayError(f"The recording {self.path} {problem}{describe_remedy(self.path)}")

    def take_review(self, request: ReviewRequest) -> RecordedReview:
        """Take what came of a review; equal ones are answered in the order of the recording.

        Raises:
            ReplayError: there is none, or another question was asked; shows what differs.
        """
        question = to_question(request)
        for review in self._reviews:
            if review.question == question:
                self._reviews.remove(review)
                return review
        alike = [each.question for each in self._reviews if each.question.title == question.title]
        if alike:
            problem = f"has another question; {describe_difference((question,), (alike[0],))}\n"
        else:
            problem = f"has no answer for the {question.title}, or none left. "
        raise ReplayError(f"The recording {self.path} {problem}{describe_remedy(self.path)}")

    def _describe_missing(self, request: ModelRequest, equal: Sequence[RecordedExchange]) -> str:
        if equal:
            times = "once" if len(equal) == 1 else f"{len(equal)} times"
            return (
                f"The recording {self.path} answers this request {times} (exchange {equal[0].number}), and now it was "
                f"made once more. {describe_remedy(self.path)}"
            )
        llm = request[0].text
        closest = find_nearest(request, (each for each in self._exchanges.values() if each.request[0].text == llm))
        if closest is None:
            return f"The recording {self.path} has no request to the model {llm}. {describe_remedy(self.path)}"
        return (
            f"The recording {self.path} has no answer to this request. The nearest is exchange {closest.number}; "
            f"{describe_difference(request, closest.request)}\n{describe_remedy(self.path)}"
        )


# A request that nobody waited for in the recording is left without an answer for a little longer than it was then, so
# that whatever ended it then can end it again.
_PATIENCE_S: Final = 1.0


class ReplaySource:
    """A `ChatSource` that answers from a recording.

    Args:
        path: of the file; ``~`` is the home folder. What is not there may be in the folder of the class (C122).
        pace: how much of the recorded time each answer takes: 0 for none, 1 for as long as it was.
        runs_tools: whether tools are run, in place of giving their recorded answers; done in any case where the file is
            of a version that has none.

    Raises:
        ReplayError: the file is no recording, or not whole.
    """

    def __init__(self, path: str | os.PathLike[str], *, pace: float = 0.0, runs_tools: bool = False) -> None:
        self._answers = RecordedAnswers(kernel_limits.find_recording(path))
        self._is_live = runs_tools
        self._runs_tools = runs_tools or not self._answers.has_tool_answers
        self._pace = pace

    @property
    def warnings(self) -> Sequence[str]:
        """None: what is wrong with a recording is an error."""
        return ()

    @property
    def has_reviews(self) -> bool:
        """Whether it answers reviews: in the recorded run somebody was asked, and nobody is to be asked now."""
        return self._answers.has_reviews and not self._is_live

    async def review(self, request: ReviewRequest, ask: Callable[[], Awaitable[ReviewAnswer]]) -> ReviewAnswer:
        """Give what the reviewer decided in the recording.

        Raises:
            ReplayError: the recording has another question, or no answer.
            ReviewTimeoutError, ReplayedError: as then.
        """
        if not self.has_reviews:
            return await ask()
        recorded = self._answers.take_review(request)
        if recorded.outcome is None:
            await asyncio.sleep(recorded.seconds + _PATIENCE_S)
            raise ReplayError(
                f"The {recorded.question.title} of the recording {self._answers.path} has no answer: the run was "
                f"stopped after {recorded.seconds:g} s. {describe_remedy(self._answers.path)}"
            )
        await asyncio.sleep(recorded.seconds * self._pace)
        return recorded.give(request)

    def check(self, llm: Any) -> None:
        """Check whether a spec is one. Keys, files and servers need not be there.

        Raises:
            ValidationError: it is none.
        """
        _protect_key(llm)
        to_recorded_name(llm)

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> ReplayPort:  # noqa: ARG002 - nothing takes time
        """Make the port of a model in the recording.

        Raises:
            ReplayError: the recording has no such model.
        """
        _protect_key(llm)
        name, models = to_recorded_name(llm), self._answers.models
        if name not in models:
            known = ", ".join(models) or "none"
            raise ReplayError(
                f"The recording {self._answers.path} has no model {name}; it has: {known}. "
                f"Use the same model, or record anew: run(record={str(self._answers.path)!r})."
            )
        return ReplayPort.from_port(
            models[name], llm=name, answers=self._answers, pace=self._pace, runs_tools=self._runs_tools
        )


def _protect_key(llm: Any) -> None:
    """Mask the key that a model would have, if it is there: what was masked in the recording has to be masked now."""
    if not isinstance(llm, str | Mapping):
        protect_secrets(find_core_model(llm))
    elif variable := parse_spec(llm).key_variable:
        protect(os.environ.get(variable, "").strip())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayPort(PortInfo):
    """A `ChatPort` without a model."""

    llm: str
    answers: RecordedAnswers
    pace: float
    runs_tools: bool

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> ReplayConversation:
        """Begin a conversation."""
        request = make_request(self.llm, system, user, tools, schema)
        bound = self._bound_option_tokens(tools, schema)
        bound += sum(bound_message_tokens({"content": text}) for text in (system, user))
        return ReplayConversation(self.answers, request, bound, self.pace, runs_tools=self.runs_tools)

    def _bound_option_tokens(self, tools: Sequence[ToolSpec], schema: Mapping[str, Any] | None) -> int:
        """Bound as the port that was recorded does, so that a budget is used up at the same request."""
        if self.is_scripted:
            return 0
        options: list[dict[str, Any]] = []
        if tools and self.has_tool_support:
            options.append({"tools": [to_openai_tool(tool) for tool in tools]})
        if schema is not None:
            options.append({"extra_body": {"response_format": make_response_format(schema)}})
        return bound_option_tokens(options)

    def classify(self, error: Exception) -> Fault:
        """Tell what the error meant when it was recorded; a refusal of the recording has cost nothing."""
        if isinstance(error, ReplayedError):
            return error.fault
        if isinstance(error, ReplayError):
            return Fault(reason=type(error).__name__, is_transient=False, usage=NO_USAGE)
        return classify_error(error)


class ReplayConversation:
    """A `Conversation` with a recording."""

    def __init__(
        self, answers: RecordedAnswers, request: ModelRequest, bound: int, pace: float, *, runs_tools: bool
    ) -> None:
        self._answers = answers
        self._request = request
        self._bound = bound
        self._pace = pace
        self._runs_tools = runs_tools
        self._last_exchange = 0

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        self._request = (*self._request, to_result_part(call.id, call.name, text))
        self._bound += bound_message_tokens({"content": text, "name": call.name, "tool_call_id": call.id})

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        self._request = (*self._request, to_user_part(text))
        self._bound += bound_message_tokens({"content": text})

    def add_reply(self, reply: ModelReply) -> None:
        """Append a reply: what the recording has given, or what the model gave in an earlier run."""
        self._request = (*self._request, *to_reply_parts(reply))
        calls = [
            {"name": each.name, "args": each.arguments, "id": each.id, "type": "tool_call"} for each in reply.tool_calls
        ]
        self._bound += bound_message_tokens({"content": reply.text, "tool_calls": calls})

    def take_kept_reply(self) -> None:
        """Take none: a recording answers as a model does."""

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        """Give what the tool answered in the recording.

        Raises:
            ReplayError: the recording has another call, or no answer.
        """
        if self._runs_tools:
            return await run()
        recorded = self._answers.take_tool(self._last_exchange, call)
        if recorded.answer is None:
            await asyncio.sleep(recorded.seconds + _PATIENCE_S)
            what = f"The call of the tool {call.name} after exchange {self._last_exchange}"
            raise ReplayError(self._describe_stopped(what, "answer", recorded.seconds))
        await asyncio.sleep(recorded.seconds * self._pace)
        return recorded.answer

    def input_bound(self) -> int:
        """Bound the tokens that the next request could have had."""
        return self._bound

    async def reply(
        self,
        on_token: Callable[[str], None] | None = None,
        *,
        max_tokens: int | None = None,  # noqa: ARG002 - depends on what others had spent by then: no part of the request
        check_sending: Callable[[], None] | None = None,  # noqa: ARG002 - nothing is sent
    ) -> ModelReply:
        """Give what came of the same request in the recording: its reply, or its failure.

        Raises:
            ReplayError: the recording has no answer.
            ReplayedError: the recorded failure.
        """
        exchange = self._answers.take(self._request)
        seconds = exchange.seconds * self._pace
        match exchange.outcome:
            case FailedRequest() as failed:
                await asyncio.sleep(seconds)
                raise make_replayed_error(failed.error, failed.message, failed.fault)
            case CancelledRequest():
                await asyncio.sleep(exchange.seconds + _PATIENCE_S)
                raise ReplayError(self._describe_stopped(f"Exchange {exchange.number}", "reply", exchange.seconds))
            case ModelReply() as reply:
                self._last_exchange = exchange.number
                await _stream_pieces(exchange.pieces or (reply.text,), seconds, on_token)
                self.add_reply(reply)
                return reply

    def _describe_stopped(self, what: str, missing: str, seconds: float) -> str:
        path = self._answers.path
        return (
            f"{what} of the recording {path} has no {missing}: it was stopped after {seconds:g} s. "
            f"{describe_remedy(path)}"
        )


async def _stream_pieces(pieces: Iterable[str], seconds: float, on_token: Callable[[str], None] | None) -> None:
    """Take the time of a reply; give its pieces to whoever listens."""
    listened_pieces = [piece for piece in pieces if piece] if on_token is not None else []
    for piece in listened_pieces or ("",):
        await asyncio.sleep(seconds / max(1, len(listened_pieces)))
        if piece and on_token is not None:
            on_token(piece)
