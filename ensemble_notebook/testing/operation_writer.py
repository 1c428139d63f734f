"""The other steps of a task in a stream written by hand: reviews, guardrails, memory, and work that is done again."""

from __future__ import annotations

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import OnTimeout, SpanStatus
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest, ReviewSubject
from ensemble_notebook.errors import GuardrailViolationError, ReviewTimeoutError
from ensemble_notebook.testing.event_writer import EventWriter


class OperationWriter(EventWriter):
    """Writes what surrounds the model's work."""

    def review(
        self,
        decision: ReviewDecision | None = None,
        *,
        subject: ReviewSubject = "output",
        text: str = "Shall it stay?",
        seconds: float = 1.0,
        timeout: float | None = 300.0,
        on_timeout: OnTimeout = OnTimeout.EXIT_EARLY,
        hangs: bool = False,
    ) -> None:
        """A person is asked, where we are, and answers after so many seconds; without a decision, in good time never.

        What follows from the decision is yours to write: `again`, `skip`, ...
        """
        request = ReviewRequest(
            subject=subject,
            text=text,
            task=self._scope.task,
            phase=self._scope.phase,
            agent=self._roles.get(self._scope.task or "", ""),
            timeout=timeout,
            on_timeout=on_timeout,
        )
        failure = None
        if decision is None and on_timeout is OnTimeout.FAIL and not hangs:
            failure = ReviewTimeoutError("Nobody answered.", request=request, timeout_s=seconds)

        def end(status: SpanStatus) -> None:
            answer = None if status is SpanStatus.CANCELLED else decision
            self._emit(
                ev.ReviewAnswered,
                decision=answer,
                waited_s=seconds,
                is_timeout=decision is None,
                status=status,
                error=failure,
            )

        with self._inside(self._child()) as scope:
            scope.end = end
            self._emit(ev.ReviewRequested, request=request)
            self.wait(seconds)
            if failure is not None:
                self.fail(failure)
            if hangs:
                self._hang()

    def guardrail(self, name: str, kind: str = "output", *, violation: str = "", seconds: float = 0.0) -> None:
        """A guardrail looks at the task; a violation makes the task fail."""
        with self._inside(self._child()) as scope:
            self._emit(ev.GuardrailStarted, kind=kind, name=name)
            scope.end = lambda status: self._emit(ev.GuardrailEnded, status=status, message=violation)
            self.wait(seconds)
            if violation:
                self.fail(GuardrailViolationError(kind, violation))

    def memory(
        self,
        operation: str,
        scope: str,
        *,
        count: int = 1,
        seconds: float = 0.0,
        error: BaseException | None = None,
        store_kind: str = "long_term",
    ) -> None:
        """A scope of the memory is read (``"retrieve"``) or written (``"store"``); its failure stops nothing."""
        with self._inside(self._child()) as inside:
            inside.contains_failure = True
            inside.error = error
            self._emit(ev.MemoryStarted, operation=operation, scope=scope, store_kind=store_kind)
            found = 0 if error is not None else count
            inside.end = lambda status: self._emit(ev.MemoryEnded, status=status, count=found, error=error)
            self.wait(seconds)

    def again(self, feedback: str, attempt: int = 2) -> None:
        """The task that we are in is sent back: what follows is its next attempt."""
        self._emit_in(self._work, ev.TaskRetried, attempt=attempt, feedback=feedback)
        self._emit_in(
            self._work, ev.TaskInputPrepared, system_prompt="", user_prompt=f"Once more: {feedback}", context=()
        )

    def phase_again(self, feedback: str, attempt: int = 2) -> None:
        """The phase that we are in is sent back: what follows are its tasks once more, in the same blocks."""
        self._emit(ev.PhaseRetried, attempt=attempt, feedback=feedback)

    def fall_back(self, role: str) -> None:
        """The task that we are in has failed, and another agent takes over."""
        work = self._work
        error = work.error or RuntimeError("no luck")
        for scope in work.outwards():
            if scope.error is error:
                scope.error = None
        self._emit_in(work, ev.TaskFellBack, agent=role, error=error, replaced=self._roles.get(work.task or "", ""))
        work.is_fallback = True
        self._roles[work.task or ""] = role

    def give_up(self, reason: str) -> None:
        """The task that we are in will not go on: it ends as skipped, e.g. since the budget is used up."""
        work = self._work
        work.end = lambda status: self._emit_skipped(status, reason)

    def _emit_skipped(self, status: SpanStatus, reason: str) -> None:
        """The end of a task that was given up, however it comes."""
        if status is SpanStatus.CANCELLED:
            self._emit(ev.TaskFailed, agent=self._role, error=KeyboardInterrupt(), status=status)
        else:
            self._emit(ev.TaskSkipped, reason=reason)
