"""What each task of a run has spent, while the run goes on: as little of the fold as the results in the store need.

Why not the fold itself: it keeps every span and text, and costs several times as much an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.cost import CostConfiguration
from ensemble_notebook.domain.outputs.metrics import TokenUsage
from ensemble_notebook.domain.seams.asking_task import make_task_path
from ensemble_notebook.trace.folding.prices import calculate_price
from ensemble_notebook.trace.spans.usage_totals import UsageTotals


@dataclass(slots=True)
class _Attempt:
    """One physical request: what it used, when, and as whose."""

    usage: TokenUsage
    at: datetime
    provider: str | None
    model: str
    served_model: str | None = None


class TaskSpending:
    """Adds up the requests of each task of the plan, those of delegated work and of nested runs included.

    Each item of a task that runs for each of a list has its own part, which counts in that task, too (E53).

    Args:
        cost: own rates; None: the public price list (T10).
    """

    def __init__(self, cost: CostConfiguration | None) -> None:
        self._rates = cost
        self._parents: dict[str, str | None] = {}  # by span
        self._paths: dict[str, str] = {}  # of tasks, by span: the engine knows tasks by that
        self._lists: dict[str, str] = {}  # paths of tasks that run for each item, by span
        self._wholes: dict[str, str] = {}  # the same, by the path of the item
        self._calls: dict[str, tuple[str | None, str]] = {}
        self._tasks: dict[str, list[_Attempt]] = {}  # by path
        self._last: dict[str, _Attempt] = {}
        self._notes: dict[type[ev.Event], Any] = {
            ev.TaskStarted: self._note_task,
            ev.ItemsListed: self._note_items,
            ev.LlmCallStarted: self._note_call,
            ev.LlmAttemptEnded: self._note_attempt,
            ev.LlmCallCompleted: self._note_reply,
        }

    def on_events(self, events: Iterable[ev.Event]) -> None:
        """Take in the next events of the run."""
        parents, notes = self._parents, self._notes
        for event in events:
            if event.span_id not in parents:
                parents[event.span_id] = event.parent_id
            note = notes.get(type(event))
            if note is not None:
                note(event)

    def _note_task(self, event: ev.TaskStarted) -> None:
        whole = self._lists.get(event.parent_id or "")
        # What is delegated is of the task around it, and so is what runs inside.
        if whole is not None or self._find_owner(event.parent_id) is None:
            path = self._paths[event.span_id] = make_task_path(event.task or "", event.phase)
            self._tasks.setdefault(path, [])
            if whole is not None:
                self._wholes[path] = whole

    def _note_items(self, event: ev.ItemsListed) -> None:
        if (path := self._paths.get(event.span_id)) is not None:
            self._lists[event.span_id] = path

    def _note_call(self, event: ev.LlmCallStarted) -> None:
        self._calls[event.span_id] = (event.provider, event.model)

    def _note_attempt(self, event: ev.LlmAttemptEnded) -> None:
        path, call = self._find_owner(event.parent_id), self._calls.get(event.parent_id or "")
        if path is not None and call is not None:
            attempt = self._last[event.parent_id or ""] = _Attempt(event.usage, event.time, *call)
            self._tasks[path].append(attempt)
            if (whole := self._wholes.get(path)) is not None:
                self._tasks[whole].append(attempt)

    def _note_reply(self, event: ev.LlmCallCompleted) -> None:
        attempt = self._last.pop(event.span_id, None)
        if attempt is not None and event.model:
            attempt.served_model = event.model

    def _find_owner(self, span_id: str | None) -> str | None:
        """The path of the task of the plan around a span, or of its item; that one included. None: there is none."""
        while span_id is not None:
            if (path := self._paths.get(span_id)) is not None:
                return path
            span_id = self._parents.get(span_id)
        return None

    def sum_task(self, path: str) -> UsageTotals | None:
        """What the task at this path has spent by now; None for one that is not of this run itself."""
        if path not in self._tasks:
            return None
        totals = UsageTotals()
        for attempt in self._tasks[path]:
            totals.llm_attempt_count += 1
            totals.add_usage(attempt.usage)
            totals.add_cost(self._price(attempt))
        return totals

    def _price(self, attempt: _Attempt) -> Decimal | None:
        """As the fold prices it: under the name that the provider gave, where that has a price."""
        for model in (attempt.served_model, attempt.model):
            price = (
                None
                if model is None
                else calculate_price(
                    attempt.usage, provider=attempt.provider, model=model, at=attempt.at, rates=self._rates
                )
            )
            if price is not None:
                return price.total
        return None
