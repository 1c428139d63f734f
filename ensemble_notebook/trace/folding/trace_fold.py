"""The fold of a run's events into spans: one event at a time, each in constant time (T1, T2).

The same fold serves a live timeline and a finished trace. Knows no pandas, no clock and nothing of how spans are
shown; a stream that was cut gives what was known by then.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import Any, Final, TypeAlias

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    ExitReason,
    PhaseStatus,
    RunKind,
    RunStatus,
    SpanStatus,
    TaskNoun,
)
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, Price, RateLimit, get_currency
from ensemble_notebook.domain.outputs.score import ScoreRecord, list_current
from ensemble_notebook.domain.outputs.task_output import FamilySums, Metrics, Sums
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent, PlannedTask
from ensemble_notebook.domain.planning.managed_work import cut_words, find_title, find_told, title_written
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.trace.folding.call_fold import CallFold, ConversationLog
from ensemble_notebook.trace.folding.event_handlers import EventFold, on, on_open
from ensemble_notebook.trace.folding.milestones import mark_critical_spans
from ensemble_notebook.trace.folding.operation_fold import STARTUP, OperationFold
from ensemble_notebook.trace.folding.taken_over import make_taken_over
from ensemble_notebook.trace.spans.clean_text import StreamedText, clean_text, clean_value
from ensemble_notebook.trace.spans.span import ActiveInterval, Message, Span, read_score
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.span_tree import ErrorSummary, SpanTree, summarize_error, to_ms
from ensemble_notebook.trace.spans.timeline_wording import DONE_AGAIN, describe_return
from ensemble_notebook.trace.spans.usage_totals import Savings, UsageTotals

_PHASE_ENDS: Final = {
    PhaseStatus.COMPLETED: SpanStatus.OK,
    PhaseStatus.FAILED: SpanStatus.ERROR,
    PhaseStatus.EXITED_EARLY: SpanStatus.SKIPPED,
    PhaseStatus.SKIPPED: SpanStatus.SKIPPED,
}
_RUN_STATUS: Final = {RunStatus.FAILED: SpanStatus.ERROR, RunStatus.INTERRUPTED: SpanStatus.CANCELLED}
_OUT_OF_TIME: Final = ErrorSummary("DeadlineExceededError", "The run took longer than it was given.")


class TraceFold(EventFold):
    """What is known of a run by now.

    One thread adds events; others that read hold `lock` meanwhile. Nobody but the fold changes a span.

    Args:
        cost: own rates; None: the public price list. They tell the currency, and in files of earlier versions, whose
            calls don't tell their rates, what each of them costs.
        prices: of the attempts, by span id, where they are known already; None: to be looked up.

    Attributes:
        tree: the spans, and which of them changed when. log: the messages.
        spans: by id, in order of first appearance. What is planned is there from the plan on, as ghosts.
        taken_over: the rows of a map that it took over from an earlier one, by the ids of their own runs. They are no
            spans of this run, and count in no sum of it: views show them with the others.
        messages: of each task, by the id of its span, in order.
        streams: the text streamed so far, by id of the LLM call; the latest change comes last.
        score_names: of the scores of its spans, in order of appearance.
        time_scores: those of times of the run, in the order in which they came; replaced ones, too.
        run: the span of the run itself; None before it starts.
        name: of the ensemble, else of the variable that has the output of the run, where that is known.
        declared_name: of the ensemble; None where it has none.
        status, exit_reason: of the run. error: type and message of what ended it, or None.
        shortfall: what was left of the budget that ended it, and what the next call may need.
        agents, budget, rate_limit, capture_mode, replayed_from: as the run began with them.
        kind: what the run is. resumed_from: the run that it goes on with.
        forked_from_run, forked_from_span: the run that it forks, or makes a call of again, and where.
        changed: what it changes there: the names of its arguments.
        definition_version, prompts_version: of what it was declared with; None in files of earlier versions.
        currency: of all costs. told_currency: the same where the events tell it, and with it what each call costs.
        chain: what made the run as long as it was, see `critical`; empty before the end.
        earlier: what the runs took that this one goes on with; None where there are none.
        task_noun: what views call its tasks.
        attachments: the pictures and PDFs that it has, by digest, in order of appearance.
        row_inputs: of a map: names of what each row has under all variants; empty where no texts are kept.
        summary: what views say of it, in place of what happened; None for a run.
        note: what is being prepared, e.g. a model that is loading; None once it is ready, or after the end.
    """

    def __init__(self, cost: CostConfiguration | None = None, prices: Mapping[str, Price] | None = None) -> None:
        self.lock: threading.RLock = threading.RLock()
        self.currency: str = get_currency(cost)
        self.tree: SpanTree = SpanTree(self.currency)
        self.told_currency: str | None = None
        self.earlier: Sums | None = None
        self.log: ConversationLog = ConversationLog()
        self.run: Span | None = None
        self.run_id: str = ""
        self.attachments: dict[str, ev.AttachmentAdded] = {}
        self.name: str | None = None
        self.declared_name: str | None = None
        self.workflow: str | None = None
        self.inputs: Mapping[str, str] = {}
        self.max_concurrency: int | None = None
        self.agents: tuple[PlannedAgent, ...] = ()
        self.budget: Budget | None = None
        self.rate_limit: RateLimit | None = None
        self.capture_mode: CaptureMode = CaptureMode.OFF
        self.replayed_from: str | None = None
        self.longest_list: int = 0
        self.kind: RunKind = RunKind.RUN
        self.resumed_from: str | None = None
        self.forked_from_run: str | None = None
        self.forked_from_span: str | None = None
        self.changed: tuple[str, ...] = ()
        self.definition_version: str | None = None
        self.prompts_version: str | None = None
        self.task_noun: TaskNoun = TaskNoun.TASK
        self.plan: ExecutionPlan | None = None
        self.row_inputs: Sequence[str] = ()
        self.status: RunStatus = RunStatus.PENDING
        self.exit_reason: ExitReason | None = None
        self.error: ErrorSummary | None = None
        self.shortfall: str | None = None
        self.warnings: list[str] = []
        self.note: str | None = None
        self.summary: str | None = None
        self.chain: list[ActiveInterval] = []
        self._calls = CallFold(self.tree, self.log, cost, prices)
        self.taken_over: dict[str, Span] = {}
        self._scores = ScoreFold(self.tree, self.taken_over)
        self.spans: dict[str, Span] = self.tree.spans
        self.messages: dict[str, list[Message]] = self.log.messages
        self.streams: dict[str, StreamedText] = self._calls.streams
        self.score_names: Sequence[str] = self._scores.names
        self.time_scores: Sequence[ScoreRecord] = self._scores.of_times
        self._prompts: dict[str, tuple[float, float]] = {}
        self._replaced: dict[str, str | None] = {}
        self._planned_inside: dict[str, Mapping[str, PlannedTask]] = {}
        self._rows_begun: Counter[str] = Counter()
        self._operations = OperationFold(self.tree)

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock, which is that of one process."""
        return {name: each for name, each in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With a lock of its own."""
        vars(self).update(state, lock=threading.RLock())

    @classmethod
    def from_events(
        cls,
        events: Iterable[ev.Event],
        cost: CostConfiguration | None = None,
        prices: Mapping[str, Price] | None = None,
    ) -> TraceFold:
        """The fold of these events, in order."""
        fold = cls(cost, prices)
        for event in events:
            fold.add(event)
        return fold

    def add(self, event: ev.Event) -> None:
        """Take in the next event. A type that it doesn't know changes nothing."""
        with self.lock:
            self.tree.next_version()
            type_, calls = type(event), self._calls
            part = self if type_ in self.handlers else calls if type_ in calls.handlers else self._operations
            part.take_in(event)

    def add_scores(self, records: Iterable[ScoreRecord]) -> bool:
        """Take in scores of the run, or of the rows of a map (V9), whenever they come, also before the plan.

        Args:
            records: in the order in which they were given; those that are known already change nothing.

        Returns:
            Whether there was a new one.
        """
        with self.lock:
            return self._scores.add(records, keeps_texts=self.capture_mode is not CaptureMode.METADATA)

    @property
    def has_scores(self) -> bool:
        """Whether anything in it was scored."""
        return self._scores.change_count > 0

    def list_row_scores(self) -> list[ScoreRecord]:
        """The scores that count of the rows of a map as wholes, also of those that it took over."""
        return self._scores.list_of_rows()

    @property
    def count(self) -> int:
        """How many changes there were, by events and by scores; the version of whatever the last one changed."""
        return self.tree.version

    @property
    def event_count(self) -> int:
        """How many events were added."""
        return self.tree.version - self._scores.change_count

    def find_span(self, span_id: str) -> Span | None:
        """The span of this id, or the row that was taken over from an earlier map; None where there is none."""
        return self.spans.get(span_id) or self.taken_over.get(span_id)

    @property
    def counted_spans(self) -> Iterable[Span]:
        """The spans that count in the sums of the run."""
        return self.spans.values()

    @property
    def is_scripted(self) -> bool:
        """True once a script has answered for a model."""
        return self._calls.is_scripted

    @property
    def metrics(self) -> Metrics:
        """The sums over the run, as of now."""
        return replace(self.sum_metrics(self.run), earlier=self.earlier, run_id=self.run_id, _ask_family=_ask_family)

    @property
    def savings(self) -> Savings:
        """What was not spent, since tasks were reused, as of now."""
        reused = [each for each in self.counted_spans if each.reused]  # those of judges, too, which are no listed tasks
        tokens = [each.saved_tokens for each in reused if each.saved_tokens is not None]
        costs = [each.saved_cost for each in reused if each.saved_cost is not None and each.currency == self.currency]
        return Savings(
            currency=self.currency,
            task_count=sum(each.is_listed_task for each in reused),
            tokens=sum(tokens) if tokens or not reused else None,
            cost=sum(costs, Decimal(0)) if costs or not reused else None,
            ms=sum(each.saved_ms or 0.0 for each in reused),
        )

    def sum_metrics(self, span: Span | None) -> Metrics:
        """The sums over everything beneath a span."""
        totals = None if span is None else span.totals
        return (totals or UsageTotals()).to_metrics(self.currency)

    # --- The run ------------------------------------------------------------------------------------------------------

    @on(ev.RunStarted)
    def _on_run_started(self, event: ev.RunStarted) -> None:
        self.run_id, self.workflow = event.run_id, str(event.workflow)
        self.name, self.declared_name = event.name or event.variable, event.name
        self.inputs = {name: clean_value(name, value) for name, value in event.inputs.items()}
        self.max_concurrency, self.budget, self.rate_limit = event.max_concurrency, event.budget, event.rate_limit
        self.agents, self.capture_mode = event.agents, event.capture_mode
        self.task_noun, self.earlier = event.task_noun, event.earlier
        self.kind = event.kind or (RunKind.MAP if event.task_noun.is_run else RunKind.RUN)
        self.resumed_from, self.changed = event.resumed_from, event.changed
        self.forked_from_run, self.forked_from_span = event.forked_from_run, event.forked_from_span
        self.replayed_from = None if event.replayed_from is None else clean_text(event.replayed_from)
        self.definition_version, self.prompts_version = event.definition_version, event.prompts_version
        if event.currency is not None:
            self.currency = self.tree.currency = self.told_currency = event.currency
            self._calls.rates = None  # each call tells its own, or is priced by the public list
        self.status = RunStatus.RUNNING
        self.run = self.tree.begin(event, SpanKind.RUN, event.name or "run")

    @on(ev.PlanMade)
    def _on_plan_made(self, event: ev.PlanMade) -> None:
        """Make rows for everything that will come, so that rows never jump."""
        plan = self.plan = event.plan
        row_tasks = _list_planned(plan.row_plan)
        phase_ids = dict(zip(plan.phases, event.phase_span_ids, strict=True))
        for name, after in plan.phases.items():
            phase = self.tree.enter(event, SpanKind.PHASE, name, phase_ids[name], event.span_id, phase=name)
            phase.depends_on = after
        rows = {} if plan.design is None else {each.name: each for each in plan.design.rows}
        lines = {row: line for line, row in enumerate(dict.fromkeys(each.row for each in rows.values()))}
        if plan.design is not None and rows and self.capture_mode is not CaptureMode.METADATA:
            first, *others = [each for each in rows.values() if not lines[each.row]]
            given = [each.inputs for each in others]
            self.row_inputs = [
                name
                for name in plan.design.inputs
                if all(inputs.get(name) == first.inputs.get(name) for inputs in given)
            ]
        for planned, span_id in zip(plan.tasks, event.task_span_ids, strict=True):
            parent_id = event.span_id if planned.phase is None else phase_ids[planned.phase]
            facts = {"agent": planned.agent, "is_planned": True}
            task = self.tree.enter(event, SpanKind.TASK, planned.name, span_id, parent_id, **facts)
            task.depends_on, task.description = planned.depends_on, clean_text(planned.description)
            task.item_count = planned.item_count
            self.longest_list = max(self.longest_list, planned.item_count or 0)
            task.title = find_title(task.name, planned.agent, task.description, is_named=planned.is_named)
            task.managed = _clean_managed(planned)
            if (row := rows.get(planned.name)) is not None:
                task.planned_row, task.line = row, lines[row.row]
            if inside := row_tasks or _list_planned(planned.nested):
                self._planned_inside[span_id] = inside
            if planned.settings:
                settings = planned.settings.items()
                task.attributes = {"settings": {k: clean_text(v) if isinstance(v, str) else v for k, v in settings}}
        planned_names = {each.name for each in plan.tasks}
        kept = [each for each in rows.values() if each.earlier is not None and each.name not in planned_names]
        for place, row in enumerate(kept, -len(kept)):
            made = make_taken_over(event, row, parent=self.run, position=place, line=lines[row.row])
            self.taken_over[made.span_id] = made
            self.tree.touch(made)
        self._scores.learn_rows(plan)

    @on(ev.AttachmentAdded)
    def _on_attachment_added(self, event: ev.AttachmentAdded) -> None:
        self.attachments.setdefault(event.digest, event)

    @on(ev.Noted)
    def _on_noted(self, event: ev.Noted) -> None:
        self.note = clean_text(event.message)

    @on(ev.WaitEnded)
    def _on_wait_ended(self, event: ev.WaitEnded) -> None:
        self._operations.end_wait(event)
        if event.cause == STARTUP:
            left = [span.name for span in self.tree.open.values() if span.wait_kind == STARTUP]
            self.note = left[-1] if left else None

    @on(ev.Warned, ev.BudgetWarning)
    def _on_warned(self, event: ev.Warned | ev.BudgetWarning) -> None:
        self.warnings.append(clean_text(event.message))

    @on(ev.RunEnded)
    def _on_run_ended(self, event: ev.RunEnded) -> None:
        self.status, self.exit_reason, self.note = event.status, event.exit_reason, None
        self.shortfall = event.shortfall
        # What ignored its cancellation, or was cut off, never said how it ended: it is over with what is around it.
        for span in [span for span in self.tree.open.values() if span is not self.run]:
            parent = span.parent
            if parent is None or parent.end_ms is None or parent.end_time is None:
                self._calls.abandon(event, span)
            else:
                self._calls.abandon(replace(event, offset_s=parent.end_ms / 1000, time=parent.end_time), span)
        if self.run is not None:
            late = _OUT_OF_TIME if event.exit_reason is ExitReason.TIMEOUT else None
            ended = SpanStatus.INTERRUPTED if event.is_cut_off else _RUN_STATUS.get(event.status, SpanStatus.OK)
            self.tree.end(event, self.run, ended, summarize_error(event.error) or late)
            if self.run.error_type is not None:
                facts = (self.run.error_message, self.run.origin, self.run.http_status)
                self.error = ErrorSummary(self.run.error_type, *facts)
        marked, self.chain = mark_critical_spans(self.tree.spans)
        for span in marked:
            self.tree.touch(span)

    @on_open(ev.NestedRunEnded)
    def _on_nested_run_ended(self, event: ev.NestedRunEnded, ended: Span) -> None:
        """What never said how it ended is over with it; the innermost first."""
        inside = {event.span_id}
        for span in [*self.tree.open.values()]:
            if span.nested_in in inside and span.enclosing_id in inside:
                inside.add(span.span_id)
        for span in reversed([*self.tree.open.values()]):
            if span.span_id in inside and span.span_id != event.span_id:
                self._calls.abandon(event, span)
        self._operations.end_operation(event)
        if event.duration is not None:
            ended.worked_ms = to_ms(event.duration.total_seconds())

    # --- Phases and tasks ---------------------------------------------------------------------------------------------

    @on(ev.PhaseStarted)
    def _on_phase_started(self, event: ev.PhaseStarted) -> None:
        self.tree.begin(event, SpanKind.PHASE, event.phase or "")

    @on_open(ev.PhaseEnded)
    def _on_phase_ended(self, event: ev.PhaseEnded, span: Span) -> None:
        span.is_kept, span.ended_as, span.reason = event.is_kept, event.status, event.reason
        self.tree.end(event, span, SpanStatus.CANCELLED if event.is_cancelled else _PHASE_ENDS[event.status])

    @on(ev.PhaseSkipped)
    def _on_phase_skipped(self, event: ev.PhaseSkipped) -> None:
        self.tree.skip(event, self.tree.find_or_enter(event, SpanKind.PHASE, event.phase or ""), event.reason)

    @on(ev.TaskStarted)
    def _on_task_started(self, event: ev.TaskStarted) -> None:
        facts = {"is_planned": event.index is not None, "parent": self._find_review(event)}
        span = self.tree.begin(event, SpanKind.TASK, event.task or "", event.agent, **facts)
        span.description = clean_text(event.description)
        if span.parent is not None and span.parent.kind is SpanKind.DELEGATION:
            self._note_worker(span, span.parent)
        # An item: what is planned has an index.
        if event.index is None and span.parent is not None and span.parent.item_count is not None:
            span.item_of = span.parent.name
            if span.parent.items_done + span.parent.items_failed >= span.parent.item_count:  # all are done again
                span.parent.items_done = span.parent.items_failed = 0
        if event.label:
            span.title = cut_words(clean_text(event.label))
        if self.task_noun.is_run:
            span.row = self._find_row(span)
        if span.nested_in is not None and span.delegation_id is None:
            self._learn_plan(span, self.tree.spans.get(span.nested_in))
        if span.parent is not None and (span.parent.attributes or {}).get("kind") == RunKind.MAP:
            self._count_row(span.parent)
        span.is_fallback = False  # what was sent back begins with its own agent again
        span.queue_ms = (span.queue_ms or 0.0) + to_ms(event.queued_s)
        if span.inactive_intervals:
            span.attempt = (span.attempt or 1) + 1
            span.reused, span.reuse_reason = False, None  # only whether what is done again is reused counts
            span.saved_tokens = span.saved_cost = span.saved_ms = None
            between = span.inactive_intervals[-1]
            was_sent_back = span.parent is None or not span.parent.is_repeated
            said = describe_return(None) if was_sent_back else DONE_AGAIN
            span.send_back(between.end_ms, between.start_ms, said, end_seq=between.end_seq)
        # Until its input is prepared, all but what its children take is the making of the prompt.
        self._prompts[span.span_id] = (to_ms(event.offset_s), span.covered_ms)

    def _count_row(self, nested: Span) -> None:
        """A row begins of a map that runs inside of a task, which views fold where they are many."""
        self._rows_begun[nested.span_id] += 1
        around = nested.parent
        while around is not None and around.kind is not SpanKind.TASK:
            around = around.parent
        if around is not None and self._rows_begun[nested.span_id] > (around.map_rows or 0):
            around.map_rows = self._rows_begun[nested.span_id]
            self.tree.touch(around)

    def _learn_plan(self, span: Span, nested: Span | None) -> None:
        """A task of a run inside of one, of an item or of a row: which tasks it sees to, and what runs inside of it."""
        around = None if nested is None else nested.parent
        if around is not None and around.item_of is not None:
            around = around.parent
        planned = None if around is None else self._planned_inside.get(around.span_id, {}).get(span.name)
        if planned is not None:
            span.managed = _clean_managed(planned)
            if inside := _list_planned(planned.nested):
                self._planned_inside[span.span_id] = inside

    def _note_worker(self, span: Span, delegation: Span) -> None:
        """A worker begins: its task is called by the written one that it was told of, or by its first words."""
        delegation.worker = span
        manager = self.tree.spans.get(delegation.task_id or "")
        told = [] if manager is None else find_told(delegation.input, manager.managed)
        span.title = title_written(told[0]) if told else cut_words(span.description or "")
        if manager is not None:
            self.tree.touch(manager)

    @on_open(ev.ItemsListed)
    def _on_items_listed(self, event: ev.ItemsListed, span: Span) -> None:
        span.item_count = event.count
        self.longest_list = max(self.longest_list, event.count)
        span.items_done = span.items_failed = 0
        self.tree.touch(span)

    @on_open(ev.ProgressReported)
    def _on_progress_reported(self, event: ev.ProgressReported, span: Span) -> None:
        share = "" if event.fraction is None else f"{event.fraction:.0%}"
        told = " · ".join(filter(None, [clean_text(event.text), share]))
        span.attributes = {**(span.attributes or {}), "progress": told}
        self.tree.touch(span)

    def _find_row(self, span: Span) -> str | None:
        """The row of a map whose own run this task is of; None for the row itself, and for what runs further inside."""
        around = None if span.delegation_id is not None else self.tree.spans.get(span.nested_in or "")
        row = None if around is None else around.parent
        return row.name if row is not None and row.is_own_task else None

    def _find_review(self, event: ev.TaskStarted) -> Span | None:
        """The review of a phase that this task answers: its work is beside the review, and counts as inside."""
        phase = self.tree.spans.get(event.parent_id or "")
        if event.index is not None or phase is None or phase.kind is not SpanKind.PHASE:
            return None
        asked = (span for span in self.tree.open.values() if span.kind is SpanKind.REVIEW and span.parent is phase)
        return next(asked, None)

    @on_open(ev.TaskInputPrepared)
    def _on_task_input_prepared(self, event: ev.TaskInputPrepared, span: Span) -> None:
        span.context = event.context
        if event.system_prompt:
            self.log.add(event, span, "system", event.system_prompt)
        for each in event.left_out:
            self.log.add_earlier(event, span, each, is_left_out=True)
        for each in event.earlier:
            self.log.add_earlier(event, span, each)
        if event.user_prompt or not event.earlier:  # a call that is made again may come after the result of a tool
            self.log.add(event, span, "user", event.user_prompt)
        since_ms, covered_ms = self._prompts.pop(event.span_id, (None, 0.0))
        if since_ms is not None:
            elapsed_ms = to_ms(event.offset_s) - since_ms - (span.covered_ms - covered_ms)
            built_ms = elapsed_ms if event.build_s is None else to_ms(event.build_s)
            for totals in self.tree.touch_totals_around(span):
                totals.prompt_ms += built_ms

    @on_open(ev.PhaseRetried, ev.TaskRetried)
    def _on_sent_back(self, event: ev.TaskRetried | ev.PhaseRetried, span: Span) -> None:
        """A review wants it done again: a task goes on in its span, the tasks of a phase start again in theirs."""
        count, span.attempt = span.attempt, event.attempt
        self.tree.touch(span)
        if isinstance(event, ev.PhaseRetried):
            end_ms, feedback = to_ms(event.offset_s), clean_text(event.feedback)
            is_judged = span.answer is not None or not feedback.startswith("until ")
            said = describe_return(feedback) if is_judged else f"{DONE_AGAIN} {feedback}"
            facts = {"end_time": event.time, "feedback": feedback, "totals": span.attempt_totals}
            span.send_back(end_ms, end_ms, said, end_seq=event.seq, **facts)
            span.attempt_totals = UsageTotals()
        else:
            span.attempt = (count or 1) + 1  # in files of 0.1.0 the event counts from the latest start, of several
            self._prompts[span.span_id] = (to_ms(event.offset_s), span.covered_ms)
            span.retry_reason = event.cause if event.error is None else type(event.error).__name__
            end_ms = to_ms(event.offset_s)
            if event.error is not None:  # a handler that failed is tried again, which nobody has asked for
                span.waits = (*span.waits, (end_ms, end_ms + to_ms(event.delay_s)))
            else:
                said = describe_return(clean_text(event.feedback))
                span.send_back(end_ms, end_ms + to_ms(event.delay_s), said, end_seq=event.seq)
            span.agent, span.is_fallback = self._replaced.pop(span.span_id, span.agent), False
            span.failed_child = None

    @on_open(ev.TaskFellBack)
    def _on_task_fell_back(self, event: ev.TaskFellBack, span: Span) -> None:
        if event.replaced:
            self._replaced[span.span_id] = span.agent
        span.agent, span.is_fallback, span.failed_child = event.agent, True, None
        for totals in self.tree.touch_totals_around(span):
            totals.fallback_count += 1

    @on_open(ev.TaskCompleted)
    def _on_task_completed(self, event: ev.TaskCompleted, span: Span) -> None:
        self.tree.end(event, span, SpanStatus.OK)
        span.output = self.log.clean(event.output.raw)
        _fix_times(span, event)
        span.agent, span.is_fallback = event.output.agent_role, event.output.from_fallback

    @on_open(ev.TaskReused)
    def _on_task_reused(self, event: ev.TaskReused, span: Span) -> None:
        self._on_task_completed(event)
        span.reused, span.reuse_reason = True, clean_text(event.reason)
        span.saved_tokens, span.saved_cost, span.saved_ms = event.saved_tokens, event.saved_cost, event.saved_ms
        span.currency = event.currency

    @on_open(ev.TaskNotReused)
    def _on_task_not_reused(self, event: ev.TaskNotReused, span: Span) -> None:
        self.tree.touch(span)
        span.reuse_reason = clean_text(event.reason)

    @on_open(ev.TaskFailed)
    def _on_task_failed(self, event: ev.TaskFailed, span: Span) -> None:
        self.tree.end(event, span, event.status, summarize_error(event.error))
        _fix_times(span, event)

    @on(ev.TaskSkipped)
    def _on_task_skipped(self, event: ev.TaskSkipped) -> None:
        span = self.tree.find_or_enter(event, SpanKind.TASK, event.task or "")
        self.tree.skip(event, span, event.reason)
        _fix_times(span, event)


def _fix_times(span: Span, event: ev.TaskCompleted | ev.TaskFailed | ev.TaskSkipped) -> None:
    """What the end of a task tells of its time."""
    span.worked_ms = None if event.duration is None else to_ms(event.duration.total_seconds())
    began_ms = span.start_ms or 0.0
    span.waits += tuple((began_ms + to_ms(first), began_ms + to_ms(last)) for first, last in event.handler_waits)


def _ask_family(metrics: Metrics) -> FamilySums:
    sums: FamilySums = render_view("family", metrics)
    return sums


def _list_planned(plan: ExecutionPlan | None) -> Mapping[str, PlannedTask]:
    """The tasks of the plan of what runs inside, by their names."""
    return {} if plan is None else {each.name: each for each in plan.tasks}


def _clean_managed(planned: PlannedTask) -> tuple[PlannedTask, ...]:
    return tuple(replace(each, description=clean_text(each.description)) for each in planned.managed)


_Place: TypeAlias = tuple[str | None, str | None, int | None]
"""Variant, row and repeat."""


class ScoreFold:
    """The scores of one run, put where they belong among its spans (V9), so that views can tell and colour them.

    A score of a row of a map belongs to the task that the row is in the map; one of something inside a run to its span.

    Attributes:
        names: of the scores, in order of appearance: the order in which spans have them.
        of_times: those of times of runs, in the order in which they came; replaced ones, too.
        change_count: how often there were new ones.
    """

    def __init__(self, tree: SpanTree, taken_over: Mapping[str, Span]) -> None:
        self.names: list[str] = []
        self.of_times: list[ScoreRecord] = []
        self.change_count: int = 0
        self._tree = tree
        self._taken_over = taken_over
        self._known: set[str] = set()
        self._by_span: dict[str, list[ScoreRecord]] = {}
        self._rows: dict[_Place, str] = {}
        self._early: list[ScoreRecord] = []

    def learn_rows(self, plan: ExecutionPlan) -> None:
        """The plan of a map says which task is which row; scores that came before it find their place."""
        if plan.design is None:
            return
        tasks = {span.name: span_id for span_id, span in self._tree.spans.items() if span.is_planned}
        tasks |= {span.name: span_id for span_id, span in self._taken_over.items()}
        self._rows = {
            (each.variant, each.row or None, each.repeat): tasks[each.name]
            for each in plan.design.rows
            if each.name in tasks
        }
        early, self._early = self._early, []
        self._place(early)

    def add(self, records: Iterable[ScoreRecord], *, keeps_texts: bool) -> bool:
        """Take in scores of the run; those that it has already change nothing.

        Args:
            records: in the order in which they were given.
            keeps_texts: whether words of judges and people may be told (T6a).

        Returns:
            Whether there was a new one.
        """
        new = [each if keeps_texts else each.without_texts() for each in records if each.id not in self._known]
        self._known.update(each.id for each in new)
        if new:
            self.change_count += 1
            self._tree.next_version()
            self._place(new)
        return bool(new)

    def list_of_rows(self) -> list[ScoreRecord]:
        """Those that count of the rows of a map as wholes, also of those that views don't have."""
        known = chain(chain.from_iterable(self._by_span.values()), self._early)
        return [each for each in list_current(known) if each.is_of_run and each.map_run_id is not None]

    def _place(self, records: Iterable[ScoreRecord]) -> None:
        for each in records:
            if each.from_ms is not None:  # of no span
                self.of_times.append(each)
                continue
            row_id = None if each.map_run_id is None else self._rows.get((each.variant, each.row, each.repeat))
            span_id = each.span_id or row_id or each.run_id
            if (
                span := self._tree.spans.get(span_id) or self._taken_over.get(span_id)
            ) is None:  # not known yet, or not in this run
                self._early.append(each)
                continue
            name = clean_text(each.name)
            if name not in self.names:
                self.names.append(name)
            of_span = self._by_span.setdefault(span_id, [])
            of_span.append(each)
            values = {clean_text(score.name): read_score(score) for score in list_current(of_span)}
            span.scores = tuple(values.get(name) for name in self.names)
            self._tree.touch(span)
