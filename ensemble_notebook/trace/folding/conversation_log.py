"""What agents and models said to each other, task by task (T5), secrets masked (T7)."""

from __future__ import annotations

from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import Message, RequestedCall, Role, Span


class ConversationLog:
    """The messages of a run.

    Attributes:
        messages: of each task, by its span id, in order.
    """

    def __init__(self) -> None:
        self.messages: dict[str, list[Message]] = {}
        self._count = 0

    def add(self, event: Event, span: Span, role: Role, text: str, tool_calls: tuple[RequestedCall, ...] = ()) -> str:
        """Note a message that arose in a span; gives its text as it may be shown."""
        safe = clean_text(text)
        message = Message(
            number=self._count, span=span, seq=event.seq, time=event.time, role=role, text=safe, tool_calls=tool_calls
        )
        self._count += 1
        self.messages.setdefault(span.task_id or span.span_id, []).append(message)
        return safe
