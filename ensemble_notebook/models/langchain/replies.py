"""A LangChain message as a `ModelReply`: its text, its tool calls as they were asked for, its usage.

Reads messages of any provider by their fields; imports no LangChain. What a provider leaves out is unknown, not zero.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from ensemble_notebook.domain.outputs.conversation import ToolCall, write_arguments
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import REFUSED, ModelReply
from ensemble_notebook.domain.value_text import mend_text, mend_value, read_float, read_json
from ensemble_notebook.models.openai.kept_fields import KEPT
from ensemble_notebook.models.openai.reply_body import fit_counts, refuse_usage, unmark_arguments
from ensemble_notebook.models.openai.tool_calls import CallJoiner, ToolCallPiece

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage


# What a reply tells of a message in fields of its own.
_TOLD: Final = frozenset({"tool_calls", "function_call", "refusal", "parsed", "audio"})
# Tuples, since what a server sends as a type may have no hash.
_TOLD_BLOCKS: Final = ("text", "output_text", "refusal", "tool_use", "tool_call", "function_call")


def extract_text(content: Any) -> str:
    """Extract the text part of a message's content, which is a text or a list of texts and blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, Mapping) and block.get("type") in ("text", "output_text"):
            texts.append(str(block.get("text") or ""))
    return "".join(texts)


def to_model_reply(message: AIMessage, text: str | None = None, source: str = "provider") -> ModelReply:
    """Convert a message to a reply, whose tool calls have an id each by now.

    Args:
        message: complete.
        text: what was streamed, where it was.
        source: who counted the tokens.
    """
    facts = message.response_metadata
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    reason = _find_reason(facts)
    text = extract_text(message.content) if text is None else mend_text(text)
    if refusal := _find_refusal(message):
        text, reason = f"{text}{mend_text(refusal)}", REFUSED
    beside = message.additional_kwargs
    kept, model = beside.get(KEPT) or {}, facts.get("model_name") or facts.get("model")
    return ModelReply(
        text=text,
        tool_calls=tuple(
            ToolCall(id=str(call["id"]), name=call["name"] or "", arguments=parse_arguments(call["args"]))
            for call in calls
        ),
        usage=to_token_usage(message.usage_metadata, source),
        model=None if model is None else str(model),
        finish_reason=reason,
        reasoning=find_reasoning({**beside, **kept}, kept.get("content") or message.content),
        extras=_find_extras(message),
    )


def _find_extras(message: AIMessage) -> dict[str, Any]:
    """Find what a message has beside its text and its calls, as its provider's class or our transport has kept it."""
    extras: dict[str, Any] = {}
    blocks = message.content if isinstance(message.content, list) else ()
    if any(isinstance(each, Mapping) and each.get("type") not in _TOLD_BLOCKS for each in blocks):
        extras["content"] = message.content
    if beside := {name: value for name, value in message.additional_kwargs.items() if name not in _TOLD and value}:
        extras["additional_kwargs"] = beside
    return json.loads(json.dumps(extras, default=str)) if extras else extras


# What providers call the reason why a reply ended, and a text that streaming has repeated.
_REASONS: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason")
_REPEATED: Final = re.compile(r"(.+?)\1+")


def _find_reason(facts: Mapping[str, Any]) -> str | None:
    """Find why a reply ended, in the provider's word; also where it never began, or OpenAI's newer interface tells."""
    said = next((facts[name] for name in _REASONS if facts.get(name)), None)
    if said is None:
        blocked = _look_up(facts, "prompt_feedback", "block_reason")
        if blocked:
            return f"prompt blocked: {getattr(blocked, 'name', blocked)}"
        said = _look_up(facts, "incomplete_details", "reason")
    if said is None:
        return None
    word = said if type(said) is str else str(getattr(said, "name", said))
    repeated = _REPEATED.fullmatch(word)
    return repeated[1] if repeated else word


def _look_up(facts: Mapping[str, Any], name: str, field: str) -> Any:
    inner = facts.get(name)
    return inner.get(field) if isinstance(inner, Mapping) else None


