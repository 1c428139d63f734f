"""The attempts of phases: one record for each time that a phase was done (E28, T21)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ensemble_notebook.domain.definitions.enums import PhaseStatus
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.usage_totals import UsageTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseAttempt:
    """One time that a phase was done; the attributes are the columns.

    Attributes:
        span: of the phase, all its attempts included.
        attempt: number, from 1; None for a phase that never ran.
        end_ms, end_time: when its review sent it back, or the phase ended.
        totals: what belongs to this attempt alone, its review included.
        feedback: with which its review sent it back; None for the last attempt.
    """

    span: Span
    attempt: int | None
    start_ms: float | None
    start_time: datetime | None
    end_ms: float | None
    end_time: datetime | None
    totals: UsageTotals | None
    feedback: str | None = None

    @property
    def span_id(self) -> str:
        """The id of the phase's span, the same for all its attempts."""
        return self.span.span_id

    @property
    def phase(self) -> str | None:
        """The name of the phase."""
        return self.span.phase

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The names of its predecessors."""
        return self.span.depends_on

    @property
    def status(self) -> str | None:
        """A `PhaseStatus`; None before the end. What was sent back had completed: its review is another matter."""
        found = PhaseStatus.COMPLETED if self.feedback is not None else self.span.phase_status
        return None if found is None else found.value

    @property
    def duration_ms(self) -> float | None:
        """From its start to its end, the review included."""
        return None if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms

    @property
    def error_type(self) -> str | None:
        """The class of the error with which the phase ended; of the last attempt alone."""
        return None if self.feedback is not None else self.span.error_type

    @property
    def error_message(self) -> str | None:
        """The text of that error."""
        return None if self.feedback is not None else self.span.error_message

    @property
    def reason(self) -> str | None:
        """Why the phase was skipped."""
        return self.span.reason

    @property
    def currency(self) -> str | None:
        """Of its cost."""
        return self.span.currency

    @property
    def critical(self) -> bool | None:
        """Whether the phase, as a whole, is on the longest chain."""
        return self.span.critical

    @property
    def slack_ms(self) -> float | None:
        """How much later the phase could have ended."""
        return self.span.slack_ms


def list_phase_attempts(phases: Iterable[Span]) -> list[PhaseAttempt]:
    """The attempts of these phases, in order of phases and then of attempts; one for a phase that never ran."""
    return [attempt for span in phases for attempt in _list_attempts(span)]


def _list_attempts(span: Span) -> Iterable[PhaseAttempt]:
    start_ms, start_time = span.start_ms, span.start_time
    for number, returned in enumerate(span.returns, start=1):
        yield PhaseAttempt(
            span=span,
            attempt=number,
            start_ms=start_ms,
            start_time=start_time,
            end_ms=returned.end_ms,
            end_time=returned.end_time,
            totals=returned.totals,
            feedback=returned.feedback,
        )
        start_ms, start_time = returned.end_ms, returned.end_time
    yield PhaseAttempt(
        span=span,
        attempt=None if span.start_ms is None else len(span.returns) + 1,
        start_ms=start_ms,
        start_time=start_time,
        end_ms=span.end_ms,
        end_time=span.end_time,
        totals=span.attempt_totals,
    )
