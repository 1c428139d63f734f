"""Asks the person at a cell for a running run: in its timeline, or by ``input`` (W13, C35).

A question arises on the run's event loop. The timeline answers it from whatever thread receives its messages. A prompt
needs the main thread, which waits for the run and looks for questions now and then. Knows nothing of how a question is
drawn.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, ReviewPolicy
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest, Verdict
from ensemble_notebook.domain.definitions.tool import human_input
from ensemble_notebook.domain.events import Event, ReviewRequested
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.ensemble.interrupt_guard import InterruptGuard
from ensemble_notebook.ensemble.review_handlers import NOBODY_ERRORS, ask_in_text, describe_question, describe_timeout
from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble import Ensemble

# A page says that it is there when it has opened the timeline, which may be about to happen.
PATIENCE_S: Final = 2.0


def check_questions(ensemble: Ensemble) -> None:
    """Refuse questions to the person at the cell where no text is to be kept: the page would keep it (T6a).

    Raises:
        ValidationError: the ensemble may ask, and has no `review_handler` of its own.
    """
    from ensemble_notebook.domain.planning.ensemble_texts import list_tasks
    from ensemble_notebook.trace.capture import resolve_capture_mode

    if ensemble.review_handler is not None or resolve_capture_mode(ensemble.capture_mode) is not CaptureMode.METADATA:
        return
    tasks = list_tasks(ensemble)
    tools = [tool for each in tasks for owner in (each, each.agent) if owner is not None for tool in owner.tools]
    if ensemble.review_policy is ReviewPolicy.NEVER and human_input not in tools and not any(e.review for e in tasks):
        return
    raise ValidationError(
        "A review at the cell shows texts on the page, which is saved, and capture_mode metadata keeps no text. "
        "Name a function that answers as `review_handler:`, or take another capture_mode."
    )


class CellReviewer:
    """The review handler of one run: `ask`. Also a listener, to know which span a question is drawn as.

    Where nobody can be asked (no page, no input, as under nbconvert or papermill), a question is not waited for: its
    `on_timeout` decides at once, and the cell says so.

    Args:
        has_timeline: a timeline is going to be shown, whose buttons may work.
        has_console: somebody waits in `attend`, so that there can be a prompt.
        is_asked: False where the ensemble has a handler of its own, which is asked instead.

    Attributes:
        wants_tokens: replies are not streamed for it.
        event_types: it hears of these alone.
    """

    wants_tokens: Final = False
    event_types: Final = (ReviewRequested,)

    def __init__(self, *, has_timeline: bool, has_console: bool, is_asked: bool = True) -> None:
        self.is_asked = is_asked
        self._has_timeline = has_timeline
        self._has_console = has_console
        self._is_heard = False
        self._lock = threading.Lock()
        self._question: _Question | None = None
        self._spans: dict[str, ReviewRequest] = {}
        self._early: tuple[str, ReviewDecision] | None = None

    async def ask(self, request: ReviewRequest) -> ReviewDecision:
        """The decision of the person at the cell.

        Raises:
            TimeoutError: nobody can be asked.
        """
        question = _Question(request)
        if not (self._has_console or self._has_timeline):
            question.give_up()
        self._question = question
        try:
            return await asyncio.wrap_future(question.answer)
        finally:
            self._question = None
            question.withdraw()

    # --- The timeline -------------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """A page has sent something while the cell was busy: its buttons do work."""
        self._is_heard = True

    def on_event(self, event: Event) -> None:
        """Note which span a request belongs to."""
        if isinstance(event, ReviewRequested):
            with self._lock:
                self._spans[event.span_id] = event.request
                early, self._early = self._early, None
            if early is not None:
                self.answer(*early)

    def answer(self, span_id: str, decision: ReviewDecision) -> None:
        """Take an answer from the timeline. One to a question that is over changes nothing."""
        with self._lock:
            request = self._spans.get(span_id)
            if request is None:  # the timeline has heard of it before this listener
                self._early = (span_id, decision)
                return
        question = self._question
        if question is not None and question.request is request and decision.verdict in request.verdicts:
            question.settle(decision)

    def text_of(self, span_id: str) -> str | None:
        """All of what is asked, secrets masked, so that it can be edited; None once it is not asked any more."""
        request, question = self._spans.get(span_id), self._question
        return mask(request.text) if question is not None and question.request is request else None

    # --- The prompt ---------------------------------------------------------------------------------------------------

    def attend(self, guard: InterruptGuard, paused: Callable[[], AbstractContextManager[None]]) -> None:
        """Ask by ``input`` what the timeline can't; for the main thread, between two looks at the run.

        Args:
            guard: of the cell; an interrupt at the prompt stops the run.
            paused: a context in which the display does not move.
        """
        question = self._question
        if question is None or self._is_for_timeline(question):
            return
        try:
            with paused(), question.at_prompt(guard):
                decision = ask_in_text(question.request, input, print)
        except KeyboardInterrupt:
            return  # the run is being stopped, or the question was answered elsewhere, or is too late
        except NOBODY_ERRORS:
            question.give_up()
        else:
            question.settle(decision)

    def _is_for_timeline(self, question: _Question) -> bool:
        return self._has_timeline and (self._is_heard or question.age_s < PATIENCE_S)


class _Question:
    """One request, on its way to a person."""

    def __init__(self, request: ReviewRequest) -> None:
        self.request = request
        self.answer: Future[ReviewDecision] = Future()
        self._asked_at = time.monotonic()
        self._recall: Callable[[], None] | None = None

    @property
    def age_s(self) -> float:
        """Seconds since it was asked."""
        return time.monotonic() - self._asked_at

    def settle(self, decision: ReviewDecision) -> None:
        """Take an answer, unless there has been one."""
        with suppress(InvalidStateError):
            self.answer.set_result(decision)

    def give_up(self) -> None:
        """Say that nobody can be asked; then `on_timeout` decides."""
        sys.stdout.write(
            f"{describe_question(self.request)} Nobody can be asked here: {describe_timeout(self.request)}.\n"
        )
        with suppress(InvalidStateError):
            self.answer.set_exception(TimeoutError("Nobody can be asked here."))

    def withdraw(self) -> None:
        """End the question: it is answered, too late or no longer needed. A prompt that still shows it ends, too."""
        self.answer.cancel()
        recall = self._recall
        if recall is not None:
            recall()

    @contextmanager
    def at_prompt(self, guard: InterruptGuard) -> Iterator[None]:
        """Ask inside this context, on the main thread, so that `withdraw` can end the prompt.

        Raises:
            KeyboardInterrupt: from inside; the prompt was interrupted, or the question withdrawn.
        """
        with guard.blocking():
            self._recall = guard.recall
            try:
                if self.answer.done():
                    raise KeyboardInterrupt
                yield
            finally:
                self._recall = None


def read_decision(verdict: Any, text: Any) -> ReviewDecision | None:
    """A decision as the timeline sends it; None for what is none."""
    if verdict not in list(Verdict) or not isinstance(text, str):
        return None
    return ReviewDecision(verdict=Verdict(verdict), text=text)
