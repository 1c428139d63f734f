"""Guardrails: functions that look at what goes into a task and what comes out of it (E18)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from ensemble_notebook.domain.outputs.record import Record


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GuardrailResult(Record):
    """What a guardrail may return if None, True or a text is not clear enough.

    Attributes:
        is_success: False stops the task.
        message: the reason, for the user and the trace.
    """

    is_success: bool
    message: str = ""

    @classmethod
    def success(cls) -> GuardrailResult:
        """Let it pass."""
        return cls(is_success=True)

    @classmethod
    def failure(cls, message: str) -> GuardrailResult:
        """Stop the task.

        Args:
            message: the reason.
        """
        return cls(is_success=False, message=message)


GuardrailAnswer = GuardrailResult | str | bool | None
# What a guardrail, plain or async, may return: None or True lets the task go on, a text is an objection.
GuardrailReturn = GuardrailAnswer | Awaitable[GuardrailAnswer]
