"""A chat model that answers from a script, for lessons and tests (E41): replies, tool calls, errors and delays.

::

    ScriptedChatModel(replies=[ToolUse("search", {"q": "steak"}), Fail(429), Reply("Medium rare.", delay=0.5)])
    ScriptedChatModel.match({"steak": "Medium rare.", re.compile("pasta|rice"): "Al dente."}, default="Served.")

Its tokens are counted by a fixed rule, and every view shows that no model was asked. Why not simply a port: as a chat
model of LangChain it passes all that real ones pass, callbacks and bound tools among it, and works outside ensembles.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.models.langchain.replies import extract_text

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable


# --- What a script for a model is made of: replies, tool calls and failures, with delays ------------------------


class ScriptedError(Exception):
    """An HTTP error of a scripted model.

    Attributes:
        status_code: the HTTP status.
        retry_after: seconds that the server asks to wait; None if it does not say.
    """

    def __init__(self, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(status_code, retry_after)
        self.status_code = status_code
        self.retry_after = retry_after

    def __str__(self) -> str:
        """Say what a provider would."""
        return f"scripted error {self.status_code}"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call in a scripted reply.

    Attributes:
        name: the tool's name.
        arguments: a mapping, or a text, such as broken JSON that a confused model might write.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """A scripted reply: a text, tool calls, or both; or a refusal.

    Attributes:
        text: what the model says.
        calls: the tool calls that it asks for.
        delay: seconds before the reply; a stream spreads them over its words.
        refusal: the words with which it refuses to answer.
    """

    text: str = ""
    calls: Sequence[ToolUse] = ()
    delay: float = 0.0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """A scripted failure.

    Attributes:
        error: an exception, its class, or an HTTP status such as 429.
        retry_after: seconds that the server asks to wait; for an HTTP status only.
        delay: seconds before the failure.
    """

    error: BaseException | type[BaseException] | int
    retry_after: float | None = None
    delay: float = 0.0

    def exception(self) -> BaseException:
        """Make the exception that is raised."""
        if isinstance(self.error, int):
            return ScriptedError(self.error, self.retry_after)
        return self.error() if isinstance(self.error, type) else self.error


# ----------------------------------------------------------------------------------------------------------------------
# One answer of a script, as a chat model gives it: words, tool calls, counted tokens, a delay, or an error.


_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
# Each piece costs some 50 µs on its way to a listener, and a megabyte has 200,000 words.
_MOST_PIECES: Final = 1_000
_PIECE: Final = re.compile(r"\s*\S+|\s+")


class ScriptedReply:
    """One reply of a scripted model.

    Args:
        entry: of the script; no function any more.
        messages: of the request.
        number: of the request, from 1; makes the ids of its tool calls.
        model_name: shown in views.
        max_tokens: what is longer is cut off.

    Attributes:
        error: what is raised in place of a reply, or None.
        delay: seconds.
        text: of the reply.

    Raises:
        TypeError: the entry is none.
    """

    def __init__(
        self, entry: Any, messages: Sequence[BaseMessage], number: int, model_name: str, max_tokens: int | None
    ) -> None:
        self.error: BaseException | None = None
        reply = Reply()
        match entry:
            case str():
                reply = Reply(entry)
            case ToolUse():
                reply = Reply(calls=[entry])
            case Reply():
                reply = entry
            case Fail():
                self.error = entry.exception()
                reply = Reply(delay=entry.delay)
            case BaseException():
                self.error = entry
            case _:
                raise TypeError(f"A script takes texts, Reply, ToolUse and Fail, not {type(entry).__name__}.")
        self.delay = reply.delay
        self._refusal = reply.refusal
        full = [reply.text, *(_to_json(call.arguments) for call in reply.calls)]
        self.text, *arguments = kept = _cut_to_tokens(full, max_tokens)
        self._calls = [
            (f"call_{number}_{place}", call.name, text)
            for place, (call, text) in enumerate(zip(reply.calls, arguments, strict=False))
        ]
        input_tokens = sum(count_tokens(extract_text(each.content)) for each in messages)
        said = (self.text, self._refusal, *(arguments for _, _, arguments in self._calls))
        output_tokens = sum(map(count_tokens, said))
        self._usage = UsageMetadata(
            input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
        )
        finish_reason = "length" if kept != full else "tool_calls" if self._calls else "stop"
        self._metadata = {"model_name": model_name, "finish_reason": finish_reason, "model_provider": "scripted"}

    def to_result(self) -> ChatResult:
        """Give the reply in one piece, or raise what the script says."""
        if self.error is not None:
            raise self.error
        first, *others = self._make_messages([self.text])  # to add up a piece for each word takes a while
        whole = sum(others, first)
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(whole))])

    def to_chunks(self) -> list[ChatGenerationChunk]:
        """Give the reply word by word, a long one in larger pieces, then its tool calls, then its usage."""
        words = _PIECE.findall(self.text)
        size = -(-len(words) // _MOST_PIECES) or 1
        pieces = ["".join(words[start : start + size]) for start in range(0, len(words), size)]
        return [ChatGenerationChunk(message=each) for each in self._make_messages(pieces)]

    def _make_messages(self, pieces: Sequence[str]) -> list[AIMessageChunk]:
        messages = [AIMessageChunk(content=piece) for piece in pieces]
        messages += [
            AIMessageChunk(
                content="", tool_call_chunks=[ToolCallChunk(name=name, args=arguments, id=identity, index=index)]
            )
            for index, (identity, name, arguments) in enumerate(self._calls)
        ]
        last = AIMessageChunk(
            content="",
            additional_kwargs={"refusal": self._refusal} if self._refusal else {},
            usage_metadata=self._usage,
            response_metadata=self._metadata,
            chunk_position="last",
        )
        return [*messages, last]


def count_tokens(text: str) -> int:
    """Count words and punctuation marks: the same for every script, on every machine."""
    return len(_TOKEN.findall(text))


def _cut_to_tokens(texts: Sequence[str], max_tokens: int | None) -> list[str]:
    """Cut texts to so many tokens in all; those after the end are missing, but for the first."""
    kept: list[str] = []
    rest = max_tokens
    for text in texts:
        ends = [token.end() for token in _TOKEN.finditer(text)]
        if rest is not None and len(ends) > rest:
            return [*kept, text[: ends[rest - 1]]] if rest else (kept or [""])
        kept.append(text)
        rest = None if rest is None else rest - len(ends)
    return kept


def _to_json(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments))


# --- A chat model that answers from a script, for lessons and tests: replies, tool calls, errors and delays -----


# One for all models: a lock of its own would be lost when LangChain copies a model.
_script_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One request, as the model got it: its last text, all messages, and the names of the tools on offer."""

    prompt: str
    messages: tuple[BaseMessage, ...]
    tools: tuple[str, ...]


