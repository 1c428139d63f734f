"""The budgets of the kernel that a run spends from, and what other kernels have spent of the one of the day (E142)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from ensemble_notebook.domain.definitions.amounts import DOLLARS
from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.kernel_limits import kernel_limits
from ensemble_notebook.engine.budget_reservation import open_account
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.store.run_store import RunStore

_known: Final[dict[str, Spending]] = {}
"""Of runs that are over, by their ids, so that each is read once."""


def find_kernel_budgets(now: datetime | None = None) -> tuple[Budget, ...]:
    """The budgets that a run that begins now spends from, the widest first; none where the kernel has no limits.

    Args:
        now: the local time of the kernel; None: that of the system.
    """
    if not kernel_limits.budgets:
        return ()
    now = now or datetime.now(UTC).astimezone()
    day = kernel_limits.find_day_budget(now.date())
    if day is not None:
        open_account(day).book_elsewhere(_sum_elsewhere(now))
    every = (day, kernel_limits.kernel_budget, kernel_limits.find_cell_budget())
    return tuple(each for each in every if each is not None)


def _sum_elsewhere(now: datetime) -> Spending:
    """What runs of other processes in the store have spent since midnight. Without a store, nothing is known of them.

    A store that can't be read says so where runs are written; here it is no reason to stop them.
    """
    store, spent = RunStore.find(), Spending()
    if store is None:
        return spent
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    with suppress(StoreError):
        for run in store.list_runs_elsewhere(midnight):
            found = _known.get(run.run_id)
            if found is None:
                with suppress(StoreError):
                    found = _find_spent(store.load_trace(run))
                if found is not None and run.status is not RunStatus.RUNNING:
                    _known[run.run_id] = found
            spent += found or Spending()
    return spent


def _find_spent(trace: ExecutionTrace) -> Spending:
    """What a run has spent, as far as that is known; one that a recording has answered, nothing."""
    if trace._fold.replayed_from is not None:
        return Spending()
    sums = trace.metrics
    cost = sums.cost if sums.currency == DOLLARS else None
    tokens = (sums.input_tokens or 0) + (sums.output_tokens or 0)
    return Spending(cost=cost or Decimal(0), tokens=tokens, llm_calls=sums.llm_attempt_count)
