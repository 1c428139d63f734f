"""One message of the conversation between a task's agent and its model (E55)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ensemble_notebook.domain.outputs.record import Record

ChatRole = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ChatMessage(Record):
    """A message of a conversation.

    Attributes:
        role: ``"system"``, ``"user"`` for a prompt, or ``"assistant"`` for a final reply.
        text: what was said.
    """

    role: ChatRole
    text: str

    def __str__(self) -> str:
        """Role and text."""
        return f"{self.role}: {self.text}"


Messages = tuple[ChatMessage, ...]


def make_conversation(system: str, earlier: Sequence[ChatMessage], prompt: str, reply: str) -> Messages:
    """The conversation after an exchange: the present system prompt, what was said earlier, prompt and reply."""
    return (
        ChatMessage(role="system", text=system),
        *strip_system(earlier),
        ChatMessage(role="user", text=prompt),
        ChatMessage(role="assistant", text=reply),
    )


def strip_system(messages: Sequence[ChatMessage]) -> Messages:
    """The prompts and replies of a conversation, without its system prompt."""
    return tuple(each for each in messages if each.role != "system")
