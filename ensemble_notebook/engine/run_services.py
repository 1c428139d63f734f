"""What a run hands down to the runs that are begun inside its tasks: its limits, its end, what it keeps (E52).

Found through a context variable, which goes along into async functions and onto the threads of sync ones.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.seams.kept_tasks import KeptTasks
from ensemble_notebook.engine.events.nested_events import forget_calling_span
from ensemble_notebook.engine.limits.budget_account import BudgetAccount
from ensemble_notebook.engine.run_spec import forget_inner_revision

_current: Final[contextvars.ContextVar[ParentRun | None]] = contextvars.ContextVar("ensemble_parent_run", default=None)


class ParentRun:
    """A run, as the runs nested in it know it. Thread-safe.

    Attributes:
        source: where its models come from: a recording is written, or answers, for the runs inside, too.
        capture_mode: how much of it is kept. replayed_from: the name of the recording that answers; None where none.
        kept_tasks: of earlier runs, and where its own are kept; None where nothing is.
        is_reusing: whether what those have done is reused.
        accounts: what it spends from, those of its own parents first.
        path: what it and its own parents are called, the outermost first.
        rate_limits: that all its requests pass, those of its own parents first.
        person: whom the runs inside ask that have no review handler of their own; None where nobody can be asked.
        row: name of the row that it is part of, in a map; None elsewhere.
        exit_early: ends it for a reason, also in words: what runs finishes, nothing new starts.
        warn: says something about it as a whole.
        tools: what opens the tools that are behind connections, once for it and all runs inside; the agents know it.
    """

    def __init__(
        self,
        accounts: tuple[BudgetAccount, ...],
        rate_limits: tuple[RateLimit, ...],
        *,
        source: ChatSource,
        capture_mode: CaptureMode,
        replayed_from: str | None,
        path: tuple[str, ...] = (),
        kept_tasks: KeptTasks | None = None,
        is_reusing: bool = False,
        person: ReviewHandler | None = None,
        row: str | None = None,
        exit_early: Callable[[ExitReason, str], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.source = source
        self.capture_mode = capture_mode
        self.replayed_from = replayed_from
        self.path = path
        self.kept_tasks = kept_tasks
        self.is_reusing = is_reusing
        self.person = person
        self.row = row
        self.exit_early = exit_early
        self.warn = warn
        self.tools: object = None
        self.accounts = accounts
        self.rate_limits = rate_limits
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
