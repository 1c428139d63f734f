"""The trace as DataFrames (T20, T21): made at first use, kept, never changed by us.

The one place where a trace meets pandas; what the columns are is in `schema`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ensemble_notebook.domain.choice import SpanStatus
from ensemble_notebook.trace.fold import TraceFold
from ensemble_notebook.trace.schema import ATTEMPTS, ERRORS, LLM_CALLS, MESSAGES, PHASES, SPANS, TASKS, TOOL_CALLS
from ensemble_notebook.trace.span import Message, Span, SpanKind
from ensemble_notebook.trace.table import frame


class Frames:
    """The frames of one run; ``help(Frames)`` lists the columns of each.

    Rows are in order of start, then of event number; what never ran comes last. Each row names its agent, task and
    phase, so that most questions are one line. The time each agent waited for tools, and the tokens it spent on calls
    that asked for them::

        frames.llm_calls.groupby("agent")[["tool_wait_ms"]].sum()
        frames.llm_calls.query("tool_call_count > 0").groupby("agent")["total_tokens"].sum()

    Args:
        fold: of a run, over or not; each frame shows it as it was when the frame was first used.
    """

    def __init__(self, fold: TraceFold) -> None:
        self._fold = fold

    @frame(SPANS)
    def spans(self) -> Sequence[Span]:
        return self._spans(*SpanKind)

    @frame(PHASES)
    def phases(self) -> Sequence[Span]:
        return self._spans(SpanKind.PHASE)

    @frame(TASKS)
    def tasks(self) -> Sequence[Span]:
        return self._spans(SpanKind.TASK)

    @frame(LLM_CALLS)
    def llm_calls(self) -> Sequence[Span]:
        return self._spans(SpanKind.LLM)

    @frame(ATTEMPTS)
    def attempts(self) -> Sequence[Span]:
        return self._spans(SpanKind.ATTEMPT)

    @frame(TOOL_CALLS)
    def tool_calls(self) -> Sequence[Span]:
        return self._spans(SpanKind.TOOL)

    @frame(MESSAGES)
    def messages(self) -> Sequence[Message]:
        with self._fold.lock:
            said = [message for task in self._fold.messages.values() for message in task]
        return sorted(said, key=lambda message: message.number)

    @frame(ERRORS)
    def errors(self) -> Sequence[Span]:
        failed = [span for span in self._spans(*SpanKind) if span.status is SpanStatus.ERROR]
        return sorted(failed, key=lambda span: span.end_seq or 0)

    def _spans(self, *kinds: SpanKind) -> list[Span]:
        with self._fold.lock:
            chosen = [span for span in self._fold.spans.values() if span.kind in kinds]
        return sorted(chosen, key=lambda span: (math.inf if span.start_ms is None else span.start_ms, span.seq))

    def __repr__(self) -> str:
        """What there is."""
        names = [name for name in vars(type(self)) if not name.startswith("_")]
        return f"Frames({', '.join(names)})"
