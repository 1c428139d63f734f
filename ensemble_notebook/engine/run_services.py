"""What a run shares with all that works for it, and hands down to the runs that begin inside its tasks (E52)."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.enums import ExitReason
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.review import ReviewAnswer
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.seams.kept_tasks import KeptTasks
from ensemble_notebook.engine.budget_reservation import BudgetAccount, open_account
from ensemble_notebook.engine.events.event_stream import Clock, SpanEmitter
from ensemble_notebook.engine.events.nested_events import forget_calling_span
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.run_spec import RunSpec, forget_inner_revision


class CallAnswers(Protocol):
    """What is known of the answers to the calls that an earlier run has left pending. Thread-safe."""

    def find(self, call_id: str) -> ReviewAnswer | None:
        """The answer that was given to a call with this run; None where none was."""

    def is_used(self, call_id: str) -> bool:
        """Whether an answer to this call was used before: whether it was made is not known then."""

    def use(self, call_id: str, answer: ReviewAnswer) -> None:
        """Note that an answer is used, before anything is done for it. May wait for a disk.

        Raises:
            ValidationError: another one was used before; says by whom it was given, and when.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunServices:
    """What all that works for one run shares.

    Attributes:
        spec: the run.
        inputs: of the run, as code may see them.
        source: where models come from.
        caller: calls handlers, tools, guardrails and all else that is not ours.
        clock: tells durations.
        draw: gives a random number from 0 to 1, for the waits between attempts.
        span: of the run.
        exit_early: called with the reason, also in words, when a review ends the run.
        warn: says something about the run as a whole.
        parent: the run in whose task this one was begun; None where it was begun in none.
        kept_tasks: of earlier runs, and where this one's are kept; None where nothing is.
        answers: to the calls of tools that wait in the run that this one goes on with; None where there is none.
        tools: what has opened tools, and read inputs, before the run began; None where there was nothing to read.
    """

    spec: RunSpec
    inputs: Mapping[str, Any]
    source: ChatSource
    caller: FunctionCaller
    clock: Clock
    draw: Callable[[], float]
    span: SpanEmitter
    exit_early: Callable[[ExitReason, str], None]
    warn: Callable[[str], None]
    parent: ParentRun | None
    kept_tasks: KeptTasks | None
    answers: CallAnswers | None = None
    tools: object = None

    def find_answers(self) -> CallAnswers | None:
        """The answers to calls that wait, be they given to this run or to one around it."""
        return self.answers or (None if self.parent is None else self.parent.answers)


# A context variable goes along into async functions and onto the threads of sync ones.
_current: Final[contextvars.ContextVar[ParentRun | None]] = contextvars.ContextVar("ensemble_parent_run", default=None)


class ParentRun:
    """A run, as the runs nested in it know it. Thread-safe.

    Attributes:
        spec: the run.
        source: where its models come from: a recording is written, or answers, for the runs inside, too.
        kept_tasks: of earlier runs, and where its own are kept; None where nothing is.
        answers: as of `RunServices.find_answers`.
        row: name of the row that it is part of, in a map; None elsewhere.
        accounts: what it spends from, those of its own parents first.
        rate_limits: that all its requests pass, those of its own parents first.
        exit_early: ends it for a reason, also in words: what runs finishes, nothing new starts.
        warn: says something about it as a whole.
        tools: what opens the tools that are behind connections, once for it and all runs inside; the agents know it.
    """

    def __init__(self, services: RunServices) -> None:
        # The services are not kept: their span knows the stream with all its events, and a context may outlive the run.
        spec, around = services.spec, services.parent
        self.spec = spec
        self.source = services.source
        self.kept_tasks = services.kept_tasks
        self.answers = services.find_answers()
        self.row: str | None = spec.row or (None if around is None else around.row)
        self.exit_early: Callable[[ExitReason, str], None] | None = services.exit_early
        self.warn: Callable[[str], None] | None = services.warn
        self.tools: object = None
        self.accounts: tuple[BudgetAccount, ...] = (
            tuple(map(open_account, spec.budgets_around)) if around is None else around.accounts
        )
        self.rate_limits: tuple[RateLimit, ...] = spec.rate_limits if around is None else around.rate_limits
        if (budget := spec.budget) is not None and not (budget.is_shared and self.holds(budget)):
            self.accounts += (open_account(budget, spec.currency),)
        if (rate_limit := spec.definition.rate_limit) is not None:
            self.rate_limits += (rate_limit,)
        self._lock = threading.Lock()
        self._stops: set[Callable[[], None]] = set()
        self._is_stopped = False
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended: what is begun after that is no part of it."""
        return self._is_over

    def holds(self, budget: Budget | None) -> bool:
        """Whether it spends from this budget."""
        return any(account.budget is budget for account in self.accounts)

    def add_nested(self, stop: Callable[[], None]) -> None:
        """A run has begun inside; `stop` is called once this one is stopped, now if it is already."""
        with self._lock:
            self._stops.add(stop)
            is_late = self._is_stopped
        if is_late:
            stop()

    def remove_nested(self, stop: Callable[[], None]) -> None:
        """A run inside is over."""
        with self._lock:
            self._stops.discard(stop)

    def stop_nested(self) -> None:
        """This run was stopped, and so are those inside."""
        with self._lock:
            self._is_stopped = True
            stops = tuple(self._stops)
        for stop in stops:
            stop()

    def end(self) -> None:
        """This run is over."""
        self._is_over = True
        self.exit_early = self.warn = None  # a context of one of its tasks may outlive it

    def make_context(self) -> contextvars.Context:
        """The present context variables, but runs that are begun in them are nested in this one."""
        return _copy_context(self)


def find_parent_run() -> ParentRun | None:
    """The run in whose task this code runs; None where there is none, or it has ended."""
    parent = _current.get()
    return None if parent is None or parent.is_over else parent


def make_context_of_nobody() -> contextvars.Context:
    """The present context variables, but runs that are begun in them are nested in none: those of listeners."""
    return _copy_context(None)


def _copy_context(parent: ParentRun | None) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(_current.set, parent)
    context.run(forget_calling_span)
    context.run(forget_inner_revision)
    return context
