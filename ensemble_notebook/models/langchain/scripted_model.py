"""A chat model that answers from a script, for lessons and tests (E41): replies, tool calls, errors and delays.

::

    ScriptedChatModel(replies=[ToolUse("search", {"q": "steak"}), Fail(429), Reply("Medium rare.", delay=0.5)])
    ScriptedChatModel.match({"steak": "Medium rare.", re.compile("pasta|rice"): "Al dente."}, default="Served.")

Its tokens are counted by a fixed rule, and every view shows that no model was asked.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from ensemble_notebook.models.langchain.replies import extract_text

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_PIECE: Final = re.compile(r"\s*\S+|\s+")
_MAX_ECHOED_CHARACTERS: Final = 400
_script_lock: Final = threading.Lock()


class ScriptedError(Exception):
    """A refusal of a server that does not exist.

    Attributes:
        status_code: as of HTTP.
        retry_after: seconds that the server asks to wait, or None.
    """

    def __init__(self, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(status_code, retry_after)
        self.status_code = status_code
        self.retry_after = retry_after

    def __str__(self) -> str:
        """What a provider would say."""
        return f"scripted error {self.status_code}"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call. `arguments` is a mapping, or a text as a confused model would write it."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply after `delay` seconds: a text, tool calls, or both. A stream takes the delay for all its words."""

    text: str = ""
    calls: Sequence[ToolUse] = ()
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Fail:
    """A failure after `delay` seconds: an exception, its class, or an HTTP status such as 429."""

    error: BaseException | type[BaseException] | int
    retry_after: float | None = None
    delay: float = 0.0

    def exception(self) -> BaseException:
        """What is raised."""
        if isinstance(self.error, int):
            return ScriptedError(self.error, self.retry_after)
        return self.error() if isinstance(self.error, type) else self.error