class ScriptedChatModel(BaseChatModel):
    """A LangChain chat model that follows a script. Any number of threads and loops may use it.

    Fields:
        replies: answers in order of the requests, whoever asks. Each is a text, `Reply`, `ToolUse`, `Fail`, an
            exception, or a function from the messages to one of these.
        rules: ``(pattern, answer)`` pairs that are tried first; see `match`.
        default: the answer where neither has one.
        model_name: shown in views.
        max_tokens: in one reply, as `count_tokens` counts them; what is longer is cut off, as a provider does it.

    Raises:
        ValidationError: there is no such field; ``responses`` and ``messages`` of other fakes are ``replies`` here.
        LookupError: on a request for which the script has no answer, or none left.
    """

    is_scripted: ClassVar[bool] = True

    replies: Sequence[Any] = ()
    rules: Sequence[tuple[Any, Any]] = ()
    default: Any = None
    model_name: str = "scripted"
    max_tokens: int | None = None
    _calls: list[ScriptedCall] = []  # noqa: RUF012 - pydantic gives each model its own
    _positions: dict[Any, int] = {}  # noqa: RUF012

    def __init__(self, **fields: Any) -> None:
        unknown = next((name for name in fields if name not in type(self).model_fields), None)
        if unknown is not None:  # pydantic would pass over it, and every request would find an empty script
            own = [name for name in type(self).model_fields if name not in BaseChatModel.model_fields]
            raise ValidationError(
                f"{type(self).__name__} has no field {unknown!r}.{did_you_mean(unknown, own)} A script is "
                f"replies=[...], or what ScriptedChatModel.match({{...}}) makes."
            )
        super().__init__(**fields)

    @classmethod
    def match(cls, rules: Mapping[Any, Any], default: Any = None, **fields: Any) -> ScriptedChatModel:
        """Make a model that answers by what it is asked.

        The first rule that matches counts. A list as an answer is played from its start in each conversation: one entry
        per turn, and the next entry after a failure.

        Args:
            rules: patterns with their answers. A pattern is a text that is looked for in the system prompt and in what
                the user said, corrections included, ignoring case; a regular expression; or a function of the messages.
            default: the answer if no rule matches.
            **fields: other fields of the model.
        """
        return cls(rules=list(rules.items()), default=default, **fields)

    @property
    def calls(self) -> tuple[ScriptedCall, ...]:
        """All requests so far, in order."""
        return tuple(self._calls)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Offer tools, which the script may use or not.

        Args:
            tools: LangChain tools; the script does not look at them.
            **kwargs: ignored.
        """
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], **kwargs)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        with self._answering(messages, kwargs) as reply:
            time.sleep(reply.delay)
            return reply.to_result()

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        with self._answering(messages, kwargs) as reply:
            await asyncio.sleep(reply.delay)
            return reply.to_result()

    async def _astream(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        with self._answering(messages, kwargs) as reply:
            if reply.error is not None:
                await asyncio.sleep(reply.delay)
                raise reply.error
            chunks = reply.to_chunks()
            for chunk in chunks:
                await asyncio.sleep(reply.delay / len(chunks))
                yield chunk

    @contextmanager
    def _answering(self, messages: Sequence[BaseMessage], kwargs: Mapping[str, Any]) -> Iterator[ScriptedReply]:
        """Record a request, and make the reply that the script has for it.

        Where the request is stopped before its end, the reply is still to come: whoever resumes the run gets it.
        """
        tools = kwargs.get("tools", ())
        names = tuple(each["function"]["name"] for each in tools)
        with _script_lock:
            self._calls.append(ScriptedCall(extract_text(messages[-1].content), tuple(messages), names))
            number = len(self._calls)
            entry, part = self._choose_entry(messages, tools)
            position = self._positions.get(part)
        while callable(entry) and not isinstance(entry, type):
            entry = entry(messages)
        try:
            yield ScriptedReply(entry, messages, number, self.model_name, kwargs.get("max_tokens", self.max_tokens))
        except (asyncio.CancelledError, GeneratorExit):
            with _script_lock:
                if position is not None and self._positions[part] == position:
                    self._positions[part] = position - 1
            raise

    def _choose_entry(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],  # noqa: ARG002 - a script does not look at them
    ) -> tuple[Any, Any]:
        """Choose the entry of the script for a request: by the rules, else the next reply, else the default.

        With it comes the part of the script in which the position has moved on; None where there is no order.
        """
        told, opening = _join_prompts(messages), _join_prompts(messages[:2])
        for number, (pattern, answer) in enumerate(self.rules):
            if _matches(pattern, told, messages):
                if not isinstance(answer, list | tuple):
                    return answer, None
                return self._choose_next(answer, (number, opening), messages), (number, opening)
        position = self._positions.get("replies", 0)
        if position < len(self.replies):
            self._positions["replies"] = position + 1
            return self.replies[position], "replies"
        if self.default is not None:
            return self.default, None
        raise LookupError(
            f"The script has no answer left; it had {pluralize(position, 'reply')}. Add one, or a default."
            if self.replies
            else f"The script has no answer to {extract_text(messages[-1].content)[:200]!r}. Add a rule, or a default."
        )

    def _choose_next(self, entries: Sequence[Any], conversation: Any, messages: Sequence[BaseMessage]) -> Any:
        """Choose the next of the entries that one rule has for a conversation, which its prompts tell from others."""
        position = self._positions.get(conversation, 0)
        is_first_turn = all(each.type != "ai" for each in messages)
        if is_first_turn and (position >= len(entries) or not isinstance(entries[position - 1], Fail)):
            position = 0
        if position >= len(entries):  # a fork goes on in the middle of a conversation that was at its end
            said = sum(each.type == "ai" for each in messages)
            places = [number for number, each in enumerate(entries) if not isinstance(each, Fail)]
            position = places[said] if said < len(places) else position
        if position >= len(entries):
            raise LookupError(f"The script has {pluralize(len(entries), 'answer')} here, and the conversation went on.")
        self._positions[conversation] = position + 1
        return entries[position]


def _join_prompts(messages: Sequence[BaseMessage]) -> str:
    return "\n".join(extract_text(each.content) for each in messages if each.type in ("system", "human"))


def _matches(pattern: Any, prompts: str, messages: Sequence[BaseMessage]) -> bool:
    if isinstance(pattern, str):
        return pattern.casefold() in prompts.casefold()
    if isinstance(pattern, re.Pattern):
        return pattern.search(prompts) is not None
    return bool(pattern(messages))
