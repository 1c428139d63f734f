"""The span of one turn: one reply of the model, and the tool calls that it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import TurnEnded, TurnStarted
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.events.event_stream import SpanEmitter


@contextmanager
def turn_span(request: AgentRequest, task: SpanEmitter, number: int, **facts: Any) -> Iterator[SpanEmitter]:
    """Emit the start and the end of a turn around what is done in it.

    Args:
        request: what the agent works on.
        task: the span around the turn.
        number: of the turn, from 1.
        facts: of `TurnStarted`, where it goes on after a result: the prompt, and whether it is a correction.
    """
    turn = task.child()
    turn.emit(TurnStarted, agent=request.agent.role, iteration=number, is_fallback=request.is_fallback, **facts)
    status = SpanStatus.ERROR
    try:
        yield turn
        status = SpanStatus.OK
    except asyncio.CancelledError:
        status = SpanStatus.CANCELLED
        raise
    finally:
        turn.emit(TurnEnded, status=status)