def _find_refusal(message: AIMessage) -> str:
    """Find the words of a refusal where another client than ours left them."""
    blocks = message.content if isinstance(message.content, list) else ()
    said = [block.get("refusal") for block in blocks if isinstance(block, Mapping) and block.get("type") == "refusal"]
    return "".join(map(str, filter(None, said))) or str(message.additional_kwargs.get("refusal") or "")


# What stands beside the text in messages of DeepSeek, Groq, Ollama, OpenRouter and OpenAI's Responses, and the types of
# blocks of Anthropic, Google, Mistral, OpenAI and Bedrock.
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details")
_REASONING_BLOCKS: Final = ("thinking", "reasoning", "reasoning_content")
_WORDS: Final = ("thinking", "reasoning_content", "reasoning", "text", "summary", "content")


def find_reasoning(beside: Mapping[str, Any], content: Any) -> str:
    """Find the words of a model's reasoning that are not in its text; where a server sends them twice, once.

    Args:
        beside: the fields of the message.
        content: its text, or its blocks.
    """
    for name in _REASONING_FIELDS:
        if words := _join_words(beside.get(name)):
            return words
    if not isinstance(content, list):
        return ""
    blocks = [each for each in content if isinstance(each, Mapping) and each.get("type") in _REASONING_BLOCKS]
    return _join_words(blocks)


def _join_words(said: Any) -> str:
    if isinstance(said, str):
        return mend_text(said)
    if isinstance(said, Mapping):
        return next(filter(None, (_join_words(said.get(name)) for name in _WORDS)), "")
    return "".join(map(_join_words, said)) if isinstance(said, list) else ""


def to_message(reply: ModelReply) -> AIMessage:
    """Convert a reply back to a message, to be sent again."""
    from langchain_core.messages import AIMessage

    content, beside = reply.extras.get("content") or reply.text, reply.extras.get("additional_kwargs") or {}
    calls = [{"name": each.name, "args": each.arguments, "id": each.id} for each in reply.tool_calls]
    texts = [write_arguments(each.arguments) for each in reply.tool_calls]
    return AIMessage(content, additional_kwargs={**beside}, **_place_calls(calls, texts))


def _place_calls(calls: Sequence[dict[str, Any]], texts: Sequence[str]) -> dict[str, Any]:
    """Place the calls of a reply as LangChain keeps them: all good, or all malformed, so that they stay in order.

    Args:
        calls: name, parsed arguments and id.
        texts: of the arguments.
    """
    if all(isinstance(each["args"], dict) for each in calls):
        return {"tool_calls": [each | {"type": "tool_call"} for each in calls], "invalid_tool_calls": []}
    marked = [
        each | {"type": "invalid_tool_call", "error": None, "args": text}
        for each, text in zip(calls, texts, strict=True)
    ]
    return {"tool_calls": [], "invalid_tool_calls": marked}


def parse_arguments(text: Any) -> Any:
    """Parse the JSON value where it is one, else give back the text. No arguments are an empty object."""
    if text is None or text == "":
        return {}
    if not isinstance(text, str):
        return text
    try:
        value = read_json(text, strict=False, parse_float=read_float)
    except ValueError:
        return text
    return {} if value is None else value


def to_token_usage(counted: Any, source: str = "provider") -> TokenUsage:
    """Convert LangChain's ``usage_metadata``, in which sums include their parts; what does not fit is unknown."""
    if counted is None:
        return TokenUsage(source=source)
    if isinstance(counted, Mapping):
        read, written = (counted.get(f"{name}_token_details") or {} for name in ("input", "output"))
        if isinstance(read, Mapping) and isinstance(written, Mapping):
            parts = (_find_part(read, "cache_read"), _find_cache_writes(read))
            reasoning = _find_part(written, "reasoning")
            counts = fit_counts(
                counted.get("input_tokens"),
                counted.get("output_tokens"),
                counted.get("total_tokens"),
                input_parts=parts,
                reasoning=reasoning,
            )
            if counts is not None:
                return TokenUsage(
                    # No request is empty: a provider that counts none has not said it, as in Anthropic's streams.
                    input_tokens=(counts[0] or None) if source == "provider" else counts[0],
                    output_tokens=counts[1],
                    cache_read_tokens=parts[0],
                    cache_write_tokens=parts[1],
                    reasoning_tokens=reasoning,
                    source=source,
                )
    refuse_usage(counted)
    return TokenUsage(source=source)


