"""Asks the person at the place where a run was begun: in its timeline, or by ``input`` (W13, C35, E45).

A question arises on the run's event loop. The timeline answers it from whatever thread receives its messages. A prompt
needs the main thread, which waits for the run and looks for questions now and then, or has the run on its own loop.
Knows nothing of how a question is drawn. What the kernel's interrupt does while a run goes on is here, too (E35).
"""

from __future__ import annotations

import _thread
import asyncio
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import Any, Final, Self

from ensemble_notebook.domain.definitions.review import (
    NOBODY_HERE,
    NOBODY_TO_ASK,
    ReviewDecision,
    ReviewRequest,
    Verdict,
)
from ensemble_notebook.domain.events import Event, ReviewAnswered, ReviewRequested
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.engine.review_queue import SharedReviewer, describe_consequence
from ensemble_notebook.ensemble.argument_form import make_form, read_form
from ensemble_notebook.ensemble.review_handlers import NOBODY_ERRORS, ask_in_text, describe_question
from ensemble_notebook.errors import make_readable, show_hidden_characters

# A page says that it is there when it has opened the timeline, which may be about to happen.
PATIENCE_S: Final = 2.0


def find_person() -> Person | None:
    """The person who begins a run here, and waits for it; None where nobody can be asked.

    That is in a cell of a kernel whose frontend allows input, or at a terminal; never on another thread than the main
    one, which alone can be interrupted at a prompt, nor in a process that another Python process has started.
    """
    if threading.current_thread() is not threading.main_thread() or multiprocessing.parent_process() is not None:
        return None
    has_reader: bool | None = render_view("reader", None) if "IPython" in sys.modules else None
    if has_reader is None:  # no kernel
        has_reader = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    return Person(has_timeline=False, has_console=True) if has_reader else None


def is_terminal(stream: Any) -> bool:
    """Whether a stream is there, and a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # none, or closed
        return False


def find_waiting_person(handler: object) -> Person | None:
    """The person whom a review handler asks; None for any other."""
    inner = handler.handler if isinstance(handler, SharedReviewer) else handler
    return inner if isinstance(inner, Person) else None


class Person:
    """The review handler of one run and of those inside. Also a listener, to know which span a question is drawn as.

    Where nobody can be asked after all (no page, no input), a question is not waited for: its `on_timeout` decides at
    once, and the run says so.

    Args:
        has_timeline: a timeline is going to be shown, whose buttons may work.
        has_console: somebody waits in `attend`, so that there can be a prompt.
        is_asked: False where the ensemble has a handler of its own, which is asked instead.

    Attributes:
        is_person: for `name_reviewer`.
        reviewer: itself, for runs that ask one after the other.
        wants_tokens: replies are not streamed for it.
        event_types: it hears of these alone.
    """

    wants_tokens: Final = False
    event_types: Final = (ReviewRequested, ReviewAnswered)
    is_person: Final = True

    def __init__(self, *, has_timeline: bool, has_console: bool, is_asked: bool = True) -> None:
        self.is_asked = is_asked
        self._has_timeline = has_timeline
        self._has_console = has_console
        self.reviewer: Final = SharedReviewer(self)
        self._is_heard = False
        self._has_told = False
        self._summon: Callable[[], object] | None = None
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
        if self._summon is not None:
            self._summon()
        try:
            return await asyncio.wrap_future(question.answer)
        finally:
            self._question = None
            question.withdraw()

    __call__ = ask

    # --- The timeline -------------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """A page has sent something while the cell was busy: its buttons do work."""
        self._is_heard = True

    def on_event(self, event: Event) -> None:
        """Note which span a request belongs to; say it where nobody could be asked, once."""
        if isinstance(event, ReviewAnswered) and event.by == NOBODY_TO_ASK and not self._has_told:
            self._has_told = True
            request = self._spans.get(event.span_id)
            about = "" if request is None else f"{describe_question(request)} "
            then = "" if request is None else f" So {describe_consequence(request)}."
            why = NOBODY_HERE if self.is_asked else "the review_handler gave no answer"
            sys.stdout.write(make_readable(f"{about}{why[0].upper()}{why[1:]}.{then}\n"))
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

    def tell_all(self, span_id: str) -> dict[str, Any]:
        """What details have of a question: all of its text, of a call its form; nothing once it is not asked any more.

        Secrets are masked, and nothing is hidden.
        """
        request, call = self._find_asked(span_id), self.call_of(span_id)
        if request is None:
            return {}
        return {"input": show_hidden_characters(mask(request.text))} if call is None else {"call": call}

    def call_of(self, span_id: str) -> dict[str, Any] | None:
        """The arguments of a call that is asked about, as a form; None of others, and once it is not asked any more."""
        request = self._find_asked(span_id)
        if request is None or request.arguments is None:
            return None
        fields = make_form(request.arguments, request.parameters or {})
        return {"fields": fields, "is_unknown": request.is_unknown}

    def edit_call(self, span_id: str, changes: Mapping[str, Any]) -> dict[str, str]:
        """Have a call made with other arguments, given as the texts of its form; where they don't fit, say why.

        Returns:
            The faults by field, as of `read_form`. Empty: it is answered, or was over.
        """
        request = self._find_asked(span_id)
        if request is None or request.arguments is None:
            return {}
        arguments, faults = read_form(changes, request.arguments, request.parameters or {})
        if not faults:
            self.answer(span_id, ReviewDecision.edit(arguments))
        return faults

    def _find_asked(self, span_id: str) -> ReviewRequest | None:
        request, question = self._spans.get(span_id), self._question
        return request if question is not None and question.request is request else None

    # --- The prompt ---------------------------------------------------------------------------------------------------

    def attend(self, guard: InterruptGuard, paused: Callable[[], AbstractContextManager[None]]) -> None:
        """Ask by ``input`` what the timeline can't; for the main thread, between two looks at the run.

        Args:
            guard: of the cell; an interrupt at the prompt stops the run.
            paused: a context in which the display does not move.
        """
        question = self._question
        if question is None or (self._has_timeline and (self._is_heard or question.age_s < PATIENCE_S)):
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

    def attend_alone(self, on_interrupt: Callable[[], None]) -> None:
        """As `attend`, for one who holds no guard, and on whose loop the run may be, which waits meanwhile.

        Args:
            on_interrupt: what an interrupt at the prompt does.
        """
        question = self._question
        if question is None or threading.current_thread() is not threading.main_thread():
            return
        with InterruptGuard() as guard:
            guard.call(on_interrupt)
            with question.recalled_in_time(guard):
                self.attend(guard, nullcontext)

    def attend_on(self, loop: asyncio.AbstractEventLoop, on_interrupt: Callable[[], None]) -> None:
        """Ask on this loop of the main thread, on which the run is, as soon as there is a question."""
        self._summon = lambda: loop.call_soon_threadsafe(self.attend_alone, on_interrupt)

    def leave(self) -> None:
        """Nothing is asked on that loop any more."""
        self._summon = None


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
        with suppress(InvalidStateError):
            self.answer.set_exception(TimeoutError(NOBODY_HERE))

    def withdraw(self) -> None:
        """End the question: it is answered, too late or no longer needed. A prompt that still shows it ends, too."""
        self.answer.cancel()
        recall = self._recall
        if recall is not None:
            recall()

    @contextmanager
    def recalled_in_time(self, guard: InterruptGuard) -> Iterator[None]:
        """End the prompt inside this context when its time is over, since the loop that waits for it can't."""
        if self.request.timeout is None:
            yield
            return
        timer = threading.Timer(max(0.0, self.request.timeout - self.age_s), guard.recall)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

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


