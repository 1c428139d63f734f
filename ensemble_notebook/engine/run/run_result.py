"""What a run came to, and which word fits it (E34); and the spans in which that is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from ensemble_notebook.domain.attachments import Attachment, read_attachment
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, ExitReason, RunStatus
from ensemble_notebook.domain.events import AttachmentAdded, Noted, PlanMade, RunEnded, RunStarted, Warned
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped, TaskOutput
from ensemble_notebook.domain.value_text import mend_text, write_whole
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.engine.task_timer import GroupTimer, TimedAround
from ensemble_notebook.errors import BudgetExceededError

_STATUS: Final = {
    ExitReason.COMPLETED: RunStatus.COMPLETED,
    ExitReason.USER_EXIT_EARLY: RunStatus.EXITED_EARLY,
    ExitReason.NOBODY_TO_ASK: RunStatus.EXITED_EARLY,
    ExitReason.BUDGET_EXCEEDED: RunStatus.BUDGET_EXCEEDED,
    ExitReason.INTERRUPTED: RunStatus.INTERRUPTED,
    ExitReason.TIMEOUT: RunStatus.FAILED,
    ExitReason.ERROR: RunStatus.FAILED,
}


@dataclass(slots=True)
class RunResult:
    """What a run came to, so far.

    Attributes:
        status: RUNNING until `conclude`.
        exit_reason: why nothing more was to start; COMPLETED unless something else happened.
        outputs: by task index, in completion order.
        failures: in order of failure.
        skipped: in the order in which that was decided.
        cancelled: indices of the tasks that were running when the run was stopped.
        is_doubtful: a phase went on although its review would have sent it back or its `until` does not hold,
            or a required stage is not complete.
        delegated: what the workers of a manager completed, in that order; all of it before the manager's own.
        budget_error: what was refused first because a budget is used up, of this run or of one around it.
    """

    status: RunStatus = RunStatus.RUNNING
    exit_reason: ExitReason = ExitReason.COMPLETED
    outputs: dict[int, TaskOutput] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    is_doubtful: bool = False
    delegated: tuple[TaskOutput, ...] = ()
    budget_error: BudgetExceededError | None = None

    @property
    def completed(self) -> tuple[TaskOutput, ...]:
        """All outputs, in the order in which they were completed."""
        return (*self.delegated, *self.outputs.values())

    @property
    def error(self) -> BaseException | None:
        """What the run failed with; None where it did not fail, be it with failures."""
        is_bearable = self.status is RunStatus.COMPLETED_WITH_WARNINGS
        return None if is_bearable or not self.failures else self.failures[0].error

    def forget(self, tasks: Mapping[int, str]) -> None:
        """Forget what came of the tasks of a phase that are done once more, given as names by index."""
        names = set(tasks.values())
        for index in tasks:
            self.outputs.pop(index, None)
        self.skipped = [each for each in self.skipped if each.kind != "task" or each.name not in names]
        self.failures = [each for each in self.failures if each.kind != "task" or not names & {each.name, each.item_of}]

    def conclude(self, strategy: ErrorStrategy, *, fallback_is_warning: bool) -> None:
        """Find the status. Where failures are borne (PARTIAL), a run fails only if nothing useful came of it.

        All roots failed is a case of that: what depends on them does not run.
        """
        if self.failures and self.exit_reason is ExitReason.COMPLETED:
            is_useful = any(output.raw.strip() for output in self.outputs.values())
            if strategy is not ErrorStrategy.PARTIAL or not is_useful:
                self.exit_reason = ExitReason.ERROR
        self.status = _STATUS[self.exit_reason]
        fell_back = fallback_is_warning and any(output.from_fallback for output in self.outputs.values())
        if self.status is RunStatus.COMPLETED and (self.failures or fell_back or self.is_doubtful):
            self.status = RunStatus.COMPLETED_WITH_WARNINGS


class RunSpans:
    """All spans that are known before anything runs.

    Args:
        spec: the run.
        stream: takes the events.
        around: what the run's time is a part of, where it is nested in another run.

    Attributes:
        run: the span of the run.
        phases: by index.
        tasks: by index.
    """

    def __init__(self, spec: RunSpec, stream: EventStream, around: TimedAround | None = None) -> None:
        self._spec = spec
        self._stream = stream
        self.run = SpanEmitter(stream, stream.run_id, timer=GroupTimer(stream.offset_s, around))
        timer, run_id = self.run.timer, stream.run_id
        phases: list[SpanEmitter] = []
        for phase in spec.graph.phases:
            span_id, after = stream.new_span_id(), spec.plan.phases[phase.name]
            phases.append(SpanEmitter(stream, span_id, run_id, phase=phase.name, depends_on=after, timer=timer))
        self.phases = tuple(phases)
        self.tasks: list[SpanEmitter] = []
        for node in spec.graph.tasks:
            parent, planned = self.run if node.phase is None else self.phases[node.phase], spec.plan.tasks[node.index]
            has_items = node.task.for_each is not None
            self.tasks.append(parent.task_child(planned.name, planned.phase, planned.depends_on, has_items=has_items))

    def emit_run_started(self) -> None:
        """The run begins, and this is its plan."""
        spec, made = self._spec, self._spec.definition
        self.run.timer.start()
        self.run.emit(
            RunStarted,
            name=made.name,
            workflow=made.workflow.value,
            inputs={mend_text(name): _to_text(value) for name, value in spec.inputs.items()},
            max_concurrency=made.max_concurrency,
            budget=spec.budget,
            capture_mode=spec.capture_mode,
            agents=spec.agents,
            replayed_from=spec.replayed_from,
            resumed_from=spec.resumed_from,
            kind=spec.kind,
            **(
                {}
                if spec.forked_from is None
                else {
                    "forked_from_run": spec.forked_from.run_id,
                    "forked_from_span": spec.forked_from.span_id,
                    "changed": spec.forked_from.changed,
                }
            ),
            earlier=spec.earlier,
            task_noun=spec.task_noun,
            definition_version=None if spec.versions is None else spec.versions.definition,
            prompts_version=None if spec.versions is None else spec.versions.prompts,
            variable=spec.variable,
            rate_limit=made.rate_limit,
            currency=spec.currency,
        )
        self.run.emit(
            PlanMade,
            plan=spec.get_told_plan(),
            task_span_ids=tuple(span.span_id for span in self.tasks),
            phase_span_ids=tuple(span.span_id for span in self.phases),
        )
        if spec.replayed_from is not None:
            self.run.emit(Noted, message=f"Replaying {spec.replayed_from}: no model is asked.")
        if spec.resumed_from is not None:
            self.run.emit(Noted, message=f"Resuming {spec.resumed_from}: what it has done is not done again.")
        if (place := spec.forked_from) is not None:
            message = f"Forking {place.run_id} at {place.span_id}: what does not depend on that is kept."
            self.run.emit(Noted, message=message)
        if spec.continued_from is not None:
            self.run.emit(Noted, message=f"Continuing {spec.continued_from}: its tasks go on with their conversations.")
        for message in spec.warnings:
            self.warn(message)

    def emit_attachment(self, attachment: Attachment, thumbnail: str | None, fault: str) -> None:
        """The run has been given a picture or PDF, of which there is a small one, or not."""
        self.run.emit_once(
            attachment.digest,
            AttachmentAdded,
            digest=attachment.digest,
            media_type=attachment.media_type,
            size_bytes=len(attachment.data),
            file_name=attachment.name,
            page_count=attachment.page_count,
            thumbnail=thumbnail,
            thumbnail_fault=fault,
        )

    def emit_run_ended(self, result: RunResult) -> None:
        """The run is over; nothing is emitted any more."""
        duration = self.run.timer.stop()
        facts: dict[str, Any] = {"status": result.status, "exit_reason": result.exit_reason, "error": result.error}
        if result.budget_error is not None and result.exit_reason is ExitReason.BUDGET_EXCEEDED:
            facts["shortfall"] = result.budget_error.shortfall or None
        self.run.emit(RunEnded, **facts, duration=duration)
        self._stream.close()

    def warn(self, message: str) -> None:
        """Say something about the run as a whole."""
        self.run.emit(Warned, message=message)


def _to_text(value: object) -> str:
    """An input as text, for views; a value that has none is no reason not to run."""
    try:
        is_data = isinstance(value, Mapping | list | tuple | set | frozenset | timedelta)
        if is_data:
            return write_whole(value)
        return str(value) if (attachment := read_attachment(value)) is None else attachment.mark
    except Exception:  # noqa: BLE001 - it is the user's own `__str__`
        return f"<{type(value).__name__}>"
