"""The conversations of a run, as a later one goes on with them, from its trace (E55)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.outputs.conversation import ChatMessage, Messages, ToolCall
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Message, RequestedCall
from ensemble_notebook.trace.spans.span_kinds import SpanKind


def read_conversations(fold: TraceFold) -> Mapping[str, Messages]:
    """The conversations of the tasks that were done, by name; secrets are masked in them.

    Corrections are not in them: the prompts that ask for them, and the replies that they were of.
    """
    found = {}
    for span in fold.spans.values():
        if span.kind is SpanKind.TASK and span.is_own_task and span.status is SpanStatus.OK:
            messages = tuple(_select(fold.messages.get(span.span_id, [])))
            if messages and messages[-1].role == "assistant":
                found[span.name] = messages
    return found


def _select(messages: Sequence[Message]) -> Iterator[ChatMessage]:
    """What was said before, then the last prompt of the task with what followed it."""
    is_summed_up = any((each.span.attributes or {}).get("is_summary") for each in messages)
    last = max((each.seq for each in messages if each.is_earlier), default=-1)
    for each in messages:
        if each.seq == last and each.is_earlier and not (is_summed_up and each.is_left_out):
            yield _to_chat_message(each)
    prompts = [at for at, each in enumerate(messages) if _is_prompt(each)]
    if not prompts:
        return
    yield _to_chat_message(messages[prompts[-1]])
    rest = messages[prompts[-1] + 1 :]
    for at, each in enumerate(rest):
        is_last = at == len(rest) - 1
        if each.role == "tool" or (each.role == "assistant" and (each.tool_calls or is_last)):
            yield _to_chat_message(each)


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and not message.is_earlier and message.span.kind is SpanKind.TASK


def _to_chat_message(message: Message) -> ChatMessage:
    calls = tuple(map(_to_call, message.tool_calls))
    if message.role == "tool":
        return ChatMessage(role="tool", text=message.text, tool_call_id=message.tool_call_id, name=message.name)
    return ChatMessage(role=message.role, text=message.text, tool_calls=calls)


def _to_call(call: RequestedCall) -> ToolCall:
    try:
        arguments = read_json(call.arguments)
    except ValueError:
        arguments = call.arguments
    return ToolCall(id=call.id, name=call.name, arguments=arguments)
