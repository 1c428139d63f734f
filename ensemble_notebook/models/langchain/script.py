"""What a script for a model is made of (E41): replies, tool calls and failures, with delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage


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
        """Say what a provider would."""
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
        """Make what is raised."""
        if isinstance(self.error, int):
            return ScriptedError(self.error, self.retry_after)
        return self.error() if isinstance(self.error, type) else self.error


ScriptEntry = str | Reply | ToolUse | Fail | BaseException | Callable[[Sequence[BaseMessage]], Any]
