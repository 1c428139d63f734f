"""What a script for a model is made of (E41): replies, tool calls and failures, with delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
    """A scripted reply: a text, tool calls, or both.

    Attributes:
        text: what the model says.
        calls: the tool calls that it asks for.
        delay: seconds before the reply; a stream spreads them over its words.
    """

    text: str = ""
    calls: Sequence[ToolUse] = ()
    delay: float = 0.0


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
