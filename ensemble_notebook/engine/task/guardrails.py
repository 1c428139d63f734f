"""Guardrails at work: each looks, the first that objects stops the task (E18)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.guardrail import GuardrailResult
from ensemble_notebook.domain.events import GuardrailEnded, GuardrailStarted
from ensemble_notebook.engine.events.broken_callables import BrokenCallables
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import GuardrailViolationError, summarize_error

GuardrailKind = Literal["input", "output"]


async def run_guardrails(
    kind: GuardrailKind,
    guardrails: Sequence[Callable[..., Any]],
    subject: Any,
    caller: FunctionCaller,
    task: SpanEmitter,
    broken_callables: BrokenCallables,
) -> None:
    """Ask the guardrails about the `TaskInput` or `TaskOutput` of a task, in order.

    A guardrail whose answer has a wrong shape objects, and is warned of (E59).

    Raises:
        GuardrailViolationError: the first objection; a guardrail that raises objects, too.
    """
    for guardrail in guardrails:
        name = getattr(guardrail, "__name__", type(guardrail).__name__)
        span = task.child()
        span.emit(GuardrailStarted, kind=kind, name=name)
        cause: Exception | None = None
        try:
            with CallingSpan(span):
                answer = await caller.call(f"guardrail {name}", guardrail, subject)
            objection = _read_objection(answer)
            if objection is not None and not isinstance(answer, bool | str | GuardrailResult):
                message = f"Guardrail {name!r} is broken: {objection}. That counts as an objection."
                broken_callables.warn_once(("guardrail", id(guardrail)), message, task)
        except asyncio.CancelledError:
            span.emit(GuardrailEnded, status=SpanStatus.CANCELLED)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it raises is an objection
            cause, objection = error, summarize_error(error)
        if objection is not None:
            span.emit(GuardrailEnded, status=SpanStatus.ERROR, message=objection, error=cause)
            raise GuardrailViolationError(kind, objection) from cause
        span.emit(GuardrailEnded, status=SpanStatus.OK)


def _read_objection(answer: Any) -> str | None:
    """What a guardrail has against it; None where nothing."""
    if answer is None or answer is True:
        return None
    if isinstance(answer, GuardrailResult):
        return None if answer.is_success else str(answer.message or "no reason given")
    if isinstance(answer, str):
        return answer or "no reason given"
    if answer is False:
        return "it returned False"
    return f"it must return None, True, a text or a GuardrailResult, and returned {type(answer).__name__}"
