"""Asks a person, or what stands for one, one question at a time, whichever runs ask (E27, E45)."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ExitReason, OnTimeout, SpanStatus
from ensemble_notebook.domain.definitions.review import (
    NOBODY_HERE,
    NOBODY_TO_ASK,
    ON_TIMEOUT,
    ReviewAnswer,
    ReviewDecision,
    ReviewHandler,
    ReviewRequest,
    Verdict,
    name_reviewer,
)
from ensemble_notebook.domain.events import ReviewAnswered, ReviewRequested
from ensemble_notebook.domain.seams.chat_port import CallLeftPending, set_asking_span
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.engine.task_lifecycle import abandonment_in
from ensemble_notebook.errors import BudgetExceededError, EnsembleError, ReviewTimeoutError, did_you_mean

_BY_DEFAULT: Final = {
    OnTimeout.EXIT_EARLY: ReviewDecision.exit_early(),
    OnTimeout.CONTINUE: ReviewDecision.approve(),
}
_CONSEQUENCES: Final = {
    OnTimeout.EXIT_EARLY: "the run ends early",
    OnTimeout.CONTINUE: "it goes on as it is",
    OnTimeout.FAIL: "it counts as failed",
}
"""Of a review that nobody answers."""


def describe_consequence(request: ReviewRequest) -> str:
    """What happens if nobody answers, as a sentence without its end."""
    if request.call_id is not None:
        return "it is not made, and waits for an answer"
    return _CONSEQUENCES[request.on_timeout]


_LEFT: Final = {
    NOBODY_TO_ASK: (ExitReason.NOBODY_TO_ASK, "nobody could be asked"),
    ON_TIMEOUT: (ExitReason.USER_EXIT_EARLY, "nobody answered in time"),
}
_SOMEBODY_LEFT: Final = (ExitReason.USER_EXIT_EARLY, "somebody chose to leave the run")


class ReviewQueue:
    """Where all reviews of one run are asked for: one question at a time, in the order in which they come up.

    Args:
        services: of the run. Where its spec has no review handler, the `on_timeout` of each gate decides at once; its
            source answers in place of all reviewers, where it is a recording.
        row: name of the row that the run is part of, in a map; None elsewhere.

    Attributes:
        row: as above.
        left: why the run was ended by a review, in words; None as long as it was not.
    """

    def __init__(self, services: RunServices, row: str | None) -> None:
        self._services = services
        self._handler = services.spec.review_handler
        self.row = row
        self._is_late = False  # nobody has answered about a call in time, so nobody is asked about others
        self._unanswered: set[str | None] = set()  # tools whose questions it was said of that nobody answers them
        self.left: str | None = None

    @functools.cached_property
    def _lock(self) -> asyncio.Lock:
        """Made for the first question, since most runs ask none."""
        return asyncio.Lock()

    @property
    def has_handler(self) -> bool:
        """Whether there is anybody to ask, or a recording that answers."""
        return self._handler is not None or self._services.source.has_reviews

    @property
    def handler(self) -> ReviewHandler | None:
        """Whoever decides about the tasks of the run; None where nobody can be asked."""
        return self._handler.handler if isinstance(self._handler, SharedReviewer) else self._handler

    def warn_of_question(self, who: str) -> None:
        """Say that an agent had a question, and nobody could be asked."""
        self._services.warn(f"{who} had a question for a person, and {NOBODY_HERE}.")

    async def ask(
        self,
        request: ReviewRequest,
        around: SpanEmitter,
        handler: ReviewHandler | None = None,
        find_given: Callable[[], ReviewAnswer | None] = lambda: None,
    ) -> ReviewAnswer:
        """The answer to a request, in a span inside `around`, after all questions before it are answered.

        Args:
            request: what to ask.
            around: the task, phase or tool call that it is about.
            handler: whom to ask instead of the run's own, e.g. the reviewer of a phase.
            find_given: finds the answer that somebody has given before, once it has its turn; then nobody is asked.

        Raises:
            CallLeftPending: it is about a call of a reviewed tool, and nobody answered in time, or could be asked.
            ReviewTimeoutError: nobody answered in time, or could be asked, and `on_timeout` is *fail*.
            EnsembleError: the handler gave something else than a `ReviewDecision`.
            Exception: what the handler raised.
        """
        async with self._lock:
            reviewer, given = handler or self._handler, find_given()
            if self.left is not None and reviewer is not None and given is None:  # who has left is not asked again
                return ReviewAnswer(ReviewDecision.exit_early())
            request = dataclasses.replace(request, row=self.row)
            # One who is asked by other runs, too, is waited for.
            shared = reviewer if isinstance(reviewer, SharedReviewer) and given is None else None
            async with nullcontext() if shared is None else shared.turn():
                ask = functools.partial(self._get_answer, request, reviewer, given)
                asking = functools.partial(self._services.source.review, request, ask)
                if request.call_id is not None:  # an answer counts once: none of a recording or an earlier run does
                    asking = ask
                answer = await self._ask(request, around.child(), asking)
            if answer.decision.verdict is Verdict.EXIT_EARLY:
                reason, self.left = _LEFT.get(answer.by or "", _SOMEBODY_LEFT)
                self._services.exit_early(reason, self.left)
            is_empty = request.subject == "question" and answer.decision.verdict is Verdict.APPROVE
            if is_empty and request.tool not in self._unanswered:
                self._unanswered.add(request.tool)
                self._services.warn(
                    f"A question of {request.tool} for a person, in task {request.task!r}, was left without an answer: "
                    f"{answer.by or 'its review'} said 'approve', which gives none. A review_handler answers with "
                    f"ReviewDecision.edit('TEXT') where request.subject is 'question'."
                )
            return answer

    async def ask_without_waiting(
        self, request: ReviewRequest, around: SpanEmitter, reviewer: ReviewHandler
    ) -> ReviewDecision:
        """As `ask`, of somebody who is no person: nobody has to wait for the answer before asking something else."""
        asking = functools.partial(self._get_answer, request, reviewer)
        return (await self._ask(request, around.child(), asking)).decision

    async def _ask(
        self, request: ReviewRequest, span: SpanEmitter, asking: Callable[[], Awaitable[ReviewAnswer]]
    ) -> ReviewAnswer:
        set_asking_span(span.span_id)
        span.emit(ReviewRequested, request=request)
        asked_at = span.stream.offset_s()
        answer: ReviewAnswer | None = None
        fault: BaseException | None = None
        status, by = SpanStatus.ERROR, None
        try:
            with CallingSpan(span):
                answer = await asking()
            status, by = SpanStatus.OK, answer.by
        except asyncio.CancelledError as stopped:
            status, fault = SpanStatus.CANCELLED, stopped
            raise
        except Exception as error:
            fault = error
            if isinstance(error, ReviewTimeoutError):
                by = ON_TIMEOUT if error.timeout_s else NOBODY_TO_ASK
            if isinstance(error, CallLeftPending):
                by, status, fault = error.by, SpanStatus.SKIPPED, None
            if (abandonment := abandonment_in(error)) is not None:  # nothing broke: it is not to go on
                status = SpanStatus.SKIPPED
                fault = abandonment if isinstance(abandonment, BudgetExceededError) else None
            raise
        finally:
            span.emit(
                ReviewAnswered,
                decision=None if answer is None else answer.decision,
                waited_s=span.stream.offset_s() - asked_at,
                is_timeout=by == ON_TIMEOUT,
                reused=answer is not None and answer.is_kept,
                status=status,
                error=fault,
                by=by,
            )
            if by == NOBODY_TO_ASK and self.left is None and request.call_id is None:
                about = f"The review of {_describe(request)} was not answered, so {describe_consequence(request)}"
                self._services.warn(f"{about}: {NOBODY_HERE}.")
        return answer

    async def _get_answer(
        self, request: ReviewRequest, handler: ReviewHandler | None, given: ReviewAnswer | None = None
    ) -> ReviewAnswer:
        """What was `given`, or the reviewer decides, or `on_timeout` where time runs out, or nobody is there."""
        if given is not None:
            return given
        label, by, late_s = f"review of {_describe(request)}", NOBODY_TO_ASK, 0.0
        is_call = request.call_id is not None
        if handler is not None and not (is_call and self._is_late):
            shared = handler if isinstance(handler, SharedReviewer) else None
            if shared is not None and (known := shared.find_answer(request)) is not None:
                return ReviewAnswer(*known)
            function = handler if shared is None else shared.handler
            limit = asyncio.timeout(request.timeout)
            try:
                async with limit:
                    decision = _check_decision(request, await self._services.caller.call(label, function, request))
                if shared is not None:
                    shared.keep_answer(request, decision)
                return ReviewAnswer(decision, name_reviewer(function))
            except TimeoutError:  # a handler raises it, too, where nobody can be asked
                if limit.expired():
                    by, late_s = ON_TIMEOUT, request.timeout or 0.0
        if is_call:
            self._is_late = self._is_late or by == ON_TIMEOUT
            raise CallLeftPending(by)
        made = _BY_DEFAULT.get(request.on_timeout)
        if made is None:
            reason = f" within {late_s} s. Raise the review's timeout." if late_s else f": {NOBODY_HERE}."
            raise ReviewTimeoutError(f"Nobody answered the {label}{reason}", request=request, timeout_s=late_s)
        return ReviewAnswer(made, by)


def _describe(request: ReviewRequest) -> str:
    """What is reviewed, in a word."""
    return f"{request.task or request.phase}"


def _check_decision(request: ReviewRequest, answer: Any) -> ReviewDecision:
    """A decision that can be carried out; silence is none."""
    if not isinstance(answer, ReviewDecision):
        raise EnsembleError(
            f"A review handler must return a ReviewDecision, such as ReviewDecision.approve(); this one returned "
            f"{type(answer).__name__}."
        )
    # Feedback must be for tasks that are looked at.
    unknown = next((name for name, _ in answer.addressed if name not in request.tasks), None)
    if unknown is None:
        return answer
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


_FOR_ALL = (Verdict.APPROVE, Verdict.REJECT, Verdict.EXIT_EARLY)


class SharedReviewer:
    """Has the runs that ask wait for their turn, so that one question is shown at a time, whichever loops they are on.

    The clock of a question runs once it has its turn. In a map, one answer may be for the same gate in all rows, but
    for a call of a reviewed tool, of which each row has other arguments.

    Args:
        handler: decides.
    """

    def __init__(self, handler: ReviewHandler) -> None:
        self.handler = handler
        self._lock = threading.Lock()
        self._waiting: deque[CrossThreadEvent] = deque()
        self._is_taken = False
        self._answers: dict[Any, tuple[ReviewDecision, str]] = {}

    def __call__(self, request: ReviewRequest) -> ReviewDecision | Awaitable[ReviewDecision]:
        """What the handler decides, whoever else asks it."""
        return self.handler(request)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until nobody else asks; others wait until the end of the ``async with`` block."""
        with self._lock:
            mine = CrossThreadEvent() if self._is_taken else None
            if mine is not None:
                self._waiting.append(mine)
            self._is_taken = True
        if mine is not None:
            try:
                await mine
            except BaseException:
                with self._lock:
                    is_still_waiting = mine in self._waiting
                    if is_still_waiting:
                        self._waiting.remove(mine)
                if not is_still_waiting:  # it was given its turn while it was cancelled
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                if self._waiting.popleft().set():  # else its loop is closed, and nobody waits any more
                    return
            self._is_taken = False

    def find_answer(self, request: ReviewRequest) -> tuple[ReviewDecision, str] | None:
        """What was decided about this gate for all rows, and by whom; None where it is to be asked."""
        return self._answers.get(_find_gate(request)) if request.may_be_for_all else None

    def keep_answer(self, request: ReviewRequest, decision: ReviewDecision) -> None:
        """Remember a decision that is for all rows. A text that was edited or sent back is that of one row alone."""
        if decision.for_all and request.may_be_for_all and decision.verdict in _FOR_ALL:
            self._answers[_find_gate(request)] = decision, name_reviewer(self.handler)


def _find_gate(request: ReviewRequest) -> tuple[object, ...]:
    return request.subject, request.task, request.phase, request.tool
