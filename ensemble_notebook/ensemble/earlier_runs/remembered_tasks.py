"""The tasks of earlier runs, from the run store, for the engine; and those of this run, for later ones (C34).

`domain/fingerprints` decides what makes two tasks equal; the engine decides what to do with a result that is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.key_difference import explain_difference
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.run_memory import KeptTask, KeptTasks, PendingKey, TaskKey
from ensemble_notebook.errors import StoreError, get_message
from ensemble_notebook.trace.folding.task_spending import TaskSpending
from ensemble_notebook.trace.store.result_reader import ResultReader
from ensemble_notebook.trace.store.run_facts import StoredResult
from ensemble_notebook.trace.store.run_writer import FinishedTask, RunWriter

ASKED_FOR: Final = "it is the one that was asked for"


class RememberedTasks:
    """The `KeptTasks` of one run.

    Args:
        results: of earlier runs.
        writer: of this run.
        spending: of this run; read by the writer thread.
        currency: of that spending.
    """

    def __init__(self, results: ResultReader, writer: RunWriter, spending: TaskSpending, currency: str) -> None:
        self._results = results
        self._writer = writer
        self._spending = spending
        self._currency = currency

    def find(self, path: str, key: TaskKey, *, is_asked_for: bool = False) -> tuple[KeptTask | None, str]:
        """The newest result with this key, preferring the task at this path; and why it can be reused or not."""
        if is_asked_for:
            return None, ASKED_FOR
        if key.obstacle is not None:
            return None, key.obstacle
        try:
            found = self._results.find(key.key, path)
            if found is not None and found.output is not None:
                return make_kept_task(found, found.output), f"unchanged since run {_find_origin(found)}"
            return None, self._explain(path, key)
        except StoreError as error:
            return None, f"the run store can't be read: {get_message(error)}"

    def keep(
        self,
        path: str,
        key: PendingKey,
        output: TaskOutput,
        delegated: Sequence[TaskOutput] = (),
        *,
        obstacle: str | None = None,
        attempt: int = 1,
        feedback: Sequence[str] = (),
    ) -> None:
        """Store a result. One that can't be compared gets a key that no other task has."""
        # A manager's workers grow. No closure, which is an object for each of its variables, too.
        given = (path, key, output, tuple(delegated), obstacle, attempt, feedback)
        self._writer.add_result(partial(self._make_result, *given))

    def close(self) -> None:
        """The run is over."""
        self._results.close()

    def _make_result(
        self,
        path: str,
        key: PendingKey,
        output: TaskOutput,
        workers: tuple[TaskOutput, ...],
        obstacle: str | None,
        attempt: int,
        feedback: Sequence[str],
    ) -> FinishedTask:
        """What the writer thread stores."""
        made = key.get()
        return FinishedTask(
            path,
            made.key if made.obstacle is None else f"{self._writer.facts.run_id}/{path}",
            made.parts,
            output if output.saving is None else replace(output, saving=None),
            obstacle,
            workers,
            {**self._describe_spending(path, output), "attempt": attempt, "feedback": list(feedback)},
        )

    def _describe_spending(self, path: str, output: TaskOutput) -> dict[str, Any]:
        """What the work took, in this run or, if it was reused, when it was done; as JSON values."""
        if (saving := output.saving) is not None:
            cost, currency, run_id = saving.cost, saving.currency, saving.run_id
            tokens, duration = saving.tokens, saving.duration
        else:
            totals = self._spending.sum_task(path)
            cost, currency = None if totals is None else totals.cost, self._currency
            run_id = self._writer.facts.run_id
            tokens, duration = None if totals is None else totals.total_tokens, output.duration
        return {
            "tokens": tokens,
            "cost": None if cost is None else str(cost),
            "currency": currency,
            "duration_ms": duration.total_seconds() * 1000,
            "made_in": run_id,
        }

    def _explain(self, path: str, key: TaskKey) -> str:
        """Why no stored result can be reused."""
        facts = self._writer.facts
        last = self._results.find_last(facts.name, path)
        if last is None:
            run = self._results.find_last_run(facts.name, facts.run_id)
            if run is not None and not run.keeps_texts:
                return f"run {run.run_id} kept no text (capture_mode {run.capture_mode.value})"
            return "no remembered run has completed it"
        if last.key == key.key and last.obstacle is not None:
            return f"nothing changed, but {last.obstacle}"
        return explain_difference(last.parts, key.parts)


class NestedTasks:
    """The `KeptTasks` of a nested run, which is stored as a part of the run around it (E52).

    Args:
        around: of the run around it.
        prefix: of the paths of its tasks.
    """

    def __init__(self, around: KeptTasks, prefix: str) -> None:
        self._around = around
        self._prefix = prefix

    def find(self, path: str, key: TaskKey, *, is_asked_for: bool = False) -> tuple[KeptTask | None, str]:
        """As the run around it finds it."""
        return self._around.find(self._prefix + path, key, is_asked_for=is_asked_for)

    def keep(
        self,
        path: str,
        key: PendingKey,
        output: TaskOutput,
        delegated: Sequence[TaskOutput] = (),
        *,
        obstacle: str | None = None,
        attempt: int = 1,
        feedback: Sequence[str] = (),
    ) -> None:
        """As the run around it keeps it."""
        path = self._prefix + path
        self._around.keep(path, key, output, delegated, obstacle=obstacle, attempt=attempt, feedback=feedback)


def make_kept_task(found: StoredResult, output: TaskOutput) -> KeptTask:
    """A stored result in the form that the engine takes over."""
    facts = found.facts
    return KeptTask(
        run_id=_find_origin(found),
        path=found.path,
        output=output,
        delegated=found.delegated,
        tokens=read_number(facts, "tokens", int),
        cost=_read_cost(facts.get("cost")),
        currency=facts.get("currency") if isinstance(facts.get("currency"), str) else None,
        duration_ms=read_number(facts, "duration_ms", int | float) or 0.0,
    )


def _find_origin(found: StoredResult) -> str:
    """The id of the run that did the work. The run that stored the result may have reused it."""
    made_in = found.facts.get("made_in")
    return made_in if isinstance(made_in, str) else found.run_id


def read_number(facts: Mapping[str, Any], name: str, kind: Any) -> Any:
    """A number from the store; None if it is missing or wrong, since the file may have been edited (E71)."""
    value = facts.get(name)
    return value if isinstance(value, kind) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _read_cost(text: object) -> Decimal | None:
    try:
        cost = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        return None
    return cost if cost is not None and cost.is_finite() and 0 <= cost < 2**53 else None
