"""The run that improves texts: a task in which the search and then the held-out rows run, nested (V68, V70)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, RunStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending, get_currency
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.function_caller import ends_with_its_run
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.improving.improve_settings import ImproveSettings
from ensemble_notebook.ensemble.improving.improved_places import Texts, find_rewriter, find_texts, split_rows
from ensemble_notebook.ensemble.improving.improvement import Improvement, SearchEnd
from ensemble_notebook.ensemble.improving.rewriting import make_rewriter
from ensemble_notebook.ensemble.improving.search_account import SearchAccount, SearchOver, scale
from ensemble_notebook.ensemble.improving.text_search import AS_IT_IS, Candidate, TextSearch, import_optimizer
from ensemble_notebook.ensemble.improving.tried_rows import TriedRow, TriedRows
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import MapArguments
from ensemble_notebook.ensemble.many_runs.variants import make_variants
from ensemble_notebook.ensemble.run_checks import check_runnable
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import PreparedEnsemble, ask_person_here, make_source
from ensemble_notebook.ensemble.run_settings import RunSettings, resolve_capture_mode
from ensemble_notebook.ensemble.scoring import CheckedScorers
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError, summarize_error
from ensemble_notebook.evaluation.comparison import Comparison, compare_sides
from ensemble_notebook.evaluation.scored_runs import Ending, Question, ask, list_scores
from ensemble_notebook.evaluation.scorer import list_score_warnings
from ensemble_notebook.trace.store.run_store import RunStore

_log = logging.getLogger("ensemble_notebook.run")

BEFORE: Final = "before"
"""What was there, in the comparison."""
_NO_REUSE: Final = (
    "nothing is kept here that could be reused, so what candidates have in common is paid for each of them"
)


def prepare_improvement(
    ensemble: RunnableEnsemble,
    rows: Any,
    settings: ImproveSettings,
    tell: Callable[[str], object] | None = None,
) -> ImproveHandle:
    """Prepare the run; `ImproveHandle._begin` begins it. All that can be refused before it costs is refused here.

    Args:
        ensemble: whose texts it is about.
        rows: what it runs for.
        settings: of the search.
        tell: is called with a line on each candidate when it is done, on the thread of the search; None: the log is.

    Raises:
        ValidationError, PromptTemplateError: there is a mistake; nothing was called.
        MissingPackageError: gepa is not here.
    """
    return ImproveHandle(ensemble, Improving(ensemble, rows, settings, tell or _log.info))


class Improving:
    """The search, its rows and its account, checked before anything runs."""

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        rows: Any,
        settings: ImproveSettings,
        tell: Callable[[str], object],
    ) -> None:
        import_optimizer()
        texts = find_texts(ensemble, settings.change)
        self.ensemble, self.settings = ensemble, settings
        llm = find_rewriter(ensemble, settings)
        self.rows = split_rows(rows, settings)
        limited = ensemble.replace(budget=settings.budget)
        assert isinstance(limited.budget, Budget)
        self.budget = limited.budget
        self._check(limited, llm)
        self.account = SearchAccount(self.budget, get_currency(ensemble.cost))
        self._limited = limited
        self.tried = TriedRows(ensemble, settings, self.rows, self.account, lambda: self.run_id)
        self.search = TextSearch(
            ensemble, texts, settings, self.rows, self.tried, self.account, self._reserve_first(), llm, tell
        )
        self.notes: list[str] = []
        self.comparison: Comparison | None = None
        self.left_out = 0
        self.verdict_end = "since it ended before the held-out rows were asked"
        self.fault: EnsembleError | None = None
        self.run_id = uuid.uuid4().hex[:12]

    def _check(self, limited: RunnableEnsemble, llm: Any) -> None:
        """Have a map of all rows, and the rewriting model, checked as they are when they run."""
        given = MapArguments(self.rows.rows, RunSettings(), self.settings.of_map)
        start_map(limited, given)
        check_runnable(make_rewriter(limited, llm, self.budget), make_source(RunSettings()))
        known = [*self.rows.rows.columns, *limited.inputs]
        of_map = self.settings.of_map
        checked = CheckedScorers(of_map.scorers, known, of_map.expected, make_source(RunSettings()))
        names = checked.list_names(of_map.scorers[0])
        if len(names) > 1:
            raise _refuse_names(names)

    def estimate(self) -> CostEstimate:
        """What the rows take as they are, and the held-out ones with better texts; candidates come on top of that."""
        return self._estimate([*self.rows.searched, *self.rows.held_out, *self.rows.held_out])

    def describe_estimate(self, estimate: CostEstimate) -> str:
        """What it takes, in words, and what candidates may add to that: nobody knows before how many there will be."""
        each = pluralize(len(self.rows.searched), "row")
        return (
            f"Estimate without candidates: {estimate}. With them {self.account.limit} at most: each takes a call that "
            f"rewrites and up to {each}, until the budget is used up or no row can get better"
        )

    def describe_rows(self) -> str:
        """What runs, in words."""
        searched = pluralize(len(self.rows.searched), "row")
        return (
            f"{searched} of the search, {len(self.rows.held_out)} held-out rows twice, and candidates until "
            f"{self.account.limit} are spent"
        )

    def _estimate(self, places: Sequence[int]) -> CostEstimate:
        """What some rows take once, with their judges."""
        values = [dict(each.values) for each in self.rows.pick(places).rows]
        given, limited = self.settings.of_map, cast("Any", self._limited)
        found: CostEstimate = limited.estimate(
            rows=values, score=given.score, expected=given.expected, attach=given.attach
        )
        return found

    def _reserve_first(self) -> Spending:
        """What the held-out rows take, twice.

        Raises:
            ValidationError: that is more than the budget.
        """
        found = self._estimate(self.rows.held_out)
        once = Spending(
            cost=found.known_cost.likely, tokens=found.total_tokens.likely, llm_calls=found.llm_calls.likely
        )
        reserved = scale(once, 2)
        if not self.account.has_room(reserved):
            rows = pluralize(len(self.rows.held_out), "held-out row")
            raise ValidationError(
                f"The {rows} take about {self.account.describe(reserved)}, run with the texts as they are and with "
                f"better ones, and the budget is {self.account.limit}: give more, or hold fewer rows out."
            )
        return reserved

    # --- the work, on the thread of the task

    def run(self) -> str:
        """Search, and ask the held-out rows; gives the verdict."""
        search = self.search
        try:
            search.try_base(self._make_question)
        except SearchOver as over:
            search.end = str(over)
            self.verdict_end = "since the budget was used up before what was there had run on all rows"
            return self.describe()
        if search.is_perfect(search.base):
            assert search.question is not None
            rows = pluralize(len(self.rows.searched), "row")
            search.end = f"{search.question.score} is at its best already, {search.base.score:g} on all {rows}"
            self.verdict_end = ""
            return self.describe()
        search.search()
        if search.best is search.base:
            self.verdict_end = ""
        else:
            self._ask_held_out(search.best)
        return self.describe()

    def _make_question(self, found: Sequence[TriedRow]) -> Question:
        """What is asked of the score.

        Raises:
            ValidationError: nothing can be asked: every row failed, or the score is none that can get better.
        """
        done = [each for each in found if each.run.ending is Ending.DONE]
        if not done:
            error = self.tried.last_error
            why = "" if error is None else f": {summarize_error(error)}"
            raise ValidationError(f"No row of the ensemble as it is came to an end, so nothing can be improved{why}")
        names = list_scores(each.run for each in done)
        if len(names) > 1:
            raise _refuse_names(names)
        if not any(each.run.scores and next(iter(each.run.scores.values())).measure for each in done):
            told = next(list_score_warnings(s for each in done for s in each.run.scores.values()), "")
            raise ValidationError(f"No row has a score, so nothing tells what is better. {told}".strip())
        runs = [each.run for each in found]
        if any(record.label is not None for each in done for record in each.run.scores.values()):
            raise ValidationError(
                f"{names[0]!r} gives labels, and no label is better than another: give a function that says which one "
                f"is right."
            )
        question = ask(runs, names[0], failed=0)
        if question.is_share:
            return question
        values = [value for each in done if (value := question.read(each.run)) is not None]
        worst = min if question.higher_is_better else max
        # A row that failed counts as not passed (V11): as the worst that a number can be, or that was seen.
        low = None if question.bounds is None else question.bounds[0 if question.higher_is_better else 1]
        return ask(runs, names[0], failed=worst(values) if low is None else low)

    def _ask_held_out(self, best: Candidate) -> None:
        base, places = self.search.base, self.rows.held_out
        ended = ""
        for each in (base, best):
            try:
                self.search.try_rows(each, places, name=f"held out, {each.name}")
            except SearchOver as over:
                ended = str(over)
        question = self.search.question
        assert question is not None
        before, after = (self.tried.get_known(each.texts, places) for each in (base, best))
        paired = [
            each
            for each in places
            if all(each in side and side[each].read(question) is not None for side in (before, after))
        ]
        self.left_out = len(places) - len(paired)
        if not paired:
            self.verdict_end = f"since {ended or 'no held-out row has a score with both'}"
            return
        sides = [(name, [side[each].run for each in paired]) for name, side in ((BEFORE, before), (best.name, after))]
        pair = compare_sides(sides[0], sides[1], question, currency=self.account.currency)
        self.comparison, self.verdict_end = Comparison([pair]), ""
        if ended:
            self.notes.append(f"{ended} in the middle of the held-out rows")

    # --- the result

    def make_result(self, output: EnsembleOutput | None) -> Improvement:
        """What came of it, or has by now."""
        best = self.search.best
        improved = self.ensemble if best is self.search.base else _change(self.ensemble, best.texts)
        return Improvement(self.ensemble, improved, self._make_end(), output)

    def describe(self) -> str:
        return self.make_result(None).describe()

    def _make_end(self) -> SearchEnd:
        account, search = self.account, self.search
        worth = account.charged - account.paid
        is_worth = any(worth.get_amount(name) > 0 for name in self.budget.limits)
        return SearchEnd(
            candidates=tuple(replace(each) for each in search.candidates),
            best=search.best,
            comparison=self.comparison,
            searched=len(self.rows.searched),
            held_out=len(self.rows.held_out),
            left_out=self.left_out,
            end=search.end,
            verdict_end=self.verdict_end,
            score="" if search.question is None else search.question.score,
            paid=account.describe(account.paid),
            reused=account.describe(worth) if is_worth else "",
            limit=account.limit,
            notes=tuple(self.notes),
        )


def _change(ensemble: RunnableEnsemble, texts: Texts) -> RunnableEnsemble:
    return make_variants(ensemble, {AS_IT_IS: texts})[0].ensemble


def _refuse_names(names: Sequence[str]) -> ValidationError:
    return ValidationError(
        f"improve goes by one score, and there are {len(names)}: {', '.join(names)}. Give a function that weighs them, "
        f"or a judge with one field."
    )


class ImproveHandle:
    """A search that has been started. Thread-safe, and awaitable on any event loop.

    Args:
        ensemble: whose texts it is about.
        work: what it does.

    Attributes:
        run: the run around all.
        work: likewise.
    """

    def __init__(self, ensemble: RunnableEnsemble, work: Improving) -> None:
        self.work = work
        settings = work.settings
        self.name = ensemble.name
        keeps_texts = resolve_capture_mode(ensemble.capture_mode) is not CaptureMode.METADATA
        is_reusing = RunStore.find() is not None and keeps_texts
        if not is_reusing:
            work.notes.append(_NO_REUSE)
        run_settings = ask_person_here(
            RunSettings(
                timeout=settings.timeout,
                deps=settings.deps,
                listeners=settings.listeners,
                review_handler=settings.review_handler,
                origin=settings.origin,
                reuse=is_reusing,
            )
        )
        outer = self._make_outer(ensemble)
        source = make_source(run_settings)
        spec = PreparedEnsemble(outer, run_settings, source).make_spec({})
        self.run = RunHandle(outer, spec, source, work.run_id, run_settings)

    def _make_outer(self, ensemble: RunnableEnsemble) -> RunnableEnsemble:
        """The ensemble whose only task does the work."""

        @ends_with_its_run
        def search(_given: TaskInput) -> str:
            try:
                return self.work.run()
            except EnsembleError as error:
                self.work.fault = error
                raise

        about = f"Better texts for {', '.join(self.work.settings.change)}"
        task = Task(
            name="improve",
            description=escape_variables(about),
            expected_output="The verdict of the held-out rows",
            handler=search,
            reuse="never",
        )
        one = ensemble._with_rows([task], error_strategy=ErrorStrategy.FAIL_FAST, concurrency=1)
        return one.replace(name=f"improve {ensemble.name or self.work.settings.change[0]}", budget=self.work.budget)

    @property
    def run_id(self) -> str:
        """The id of the run around all."""
        return self.run.run_id

    @property
    def status(self) -> RunStatus:
        """Its current status."""
        return self.run.status

    @property
    def is_done(self) -> bool:
        """Whether it has ended, so that `result` does not wait."""
        return self.run.is_done

    @property
    def events(self) -> Sequence[Event]:
        """The events so far. Read only; grows while it goes on."""
        return self.run.events

    @property
    def output(self) -> Improvement | None:
        """The result, once it has ended, failed or been interrupted; None until then."""
        return None if self.run.output is None else self.work.make_result(self.run.output)

    def _begin(self) -> None:
        """Start it on the loop thread of the process."""
        self.run._begin()

    def _run_to_end(self) -> Improvement:
        """Begin, and wait for the end. An interrupt of this thread stops it.

        Raises:
            RunInterrupted: it was stopped; has the best so far as ``output``.
        """
        try:
            self._begin()
            return self.result()
        except RunInterrupted:
            raise
        except KeyboardInterrupt:
            return self.interrupted()

    def cancel(self) -> None:
        """Stop it; returns at once. The best so far is kept. Does nothing after the end."""
        self.run.cancel()

    def result(self, timeout: float | None = None, *, while_waiting: Callable[[], object] | None = None) -> Improvement:
        """Wait for the end and return the result.

        Args:
            timeout: seconds to wait; it goes on after that. None: no limit.
            while_waiting: called several times a second on this thread.

        Raises:
            TimeoutError: it has not ended yet.
            ValidationError: the score is none that can get better, or every row failed.
            DeadlineExceededError, RunInterrupted: it was stopped; has the best so far as ``output``.
        """
        try:
            self.run.result(timeout, while_waiting=while_waiting)
        except (EnsembleError, RunInterrupted) as error:
            raise self._explain(error) from error.__cause__
        return self._get_result()

    def interrupted(self) -> Improvement:
        """Stop it after a `KeyboardInterrupt`.

        Raises:
            RunInterrupted: always, with the best so far as ``output``.
        """
        try:
            self.run.interrupted()
        except RunInterrupted as error:
            raise self._explain(error) from None
        raise AssertionError("unreachable")

    def __await__(self) -> Generator[Any, None, Improvement]:
        """Wait for the result, on any loop."""
        try:
            yield from self.run.__await__()
        except (EnsembleError, RunInterrupted) as error:
            raise self._explain(error) from error.__cause__
        return self._get_result()

    def __repr__(self) -> str:
        """Id and status."""
        return f"<ImproveHandle {self.run_id}: {self.status.value}>"

    def _get_result(self) -> Improvement:
        result = self.output
        assert result is not None
        return result

    def _explain(self, error: EnsembleError | RunInterrupted) -> EnsembleError | RunInterrupted:
        """The error in terms of candidates, with the result as its ``output``."""
        if isinstance(error, RunInterrupted):
            tried = len(self.work.search.candidates) - 1
            made = RunInterrupted(f"{pluralize(tried, 'candidate')} tried; the best so far is kept.")
            made.output = self.output
            return made
        if self.work.fault is not None:
            return self.work.fault
        error.output = self.output
        return error
