"""The events of a run as a whole, of its phases and of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    ExitReason,
    PhaseStatus,
    RunStatus,
    SpanStatus,
    TaskNoun,
)
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.outputs.conversation import ChatMessage
from ensemble_notebook.domain.outputs.task_output import Sums, TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.seams.event import Event, event


@event
class RunStarted(Event):
    """A run begins.

    Attributes:
        name: of the ensemble; None if it has none.
        workflow: of the ensemble.
        inputs: the template variables as text.
        max_concurrency: the most tasks at the same time; None: no limit.
        budget: of the run; None: no limit.
        capture_mode: how much is recorded.
        agents: all who take part.
        replayed_from: name of the recording that answers in place of models; None if models are asked.
        resumed_from: id of the run that this one resumes; None if there is none.
        earlier: what that one and those before it took, or of a map those whose rows it took over; None if there are
            none, and in files of earlier versions.
        task_noun: what views call its tasks.
        definition_version: of what was declared: the same definition, the same version. None in files of earlier
            versions of this package.
        prompts_version: of the texts of its tasks and agents, likewise.
        variable: that its output is bound to in a notebook; None where nobody chose one.
        rate_limit: that all model requests of the run pass; None: no limit, and in files of earlier versions.
        currency: of its costs. None in files of earlier versions, in which no request tells its rates.
    """

    name: str | None
    workflow: str
    inputs: Mapping[str, str]
    max_concurrency: int | None
    budget: Budget | None = None
    capture_mode: CaptureMode = CaptureMode.OFF
    agents: tuple[PlannedAgent, ...] = ()
    replayed_from: str | None = None
    resumed_from: str | None = None
    task_noun: TaskNoun = TaskNoun.TASK
    definition_version: str | None = None
    prompts_version: str | None = None
    variable: str | None = None
    rate_limit: RateLimit | None = None
    currency: str | None = None
    earlier: Sums | None = None


@event
class PlanMade(Event):
    """The plan of the run.

    Attributes:
        plan: what is going to happen.
        task_span_ids: of the spans to come, in the order of ``plan.tasks``.
        phase_span_ids: likewise, in the order of ``plan.phases``.
    """

    plan: ExecutionPlan
    task_span_ids: tuple[str, ...]
    phase_span_ids: tuple[str, ...]


@event
class Noted(Event):
    """Something that a person watching should know, for example that the local model is being started.

    Attributes:
        message: a sentence.
    """

    message: str


@event
class Warned(Event):
    """Something is unusual, but no reason to stop. It is also logged.

    Attributes:
        message: a sentence.
    """

    message: str


@event
class RunEnded(Event):
    """The last event of every run.

    Attributes:
        status: how it ended.
        exit_reason: why it ended.
        error: what the run failed with; None if it did not fail.
        is_cut_off: the run never came to its end, since its process was gone; what was open then was interrupted.
        duration: how long it took, without startups while nothing else was done; None in files of earlier versions.
        shortfall: what was left of the budget that ended it, and what the next call may need, in words; None where it
            was used up, or did not end it.
    """

    status: RunStatus
    exit_reason: ExitReason
    error: BaseException | None = None
    is_cut_off: bool = False
    duration: timedelta | None = None
    shortfall: str | None = None


@event
class NestedRunStarted(Event):
    """A function called by this run has started a run of its own. Its work follows inside this span.

    Attributes:
        name: of the nested run.
        nested_run_id: its id.
        workflow: of its ensemble.
    """

    name: str
    nested_run_id: str
    workflow: str


@event
class NestedRunEnded(Event):
    """A nested run has ended, or nobody waits for it any more; then whatever is still open inside counts as over.

    Attributes:
        status: of the span.
        run_status: of the nested run; None if nobody waited for its end.
        error: what it failed with.
        duration: as for `RunEnded`; None if nobody waited for its end.
    """

    status: SpanStatus
    run_status: RunStatus | None = None
    error: BaseException | None = None
    duration: timedelta | None = None


@event
class PhaseStarted(Event):
    """A phase begins: the last of the phases that it waited for has completed."""


@event
class PhaseEnded(Event):
    """Every task of a phase is completed, failed, skipped or cancelled.

    Attributes:
        status: of the phase; where a person has left the run, EXITED_EARLY, or SKIPPED if nothing of it was done.
        is_cancelled: whether it was cut short because the run was stopped, or its budget was used up.
        is_kept: whether its last outputs are kept although they are not what was asked for: no retry or round was left.
        reason: why nothing more of it was started, where a person has left the run.
    """

    status: PhaseStatus
    is_cancelled: bool = False
    is_kept: bool = False
    reason: str | None = None


@event
class PhaseRetried(Event):
    """A phase is done again: its review sent it back, or its `until` does not hold yet.

    Attributes:
        attempt: number of the next attempt, from 2.
        feedback: of the review; of a phase with `until`, that condition in words.
        tasks: those that are done again: the ones that the feedback names, and all that depend on them. Empty in files
            of older versions, where all tasks were done again.
    """

    attempt: int
    feedback: str
    tasks: tuple[str, ...] = ()


@event
class PhaseSkipped(Event):
    """A phase will not run.

    Attributes:
        reason: why, in words.
    """

    reason: str


@event
class TaskStarted(Event):
    """A task begins. Delegated work is a task, too, in the span of its delegation.

    Attributes:
        agent: role of who does it.
        description: with its variables filled in.
        index: position in the plan, from 0; None for delegated work.
        total: number of tasks in the plan; None for delegated work.
        queued_s: seconds that the task was ready and waited for a free place.
        label: of an item of a task with `for_each`: what a person calls it; empty where it has no name.
    """

    agent: str
    description: str
    index: int | None
    total: int | None
    queued_s: float
    label: str = ""


@event
class ItemsListed(Event):
    """The items of a task with `for_each` are known. Each item is a task in its span.

    Attributes:
        count: how many.
    """

    count: int


@event
class ProgressReported(Event):
    """Code of the user says how far it is, by `RunContext.progress`. It belongs to the span that called it.

    Attributes:
        text: a few words.
        fraction: the share that is done, 0 to 1; None where it does not say.
    """

    text: str
    fraction: float | None = None


@event
class TaskInputPrepared(Event):
    """The prompts of a task, as the model gets them.

    Attributes:
        system_prompt: empty for a handler.
        user_prompt: with everything that the task reads.
        context: names of the tasks whose outputs are in it.
        build_s: seconds that it took to make the prompts; None in files of 0.1.0.
        earlier: the conversation that the task continues, as far as it is sent, between the two prompts.
        left_out: the turns before, which are not.
    """

    system_prompt: str
    user_prompt: str
    context: tuple[str, ...]
    build_s: float | None = None
    earlier: tuple[ChatMessage, ...] = ()
    left_out: tuple[ChatMessage, ...] = ()


@event
class TaskRetried(Event):
    """A task is done once more.

    Attributes:
        attempt: number of the next attempt.
        feedback: what should be different; empty after an error.
        cause: who sent it back: ``"review"`` or ``"guardrail"``, or ``"error"`` if its handler failed.
        delay_s: seconds until the attempt.
        error: what the handler failed with.
    """

    attempt: int
    feedback: str
    cause: str = "review"
    delay_s: float = 0.0
    error: BaseException | None = None


@event
class TaskFellBack(Event):
    """The task's own agent has finally failed, and the fallback takes over.

    What follows in this task is the fallback's work.

    Attributes:
        agent: role of the fallback.
        error: what the agent failed with.
        replaced: role of the agent that failed; empty in files of older versions.
    """

    agent: str
    error: BaseException
    replaced: str = ""


@event
class TaskCompleted(Event):
    """A task has its output.

    Attributes:
        output: as it goes to the tasks that read it.
        duration: how long the task, or agents on its behalf, worked or waited for a model, a tool, a limit or a person.
            Without its queue, startups, and the time between the attempts of its phase. None in files of 0.1.0.
        handler_waits: when the task was not over, and its plain function of a handler waited: for a thread, for the
            next attempt, for the run to take what it gave. From and to, in seconds since the task first began; what
            events before this one have told is left out, and so is what is shorter than a millisecond.
    """

    output: TaskOutput
    duration: timedelta | None = None
    handler_waits: tuple[tuple[float, float], ...] = ()


@event
class TaskReused(TaskCompleted):
    """A task takes over its output from an earlier run, and does not run. Has the fields of `TaskCompleted`, too.

    Attributes:
        source_run_id: the run that did the work.
        reason: why its output could be reused, in words.
        saved_tokens: what the work took then; None if unknown.
        saved_cost: likewise, in `currency`.
        currency: code of the currency; None without a cost.
        saved_ms: how long the work took then, in milliseconds.
    """

    source_run_id: str
    reason: str
    saved_tokens: int | None = None
    saved_cost: Decimal | None = None
    currency: str | None = None
    saved_ms: float = 0.0


@event
class TaskNotReused(Event):
    """Reuse was asked for, but a task has to run.

    Attributes:
        reason: why, in words.
    """

    reason: str


@event
class TaskFailed(Event):
    """A task ended without an output.

    Attributes:
        agent: role of who did it.
        error: the exception.
        status: ERROR or CANCELLED.
        duration: as for `TaskCompleted`.
        handler_waits: likewise.
    """

    agent: str
    error: BaseException
    status: SpanStatus
    duration: timedelta | None = None
    handler_waits: tuple[tuple[float, float], ...] = ()


@event
class TaskSkipped(Event):
    """A task will not run, or not go on.

    Attributes:
        reason: why, in words.
        duration: as for `TaskCompleted`; None if it has never run.
        handler_waits: likewise, or empty.
    """

    reason: str
    duration: timedelta | None = None
    handler_waits: tuple[tuple[float, float], ...] = ()