Line = str | Reply | ToolUse | Fail | BaseException | Callable[[Sequence[BaseMessage]], Any]


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

    @classmethod
    def match(cls, rules: Mapping[Any, Any], default: Any = None, **fields: Any) -> ScriptedChatModel:
        """A model that answers by what it is asked.

        A key fits when its text is in the system or user prompt (in any case), when the regular expression is found
        there, or when the function of the messages is true; the first that fits counts. A list as the answer is played
        from its start in each conversation: one entry per turn, and the next one after a failure.
        """
        return cls(rules=list(rules.items()), default=default, **fields)

    @property
    def calls(self) -> tuple[ScriptedCall, ...]:
        """All requests so far, in order."""
        return tuple(self._calls)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Offer tools, which the script may use or not."""
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], **kwargs)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        take = self._take(messages, kwargs)
        time.sleep(take.delay)
        return take.result()

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        take = self._take(messages, kwargs)
        await asyncio.sleep(take.delay)
        return take.result()

    async def _astream(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        take = self._take(messages, kwargs)
        if take.error is not None:
            await asyncio.sleep(take.delay)
            raise take.error
        chunks = take.chunks()
        for chunk in chunks:
            await asyncio.sleep(take.delay / len(chunks))
            yield chunk

    def _take(self, messages: Sequence[BaseMessage], kwargs: Mapping[str, Any]) -> _ScriptedReply:
        """Record a request and play what the script has for it."""
        tools = tuple(each["function"]["name"] for each in kwargs.get("tools", ()))
        with _script_lock:
            self._calls.append(ScriptedCall(extract_text(messages[-1].content), tuple(messages), tools))
            number = len(self._calls)
            line = self._choose(messages)
        while callable(line) and not isinstance(line, type):
            line = line(messages)
        return _ScriptedReply(line, messages, number, self.model_name, kwargs.get("max_tokens", self.max_tokens))

    def _choose(self, messages: Sequence[BaseMessage]) -> Any:
        opening = "\n".join(extract_text(each.content) for each in messages[:2] if each.type in ("system", "human"))
        for number, (pattern, lines) in enumerate(self.rules):
            if _matches(pattern, opening, messages):
                is_list = isinstance(lines, list | tuple)
                return self._next(lines, (number, opening), messages) if is_list else lines
        position = self._positions.get("replies", 0)
        if position < len(self.replies):
            self._positions["replies"] = position + 1
            return self.replies[position]
        if self.default is not None:
            return self.default
        raise LookupError(
            f"The script has no answer left: its {position} replies are used up."
            if self.replies
            else f"The script has no answer to {extract_text(messages[-1].content)[:200]!r}. Add a rule, or a default."
        )

    def _next(self, lines: Sequence[Any], scene: Any, messages: Sequence[BaseMessage]) -> Any:
        position = self._positions.get(scene, 0)
        is_first_turn = all(each.type != "ai" for each in messages)
        if is_first_turn and (position >= len(lines) or not isinstance(lines[position - 1], Fail)):
            position = 0
        if position >= len(lines):
            raise LookupError(f"The script has {len(lines)} answers here, and the conversation went on.")
        self._positions[scene] = position + 1
        return lines[position]


class _ScriptedReply:
    """One answer, played."""

    def __init__(
        self, line: Any, messages: Sequence[BaseMessage], number: int, model_name: str, most: int | None
    ) -> None:
        self.error: BaseException | None = None
        reply = Reply()
        match line:
            case str():
                reply = Reply(line)
            case ToolUse():
                reply = Reply(calls=[line])
            case Reply():
                reply = line
            case Fail():
                self.error = line.exception()
                reply = Reply(delay=line.delay)
            case BaseException():
                self.error = line
            case _:
                raise TypeError(f"A script takes texts, Reply, ToolUse and Fail, not {type(line).__name__}.")
        self.delay = reply.delay
        said = [reply.text, *(_json(call.arguments) for call in reply.calls)]
        self.text, *arguments = kept = _cut_to_tokens(said, most)
        self._calls = [
            (f"call_{number}_{place}", call.name, text)
            for place, (call, text) in enumerate(zip(reply.calls, arguments, strict=False))
        ]
        read = sum(count_tokens(extract_text(each.content)) for each in messages)
        written = count_tokens(self.text) + sum(count_tokens(arguments) for _, _, arguments in self._calls)
        self._usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        finish_reason = "length" if kept != said else "tool_calls" if self._calls else "stop"
        self._metadata = {"model_name": model_name, "finish_reason": finish_reason, "model_provider": "scripted"}

    def result(self) -> ChatResult:
        """The reply in one piece; raises what the script says."""
        if self.error is not None:
            raise self.error
        whole = sum((chunk.message for chunk in self.chunks()[1:]), self.chunks()[0].message)
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(whole))])

    def chunks(self) -> list[ChatGenerationChunk]:
        """The reply word by word, then its tool calls, then its usage."""
        messages = [AIMessageChunk(content=piece) for piece in _PIECE.findall(self.text)]
        messages += [
            AIMessageChunk(
                content="", tool_call_chunks=[ToolCallChunk(name=name, args=arguments, id=identity, index=index)]
            )
            for index, (identity, name, arguments) in enumerate(self._calls)
        ]
        last = AIMessageChunk(
            content="", usage_metadata=self._usage, response_metadata=self._metadata, chunk_position="last"
        )
        return [ChatGenerationChunk(message=each) for each in [*messages, last]]


def count_tokens(text: str) -> int:
    """Words and punctuation marks: the same for every script, on every machine."""
    return len(_TOKEN.findall(text))


def _cut_to_tokens(texts: Sequence[str], most: int | None) -> list[str]:
    """The texts up to so many tokens in all; those after the end are missing, but for the first."""
    kept: list[str] = []
    for text in texts:
        ends = [token.end() for token in _TOKEN.finditer(text)]
        if most is not None and len(ends) > most:
            return [*kept, text[: ends[most - 1]]] if most else (kept or [""])
        kept.append(text)
        most = None if most is None else most - len(ends)
    return kept


def make_echo_model() -> ScriptedChatModel:
    """What the spec ``scripted`` stands for: an answer to everything, which says that nobody thought about it."""
    return ScriptedChatModel(default=_echo)


def _echo(messages: Sequence[BaseMessage]) -> str:
    said = extract_text(messages[-1].content).strip()
    excerpt = said if len(said) <= _MAX_ECHOED_CHARACTERS else said[:_MAX_ECHOED_CHARACTERS] + " ..."
    return f"[scripted: no model was asked] {excerpt}"


def _matches(pattern: Any, opening: str, messages: Sequence[BaseMessage]) -> bool:
    if isinstance(pattern, str):
        return pattern.casefold() in opening.casefold()
    if isinstance(pattern, re.Pattern):
        return pattern.search(opening) is not None
    return bool(pattern(messages))


def _json(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
