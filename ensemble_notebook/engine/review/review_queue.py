"""Asks a person, or what stands for one, one question at a time (E27, E45)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import OnTimeout, SpanStatus
from ensemble_notebook.domain.definitions.review import (
    ReviewAnswer,
    ReviewDecision,
    ReviewHandler,
    ReviewRequest,
    Verdict,
)
from ensemble_notebook.domain.events import ReviewAnswered, ReviewRequested
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.lifecycle.task_abandonment import abandonment_in
from ensemble_notebook.engine.threads.function_caller import FunctionCaller
from ensemble_notebook.errors import BudgetExceededError, EnsembleError, ReviewTimeoutError, did_you_mean

_BY_DEFAULT: Final = {
    OnTimeout.EXIT_EARLY: ReviewDecision.exit_early(),
    OnTimeout.CONTINUE: ReviewDecision.approve(),
}


class ReviewQueue:
    """Where all reviews of one run are asked for: one question at a time, in the order in which they come up.

    Args:
        handler: the ensemble's `review_handler`; None where nobody can be asked, and then there are no gates.
        caller: calls it.
        exit_early: called when somebody chose to leave (E27).
        source: answers in place of all reviewers, where it is a recording (E42).
    """

    def __init__(
        self,
        handler: ReviewHandler | None,
        caller: FunctionCaller,
        exit_early: Callable[[], None],
        source: ChatSource,
    ) -> None:
        self._handler = handler
        self._source = source
        self._caller = caller
        self._exit_early = exit_early
        self._has_left = False

    @functools.cached_property
    def _lock(self) -> asyncio.Lock:
        """Made for the first question, since most runs ask none."""
        return asyncio.Lock()

    @property
    def has_handler(self) -> bool:
        """Whether there is anybody to ask, or a recording that answers."""
        return self._handler is not None or self._source.has_reviews

    async def ask(
        self, request: ReviewRequest, around: SpanEmitter, handler: ReviewHandler | None = None
    ) -> ReviewDecision:
        """The decision about a request, in a span inside `around`, after all questions before it are answered.

        Args:
            request: what to ask.
            around: the task, phase or tool call that it is about.
            handler: whom to ask instead of the run's own, e.g. the reviewer of a phase.

        Raises:
            ReviewTimeoutError: nobody answered in time, and `on_timeout` is *fail*.
            EnsembleError: the handler gave something else than a `ReviewDecision`.
            Exception: what the handler raised.
        """
        async with self._lock:
            if self._has_left:  # one who has left is not asked again
                return ReviewDecision.exit_early()
            reviewer = handler or self._handler
            ask = functools.partial(self._get_answer, request, reviewer)
            asking = functools.partial(self._source.review, request, ask)
            decision = await self._ask(request, around.child(), asking)
            if decision.verdict is Verdict.EXIT_EARLY:
                self._has_left = True
                self._exit_early()
            return decision

    async def ask_without_waiting(
        self, request: ReviewRequest, around: SpanEmitter, reviewer: ReviewHandler
    ) -> ReviewDecision:
        """As `ask`, of somebody who is no person: nobody has to wait for the answer before asking something else."""
        return await self._ask(request, around.child(), functools.partial(self._get_answer, request, reviewer))

    async def _ask(
        self, request: ReviewRequest, span: SpanEmitter, asking: Callable[[], Awaitable[ReviewAnswer]]
    ) -> ReviewDecision:
        span.emit(ReviewRequested, request=request)
        asked_at = span.stream.offset_s()
        decision: ReviewDecision | None = None
        fault: BaseException | None = None
        status, is_timeout, reused = SpanStatus.ERROR, False, False
        try:
            with CallingSpan(span):
                decision, is_timeout, reused = await asking()
            status = SpanStatus.OK
        except asyncio.CancelledError as stopped:
            status, fault = SpanStatus.CANCELLED, stopped
            raise
        except Exception as error:
            fault, is_timeout = error, isinstance(error, ReviewTimeoutError)
            if (abandonment := abandonment_in(error)) is not None:  # nothing broke: it is not to go on
                status = SpanStatus.SKIPPED
                fault = abandonment if isinstance(abandonment, BudgetExceededError) else None
            raise
        finally:
            span.emit(
                ReviewAnswered,
                decision=decision,
                waited_s=span.stream.offset_s() - asked_at,
                is_timeout=is_timeout,
                reused=reused,
                status=status,
                error=fault,
            )
        return decision

    async def _get_answer(self, request: ReviewRequest, handler: ReviewHandler | None) -> ReviewAnswer:
        """What the reviewer decides, or `on_timeout` where time runs out."""
        if handler is None:
            raise EnsembleError("There is nobody to ask: give the ensemble a review_handler.")
        limit = asyncio.timeout(request.timeout)
        label = f"review of {request.task or request.phase}"
        try:
            async with limit:
                return ReviewAnswer(_check_decision(request, await self._caller.call(label, handler, request)))
        except TimeoutError as error:  # a handler raises it, too, where nobody can be asked
            is_late = limit.expired()
            reason = f" within {request.timeout} s. Raise the review's timeout." if is_late else f": {error}"
        decision = _BY_DEFAULT.get(request.on_timeout)
        if decision is None:
            message = f"Nobody answered the {label}{reason}"
            raise ReviewTimeoutError(message, request=request, timeout_s=request.timeout or 0.0)
        return ReviewAnswer(decision, is_timeout=True)


def _check_decision(request: ReviewRequest, answer: Any) -> ReviewDecision:
    """A decision that can be carried out; silence is none (E28)."""
    if isinstance(answer, ReviewDecision):
        _check_addresses(request, [name for name, _ in answer.addressed])
        return answer
    raise EnsembleError(
        f"A review handler must return a ReviewDecision, such as ReviewDecision.approve(); this one returned "
        f"{type(answer).__name__}."
    )


def _check_addresses(request: ReviewRequest, names: Sequence[str]) -> None:
    """Feedback must be for tasks that are looked at (E46)."""
    unknown = next((name for name in names if name not in request.tasks), None)
    if unknown is None:
        return
    if not request.tasks:
        raise EnsembleError(
            f"The retry addresses {unknown!r}, but only the review of a phase may address tasks: "
            f"here write ReviewDecision.retry('what is to be done better')."
        )
    valid = ", ".join(map(repr, request.tasks))
    raise EnsembleError(
        f"The retry addresses {unknown!r}, which is no task of phase {request.phase!r}."
        f"{did_you_mean(unknown, request.tasks)} Its tasks are {valid}."
    )
