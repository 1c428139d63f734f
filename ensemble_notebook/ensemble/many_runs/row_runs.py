"""Runs rows in this process: each is a run of its own, nested in the map's task for the row (E52)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.engine.events.nested_events import find_calling_span
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
from ensemble_notebook.ensemble.earlier_runs.forking import ForkedRun
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import BudgetExceededError, RunInterrupted

_ID_BYTES: Final = 6
_IDS_AT_A_TIME: Final = 256


@dataclass(slots=True)
class RowOutcome:
    """The state of a row's run.

    Attributes:
        run_id: of the run.
        status: of the run; RUNNING until it has ended.
        output: complete or partial; None if there is none.
        error: what it failed with; None if it did not fail.
        scores: of the run, given before its row was left.
    """

    run_id: str
    status: RunStatus = RunStatus.RUNNING
    output: EnsembleOutput | None = None
    error: BaseException | None = None
    scores: list[ScoreRecord] = field(default_factory=list)


RunRow = Callable[[Row, RowOutcome], Coroutine[Any, Any, str]]
"""Runs the ensemble with a row, records what came of it in the outcome, and gives the text of the final task.

Raises what the run failed with; a `BudgetExceededError` where the budget of the map is used up, and a `CancelledError`
where the map was stopped.
"""


async def run_row_here(
    ensemble: RunnableEnsemble,
    prepared: PreparedEnsemble,
    settings: RunSettings,
    common: Mapping[str, Any],
    row: Row,
    outcome: RowOutcome,
    forked: ForkedRun | None = None,
) -> str:
    """As a `RunRow`; on the loop of the map, inside the task of the row.

    Args:
        ensemble: what runs.
        prepared: of it.
        settings: of each run.
        common: values that hold for all rows; a row's own come before them.
        row: with which it runs.
        outcome: gets the result.
        forked: the run of the row that it forks; None where it forks none.
    """
    parent = find_parent_run()
    assert parent is not None
    place = find_calling_span()
    assert place is not None
    spec = replace(prepared.make_spec({**common, **row.values}), row=place.span.task)
    handle = RunHandle(ensemble, spec, parent.source, outcome.run_id, settings, forked)
    try:
        await handle._run_here()
        output = await handle
    except asyncio.CancelledError:
        outcome.status, outcome.output = RunStatus.INTERRUPTED, handle.output
        raise
    except RunInterrupted as stopped:
        outcome.status, outcome.output = RunStatus.INTERRUPTED, handle.output
        raise asyncio.CancelledError from stopped
    except Exception as error:
        is_unpaid = isinstance(error, BudgetExceededError)
        outcome.status = RunStatus.BUDGET_EXCEEDED if is_unpaid else RunStatus.FAILED
        outcome.output, outcome.error = handle.output, error
        raise
    outcome.status, outcome.output = output.status, output
    if output.status is RunStatus.FAILED:  # under PARTIAL a run tells its failure by its status alone (E34)
        outcome.error = output.failures[0].error
        raise outcome.error
    leave_row(output)
    return output.raw


def leave_row(output: EnsembleOutput) -> None:
    """Have the map count a row as not done in which nobody could be asked; the others go on.

    Raises:
        TaskAbandoned: nobody could be asked.
    """
    if output.exit_reason is ExitReason.NOBODY_TO_ASK:
        raise TaskAbandoned("not done: nobody could be asked")


def make_run_ids() -> Iterator[str]:
    """Make ids that no other run has, many at a time: while the system draws one, other threads take their turn."""
    while True:
        drawn = os.urandom(_ID_BYTES * _IDS_AT_A_TIME)
        yield from (drawn[at : at + _ID_BYTES].hex() for at in range(0, len(drawn), _ID_BYTES))