def _find_part(details: Mapping[str, Any], name: str) -> Any:
    """Find a part of a count, which LangChain names by the service tier where a reply has one: ``flex_cache_read``."""
    if not details or details.get(name) is not None:
        return details.get(name)
    return next((value for tier in ("flex", "priority") if (value := details.get(f"{tier}_{name}")) is not None), None)


def _find_cache_writes(read: Mapping[str, Any]) -> Any:
    """Find what was written to a cache; Anthropic's whole replies have it by how long it stays there."""
    by_time = [read.get(f"ephemeral_{time}_input_tokens") for time in ("5m", "1h")]
    known = [each for each in by_time if each is not None]
    written = _find_part(read, "cache_creation")
    if written or not all(type(each) is int for each in known):
        return written
    return sum(known) if known else written


def assign_call_ids(message: AIMessage, used: set[str]) -> None:
    """Give each tool call an id that is new in its conversation, and bad arguments their own text back.

    Changes the message, so that the answers to its calls fit when it is sent again, and that it can be: half characters
    are none of it.

    Args:
        message: complete.
        used: the ids of the conversation, to which those of the message are added.
    """
    if (content := mend_value(message.content)) is not message.content:  # to set a field of pydantic's takes long
        message.content = content
    calls: Iterable[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    for call in calls:
        arguments = call["args"]
        call["id"], call["name"] = take_call_id(call.get("id"), used), mend_value(call["name"])
        call["args"] = mend_value(unmark_arguments(arguments) if isinstance(arguments, str) else arguments)


def take_call_id(said: str | None, used: set[str]) -> str:
    """Take what is said for the id of a call, mended, or another one that is new in the conversation; it is used then.

    Here for LangChain's messages and ours: an id goes back with the call and its answer, and must fit both.
    """
    call_id = mend_text(said or "")
    if not call_id or call_id in used:
        call_id = next(made for number in count(len(used) + 1) if (made := f"call_{number}") not in used)
    used.add(call_id)
    return call_id


def join_chunks(chunks: Sequence[AIMessage], list_tools: Callable[[], Iterable[str]] = tuple) -> AIMessage:
    """Join the message that was streamed in these chunks, at least one; a model that can't stream gives it whole.

    Args:
        chunks: in order.
        list_tools: gives the names of the tools on offer.
    """
    from langchain_core.messages import AIMessageChunk, message_chunk_to_message

    first, *others = chunks
    if not isinstance(first, AIMessageChunk):
        return first
    joiner = CallJoiner(list_tools)
    for chunk in cast("Sequence[AIMessageChunk]", chunks):
        for said in chunk.tool_call_chunks:
            joiner.add(ToolCallPiece(said["index"], said["id"] or "", said["name"] or "", said["args"] or ""))
    whole: Any = first + others if others else first
    message: Any = message_chunk_to_message(whole)
    calls = joiner.finish()
    is_same = [(each.name, each.arguments) for each in calls] == [
        (said["name"] or "", said["args"] or "") for said in whole.tool_call_chunks
    ]
    # LangChain joins calls by their index alone, and completes broken JSON of streamed arguments, silently; what was
    # said decides.
    if is_same and all(isinstance(parse_arguments(each.arguments), dict) for each in calls):
        return cast("AIMessage", message)
    made = [{"id": each.id or None, "name": each.name, "args": parse_arguments(each.arguments)} for each in calls]
    placed = _place_calls(made, [each.arguments for each in calls])
    message.tool_calls, message.invalid_tool_calls = placed["tool_calls"], placed["invalid_tool_calls"]
    return cast("AIMessage", message)