def read_decision(verdict: Any, text: Any, for_all: Any = False, always: Any = False) -> ReviewDecision | None:
    """A decision as the timeline sends it; None for what is none."""
    if verdict not in list(Verdict) or not isinstance(text, str):
        return None
    may_last = verdict in (Verdict.APPROVE, Verdict.REJECT)
    return ReviewDecision(
        verdict=Verdict(verdict), text=text, for_all=for_all is True, always=may_last and always is True
    )


class InterruptGuard:
    """Turns the first interrupt (or Ctrl-C) into a call of the action. A second one raises, as a last resort.

    An exception that may be raised between any two instructions would tear imports and displays apart, could come
    before there is anything to stop, and is lost where Python happens to be in a destructor.

    On another thread than the main one, which no interrupt reaches, it does nothing.
    """

    def __init__(self) -> None:
        self._on_interrupt: Callable[[], None] | None = None
        self._is_interrupted = False
        self._is_blocking = False
        self._is_recalled = False
        self._give_back: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        """Take over."""
        if threading.current_thread() is threading.main_thread():
            previous = signal.signal(signal.SIGINT, self._interrupt) or signal.SIG_DFL
            self._give_back = partial(signal.signal, signal.SIGINT, previous)
        return self

    def __exit__(self, *_: object) -> None:
        """Give back."""
        if self._give_back is not None:
            self._give_back()

    def call(self, on_interrupt: Callable[[], None]) -> None:
        """What an interrupt does; one that has come already does it now."""
        self._on_interrupt = on_interrupt
        if self._is_interrupted:
            on_interrupt()

    @contextmanager
    def blocking(self) -> Iterator[None]:
        """For what blocks, such as a prompt: inside, an interrupt raises, too, and so does `recall`.

        Raises:
            KeyboardInterrupt: from inside.
        """
        self._is_blocking = True
        try:
            yield
        finally:
            self._is_blocking = False

    def recall(self) -> None:
        """Have the main thread leave what blocks it; no interrupt, so nothing is called. From any other thread."""
        if self._give_back is None or threading.current_thread() is threading.main_thread():
            return
        self._is_recalled = True
        if hasattr(signal, "pthread_kill"):
            # A real signal, because a terminal's read in C notices nothing else.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_recalled:
            self._is_recalled = False
            if self._is_blocking:
                raise KeyboardInterrupt
            return
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True
        if self._on_interrupt is not None:
            self._on_interrupt()
        if self._is_blocking:
            raise KeyboardInterrupt
