"""What a run is continued with: messages, or the conversations of an earlier run, as its trace has them (E55)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from ensemble_notebook.domain.definitions.enums import CaptureMode, SpanStatus
from ensemble_notebook.domain.definitions.tool import SourcedInput
from ensemble_notebook.domain.outputs.conversation import (
    ChatMessage,
    Messages,
    ToolCall,
    read_messages,
)
from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.ensemble.run_settings import (
    Continuable,
    ContinuedOutput,
    KeptConversations,
)
from ensemble_notebook.errors import StoreError, ValidationError
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Message
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_facts import RememberedRun
from ensemble_notebook.trace.store.run_store import RunStore

_LISTED: Final = 3


def find_continued(given: Continuable) -> ContinuedOutput | None:
    """Find the conversations to go on with.

    Args:
        given: an output; or the id of a run, a beginning of it, its name, or its place (-1 is the last); or messages,
            or a prompt whose messages are read when the run starts.

    Raises:
        StoreError: the run is not in the store, or the store can't be read.
        ValidationError: the run has kept no text, or the messages are none that can be gone on with.
    """
    if isinstance(given, list | tuple):
        try:
            return KeptConversations(messages=read_messages(given))
        except ValueError as error:
            raise ValidationError(f"continue_from can't go on with these messages: {error}") from None
    if isinstance(given, SourcedInput):
        return KeptConversations(messages=(), prompt=given)
    if not isinstance(given, str | int):
        return cast("ContinuedOutput | None", given)
    store = RunStore.open()
    run = find_run(store, str(given))
    if not run.facts.keeps_texts:
        raise ValidationError(
            f"Run {run.run_id} can't be continued: capture_mode {CaptureMode.METADATA.value} keeps nothing of what was "
            f"said. Begin a new conversation, or give its messages as a list."
        )
    found = {**(run.facts.conversations or {}), **read_conversations(store.load_trace(run)._fold)}
    return KeptConversations(run_id=run.run_id, capture_mode=run.facts.capture_mode, conversations=found)


def find_run(store: RunStore, word: str) -> RememberedRun:
    """The run of this id, a beginning of it, its name or its place.

    Raises:
        StoreError: there is none; names the latest.
    """
    try:
        return store.find_run(word)
    except StoreError as error:
        latest = [
            f"{each.run_id} ({each.facts.name})" if each.facts.name else each.run_id
            for each in store.list_runs(_LISTED)
        ]
        if not latest:
            raise
        raise StoreError(f"{error} The latest are {', '.join(latest)}.") from None


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
            yield to_chat_message(each)
    prompts = [
        at
        for at, each in enumerate(messages)
        if each.role == "user" and not each.is_earlier and each.span.kind is SpanKind.TASK
    ]
    if not prompts:
        return
    yield to_chat_message(messages[prompts[-1]])
    rest = messages[prompts[-1] + 1 :]
    for at, each in enumerate(rest):
        is_last = at == len(rest) - 1
        if each.role == "tool" or (each.role == "assistant" and (each.tool_calls or is_last)):
            yield to_chat_message(each)


def to_chat_message(message: Message) -> ChatMessage:
    """A message of a trace as a model is told it."""
    if message.role == "tool":
        return ChatMessage(role="tool", text=message.text, tool_call_id=message.tool_call_id, name=message.name)
    calls = []
    for call in message.tool_calls:
        arguments: Any = call.arguments
        with suppress(ValueError):
            arguments = read_json(call.arguments)
        calls.append(ToolCall(id=call.id, name=call.name, arguments=arguments))
    return ChatMessage(role=message.role, text=message.text, tool_calls=tuple(calls))
