"""Rows tried with texts: maps of them, of which each row is run once for the same texts, and what came of it (V69)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus
from ensemble_notebook.domain.definitions.limits import Spending
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.improving.improve_settings import ImproveSettings
from ensemble_notebook.ensemble.improving.improved_places import SplitRows, Texts
from ensemble_notebook.ensemble.improving.search_account import NOTHING, SearchAccount, SearchOver, scale
from ensemble_notebook.ensemble.many_runs.map_result import RowResult
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import MapArguments
from ensemble_notebook.ensemble.many_runs.variants import make_variants
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import (
    BudgetExceededError,
    DeadlineExceededError,
    RateLimitTimeoutError,
    RunInterrupted,
    ScoringError,
    find_http_status,
    summarize_error,
)
from ensemble_notebook.errors.origin import iterate_causes
from ensemble_notebook.evaluation.scored_runs import Ending, Question, ScoredRun
from ensemble_notebook.evaluation.verdicts import list_runs
from ensemble_notebook.models.langchain.error_classification import classify_error

TextsKey = tuple[tuple[str, str], ...]
_LONGEST: Final = 2_000
"""Characters of an output that the rewriting model is shown."""


def make_key(texts: Mapping[str, str]) -> TextsKey:
    """What tells the texts of candidates apart."""
    return tuple(sorted(texts.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRow:
    """What came of a row under some texts.

    Attributes:
        place: of the row among all rows.
        run: with its scores.
        outputs: the texts of its tasks, by name.
        raw: the text of its final task; None where there is none.
        fault: what the row failed with, in words; empty where it did not.
        is_lost: whether it failed for what is not the texts' doing, so that it is left out.
    """

    place: int
    run: ScoredRun
    outputs: Mapping[str, str]
    raw: str | None
    fault: str = ""
    is_lost: bool = False

    def read(self, question: Question) -> float | None:
        """What it counts as; None where it is left out."""
        return None if self.is_lost else question.read(self.run)


class TriedRows:
    """Tries rows. Works inside the run around all, on the thread of its task.

    Args:
        ensemble: as it is.
        settings: how rows are run and scored.
        rows: all of them.
        account: that pays.
        own_id: gives the id of the run around all.
    """

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        settings: ImproveSettings,
        rows: SplitRows,
        account: SearchAccount,
        own_id: Callable[[], str],
    ) -> None:
        self._ensemble = ensemble.replace(listeners=(), trace_exporter=None, budget=None)
        self._settings = settings
        self._rows = rows
        self._account = account
        self._find_own_id = own_id
        self._known: dict[TextsKey, dict[int, TriedRow]] = {}
        self._charges: dict[TextsKey, tuple[Spending, int]] = {}
        self.last_error: BaseException | None = None

    @property
    def own_id(self) -> str:
        """The id of the run around all."""
        return self._find_own_id()

    def make_ensemble(self, texts: Texts, name: str) -> RunnableEnsemble:
        """The ensemble with these texts."""
        return make_variants(self._ensemble, {name: texts})[0].ensemble.replace(name=name)

    def get_known(self, texts: Texts, places: Iterable[int]) -> dict[int, TriedRow]:
        """What is known of these rows with these texts, by place."""
        known = self._known.get(make_key(texts), {})
        return {each: known[each] for each in places if each in known}

    def count_missing(self, texts: Texts, places: Iterable[int]) -> int:
        """How many of these rows were not tried yet with these texts."""
        known = self._known.get(make_key(texts), {})
        return sum(each not in known for each in places)

    def find_row_charge(self, texts: Texts) -> Spending | None:
        """What a row takes with these texts on average; None where none was tried."""
        charged, count = self._charges.get(make_key(texts), (NOTHING, 0))
        return scale(charged, 1 / count) if count else None

    def try_rows(self, texts: Texts, places: Sequence[int], name: str, reserved: Spending = NOTHING) -> list[TriedRow]:
        """What comes of these rows with these texts; those that were tried before are not run again.

        Args:
            texts: of the candidate.
            places: of the rows.
            name: of the map, in the timeline.
            reserved: of the budget, for later.

        Raises:
            SearchOver: the budget was used up before the last row.
            RunInterrupted: it was stopped.
        """
        known = self._known.setdefault(make_key(texts), {})
        missing = [each for each in dict.fromkeys(places) if each not in known]
        if missing:
            self._run(texts, missing, known, name, reserved)
            lost = [each for each in missing if known[each].is_lost]
            if lost:  # once more, in case it was a moment's trouble
                self._run(texts, lost, known, f"{name}, once more", reserved)
        return [known[each] for each in places]

    def _run(
        self, texts: Texts, places: Sequence[int], known: dict[int, TriedRow], name: str, reserved: Spending
    ) -> None:
        budget = self._account.find_rest(reserved)
        if budget is None and not self._is_free():
            raise SearchOver("the budget is used up")
        if find_parent_run() is None:  # a map that began now would belong to nobody, and nobody could stop it
            raise RunInterrupted("stopped")
        ensemble = self.make_ensemble(texts, name)
        of_map = replace(self._settings.of_map, budget=budget)
        given = MapArguments(self._rows.pick(places), RunSettings(), of_map)
        handle = start_map(ensemble, given)
        try:
            result = handle._run_to_end()
        except ScoringError as error:
            result = error.result
        key = make_key(texts)
        assert result.output is not None
        charged = self._account.book(result.metrics, result.output.events, self.own_id)
        before, count = self._charges.get(key, (NOTHING, 0))
        self._charges[key] = before + charged, count + len(places)
        is_cut = result.status is RunStatus.BUDGET_EXCEEDED or result.output.exit_reason is ExitReason.BUDGET_EXCEEDED
        for place, row, run in zip(places, result.rows, list_runs(result), strict=True):
            row_tried = self._make_row(place, row, run)
            if not (is_cut and row_tried.run.ending is Ending.INCOMPLETE):
                known[place] = row_tried
        if is_cut:
            raise SearchOver("the budget is used up")

    def _is_free(self) -> bool:
        """Whether rows take nothing of what the budget limits, as those of handlers."""
        charged = [each for each, count in self._charges.values() if count]
        limits = self._account.budget.limits
        return bool(charged) and all(each.get_amount(name) == 0 for each in charged for name in limits)

    def _make_row(self, place: int, row: RowResult, run: ScoredRun) -> TriedRow:
        outputs = {} if row.output is None else {each.name: each.raw[:_LONGEST] for each in row.output.task_outputs}
        if row.error is not None:
            self.last_error = row.error
        is_judged = any(each.judge is not None for each in self._settings.of_map.scorers)
        is_unjudged = run.ending is Ending.DONE and is_judged and not run.scores
        is_lost = run.ending is Ending.INCOMPLETE or is_unjudged
        if row.error is not None:
            is_lost = is_lost or is_no_fault_of_texts(row.error)
        fault = "" if row.error is None else summarize_error(row.error)
        raw = None if row.raw is None else row.raw[:_LONGEST]
        run = replace(run, row=place, cost=_find_cost(row, run), active_ms=None)
        return TriedRow(place=place, run=run, outputs=outputs, raw=raw, fault=fault, is_lost=is_lost)


def _find_cost(row: RowResult, run: ScoredRun) -> float | None:
    """What a row costs by itself: with what its reused tasks took when they were done; None where that is not known."""
    outputs = () if row.output is None else row.output.completed_outputs
    savings = [part.saving for each in outputs for part in (each.item_outputs or (each,)) if part.saving is not None]
    costs = [each.cost for each in savings]
    if None in costs or (run.cost is None and not savings):
        return None
    return (run.cost or 0.0) + float(sum(each for each in costs if each is not None))


def is_no_fault_of_texts(error: BaseException) -> bool:
    """Whether a row failed for what no text can help: the connection, a busy server, a limit.

    What the reply itself was wrong about (its type, a guardrail, a refusal, too many tool calls) is the texts' doing.
    """
    status = find_http_status(error)
    if status is not None:
        return status == 429 or status >= 500
    return any(
        isinstance(each, BudgetExceededError | DeadlineExceededError | RateLimitTimeoutError | RunInterrupted)
        or classify_error(each).is_transient
        for each in iterate_causes(error)
    )
