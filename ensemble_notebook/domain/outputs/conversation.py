"""The conversation between a task's agent and its model, which another run may go on with (E55, E78).

A turn is what one prompt began: the prompt, the replies that ask for tools with the results of these, and the final
reply. A result is never without the reply that asked for it, nor the other way round: models refuse that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.domain.reasoning import split_reasoning


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolCall(Record):
    """A tool call that a model asks for.

    Attributes:
        id: the model's id for it; made up by the models layer where the model gave none.
        name: of the tool, as the model wrote it.
        arguments: the parsed JSON value (usually a dict), or the text as it came when it is no valid JSON.
    """

    id: str
    name: str
    arguments: Any


ChatRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ChatMessage(Record):
    """A message of a conversation.

    Attributes:
        role: ``"system"``, ``"user"`` for a prompt, ``"assistant"`` for a reply, or ``"tool"`` for a result.
        text: what was said.
        tool_calls: what a reply asks for.
        tool_call_id: of a result, the id of the call.
        name: of a result, the name of the tool.
    """

    role: ChatRole
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        """Role and text, with the calls that it asks for."""
        who = self.role if self.name is None else f"{self.role} {self.name}"
        calls = [f"{each.name}({write_arguments(each.arguments)})" for each in self.tool_calls]
        return f"{who}: {' '.join([*filter(None, [self.text]), *calls])}"


Messages = tuple[ChatMessage, ...]


def write_arguments(arguments: Any) -> str:
    """Write the arguments of a tool call as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)


def make_conversation(
    system: str, earlier: Sequence[ChatMessage], prompt: str, reply: str, tools: Iterable[ChatMessage] = ()
) -> Messages:
    """The conversation after a turn.

    Args:
        system: the present system prompt; empty where there is none.
        earlier: what was said before.
        prompt: of the turn.
        reply: its last.
        tools: the replies between them that ask for tools, with the results.
    """
    return (
        *((ChatMessage(role="system", text=system),) if system else ()),
        *strip_system(earlier),
        ChatMessage(role="user", text=prompt),
        *tools,
        ChatMessage(role="assistant", text=reply),
    )


def strip_system(messages: Sequence[ChatMessage]) -> Messages:
    """A conversation without its system prompt."""
    return tuple(each for each in messages if each.role != "system")


def split_prompt(messages: Messages) -> tuple[Messages, str | None]:
    """A conversation in what was said before, and the prompt that it ends with; None where it ends with a reply."""
    end = len(messages)
    while end and messages[end - 1].role == "user":
        end -= 1
    prompts = [each.text for each in messages[end:]]
    return messages[:end], "\n\n".join(prompts) if prompts else None


# --- How much of a conversation is sent -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShortenedHistory:
    """An earlier conversation in two parts.

    Attributes:
        sent: the later turns, whole; after a turn that sums up the others, where somebody did.
        left_out: the earlier turns.
        has_summary: whether they are summed up.
    """

    sent: Messages
    left_out: Messages = ()
    has_summary: bool = False

    @property
    def kept(self) -> Messages:
        """What a later run goes on with: all turns, but with the summary in place of those that it is of."""
        return self.sent if self.has_summary else (*self.left_out, *self.sent)

    def with_summary(self, prompt: str, summary: str) -> ShortenedHistory:
        """The same with a turn that asks for a summary and gives it."""
        turn = (ChatMessage(role="user", text=prompt), ChatMessage(role="assistant", text=summary))
        return ShortenedHistory((*turn, *self.sent), self.left_out, has_summary=True)


NO_HISTORY: Final = ShortenedHistory(())


