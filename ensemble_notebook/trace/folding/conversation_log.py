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
        self._last = ("", "")

    def add(
        self,
        event: Event,
        span: Span,
        role: Role,
        text: str,
        tool_calls: tuple[RequestedCall, ...] = (),
        *,
        is_earlier: bool = False,
    ) -> str:
        """Note a message that arose in a span; gives its text as it may be shown."""
        safe = self.clean(text)
        self._last = (text, safe)
        message = Message(
            number=self._count,
            span=span,
            seq=event.seq,
            time=event.time,
            role=role,
            text=safe,
            tool_calls=tool_calls,
            is_earlier=is_earlier,
        )
        self._count += 1
        self.messages.setdefault(span.task_id or span.span_id, []).append(message)
        return safe

    def clean(self, text: str) -> str:
        """The text as it may be shown. The output of a task mostly is its last message, which is not masked again."""
        raw, safe = self._last
        return safe if text == raw else clean_text(text)