def guess_tokens(text: str) -> int:
    """Guess the tokens of a text that nobody counts: four characters each."""
    return -(-len(text) // 4)


def shorten_history(
    earlier: Messages, *, turns: int | None, tokens: int | None, count: Callable[[str], int]
) -> ShortenedHistory:
    """Leave whole turns out from the front of a conversation until it is within its limit.

    Args:
        earlier: without a system prompt.
        turns: the most turns; None for no limit.
        tokens: the most tokens of all messages together; None for no limit.
        count: gives the tokens of a text.
    """
    kept = list(split_turns(earlier))
    left_out: list[ChatMessage] = []
    size = 0 if tokens is None else sum(count(str(each)) for each in earlier)
    while kept and ((turns is not None and len(kept) > turns) or (tokens is not None and size > tokens)):
        turn = kept.pop(0)
        left_out += turn
        size -= 0 if tokens is None else sum(count(str(each)) for each in turn)
    return ShortenedHistory(tuple(each for turn in kept for each in turn), tuple(left_out))


def split_turns(messages: Iterable[ChatMessage]) -> Iterator[Messages]:
    """Split a conversation into its turns; prompts that follow each other are of one."""
    turn: list[ChatMessage] = []
    for each in messages:
        if each.role == "user" and turn and turn[-1].role != "user":
            yield tuple(turn)
            turn = []
        turn.append(each)
    if turn:
        yield tuple(turn)


# --- Messages that somebody else has kept -----------------------------------------------------------------------------


_ROLES: Final[Mapping[str, ChatRole]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
}
_BESIDE: Final = ("tool_use", "tool_call", "thinking", "reasoning")
"""Parts of a reply that are no text for whoever goes on with it."""
_FORM: Final = "Give messages such as {'role': 'user', 'content': 'Hello'}, or LangChain's."


def read_messages(given: Sequence[Any]) -> Messages:
    """Read a conversation: mappings with ``role`` and ``content``, LangChain's messages, or `ChatMessage` objects.

    Raises:
        ValueError: it is none that can be gone on with; says which message is wrong, and how.
    """
    spoken = strip_system([_read_message(number, each) for number, each in enumerate(given, 1)])
    if not spoken:
        raise ValueError("there is no prompt and no reply in it. Leave it out to begin a conversation.")
    if spoken[0].role != "user":
        raise ValueError(f"it begins with a message of role {spoken[0].role!r}, and a conversation with a 'user' one.")
    made = tuple(_pair_results(spoken))
    if made[-1].role != "assistant":
        message = f"it ends with a message of role {made[-1].role!r}, and the prompt of the task comes after it."
        raise ValueError(f"{message} Leave that out, and make it the prompt.")
    return made


def read_prompted(given: Sequence[Any]) -> Messages:
    """Read all that a model is told before its next reply, the system prompt first where there is one.

    Raises:
        ValueError: it is none that a model could answer; says which message is wrong, and how.
    """
    messages = [_read_message(number, each) for number, each in enumerate(given, 1)]
    spoken = strip_system(messages)
    if not spoken or spoken[0].role != "user":
        raise ValueError("after a system prompt, where there is one, there must be a message of role 'user' first.")
    made = tuple(_pair_results(spoken))
    if made[-1].role == "assistant":
        raise ValueError("it ends with a message of role 'assistant', and the reply comes after it. Leave that out.")
    return (*(each for each in messages[:1] if each.role == "system"), *made)


def _pair_results(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Check that each result of a tool follows the reply that asks for it, and name its tool."""
    asked: dict[str | None, str] = {}
    for each in messages:
        if each.role == "tool":
            if each.tool_call_id not in asked:
                message = f"it has the result of the tool call {each.tool_call_id!r}, for which no reply before it"
                raise ValueError(f"{message} asks. Give both, or neither.")
            yield replace(each, name=asked.pop(each.tool_call_id))
            continue
        if asked:
            break
        asked = {call.id: call.name for call in each.tool_calls}
        yield each
    if asked:
        call_id, name = next(iter(asked.items()))
        message = f"it has a reply that asks for the tool {name!r} ({call_id}), and no result of that follows."
        raise ValueError(f"{message} Give both, or neither.")


def _read_message(number: int, given: Any) -> ChatMessage:
    if isinstance(given, ChatMessage):
        return given
    if not isinstance(given, Mapping) and not (hasattr(given, "content") and hasattr(given, "type")):
        raise ValueError(f"message {number} is of type {type(given).__name__}. {_FORM}")
    is_plain = isinstance(given, Mapping)
    names = ("role" if is_plain else "type", "content", "tool_calls", "tool_call_id")
    word, content, given_calls, call_id = (
        given.get(name) if is_plain else getattr(given, name, None) for name in names
    )
    role = _ROLES.get(str(word))
    if role is None:
        raise ValueError(f"message {number} has the role {word!r}: it is system, user, assistant or tool. {_FORM}")
    calls = tuple(_read_call(number, each) for each in given_calls or ())
    if calls and role != "assistant":
        raise ValueError(f"message {number} asks for tools, and is no reply, of role 'assistant'.")
    text = _read_content(number, "" if content is None and calls else content)
    if role == "assistant":
        answer = split_reasoning(text)[1]
        text = answer if answer or calls else text
    return ChatMessage(role=role, text=text, tool_calls=calls, tool_call_id=call_id if role == "tool" else None)


def _read_content(number: int, content: Any) -> str:
    """The text of a message; of one in parts, those that are text. The calls among them are beside it, too."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise ValueError(f"message {number} has no text: its content is {type(content).__name__}. {_FORM}")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else "text"
        if kind == "text":
            texts.append(str(part.get("text", "")) if isinstance(part, Mapping) else str(part))
        elif kind not in _BESIDE:
            raise ValueError(f"message {number} holds a part of type {kind!r}, and a conversation here is text.")
    return "".join(texts)


def _read_call(number: int, given: Any) -> ToolCall:
    """A tool call as OpenAI or LangChain writes it."""
    if isinstance(given, ToolCall):
        return given
    outer = given if isinstance(given, Mapping) else {}
    inner = outer.get("function", outer)
    call_id, name, arguments = outer.get("id"), inner.get("name"), inner.get("arguments", inner.get("args", {}))
    if not isinstance(name, str) or not isinstance(call_id, str):
        raise ValueError(f"message {number} asks for a tool call without a name and an id. {_FORM}")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return ToolCall(id=call_id, name=name, arguments=arguments)
