"""The events of a run (docs/contract/engine.md#events): one stream, typed, frozen, numbered without gaps.

Every view of a run is a fold over these. Each kind of span of the trace has one event that starts it and exactly one
that ends it, also when it fails or is cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    ExitReason,
    PhaseStatus,
    RunKind,
    RunStatus,
    SpanStatus,
    TaskNoun,
    ToolOutcome,
)
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit, Spending
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest
from ensemble_notebook.domain.outputs.conversation import ChatMessage, ToolCall
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.task_output import Sums, TaskOutput, TokenUsage
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.seams.event import Event as Event  # noqa: PLC0414 - so that it is exported
from ensemble_notebook.domain.seams.event import event
from ensemble_notebook.domain.seams.noted_events import AttachmentAdded as AttachmentAdded  # noqa: PLC0414
from ensemble_notebook.domain.seams.noted_events import ProgressReported as ProgressReported  # noqa: PLC0414
from ensemble_notebook.domain.seams.noted_events import TimesMoved as TimesMoved  # noqa: PLC0414


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
        kind: what the run is; None in files of earlier versions.
        forked_from_run: id of the run that it forks, or makes a call of again; None if there is none.
        forked_from_span: id of the span of that run where it does.
        changed: what it changes there: the names of its arguments.
        earlier: what that run and those before it took, or of a map those whose rows it took over; None if unknown.
        task_noun: what views call its tasks.
        definition_version: the same definition, the same version. None in files of earlier versions of this package.
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
    kind: RunKind | None = None
    forked_from_run: str | None = None
    forked_from_span: str | None = None
    changed: tuple[str, ...] = ()
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
        phase_span_ids: likewise, of ``plan.phases``.
    """

    plan: ExecutionPlan
    task_span_ids: tuple[str, ...]
    phase_span_ids: tuple[str, ...]


@event
class Noted(Event):
    """Something that a person watching should know, such as that a model is being started; `message` is a sentence."""

    message: str


@event
class Warned(Noted):
    """Something is unusual, but no reason to stop; `message` is a sentence. It is also logged."""


@event
class RunEnded(Event):
    """The last event of every run.

    Attributes:
        status: how it ended.
        exit_reason: why it ended.
        error: what the run failed with; None if it did not fail.
        is_cut_off: the run never came to its end, since its process was gone; what was open then was interrupted.
        duration: how long it took, without startups while nothing else was done; None in files of earlier versions.
        shortfall: what was left of the budget that ended it, and what the next call may need, in words; else None.
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
        kind: that it is a map; None where it is none, and in files of earlier versions.
    """

    name: str
    nested_run_id: str
    workflow: str
    kind: RunKind | None = None


@event
class NestedRunEnded(Event):
    """A nested run has ended, or nobody waits for it any more; then whatever is still open inside counts as over.

    Attributes:
        status: of the span.
        run_status: of the nested run; None if nobody waited for its end, as is its `duration`.
        error: what it failed with.
        duration: as for `RunEnded`.
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
        status: where a person has left the run, EXITED_EARLY, or SKIPPED if nothing of it was done.
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
        tasks: those that the feedback names, and all that depend on them; empty in files of older versions: all.
    """

    attempt: int
    feedback: str
    tasks: tuple[str, ...] = ()


@event
class PhaseSkipped(Event):
    """A phase will not run; `reason` says why, in words."""

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
        label: what a person calls an item of a task with `for_each`, or a prompt of a session; empty where it has no
            name.
    """

    agent: str
    description: str
    index: int | None
    total: int | None
    queued_s: float
    label: str = ""


@event
class ItemsListed(Event):
    """The items of a task with `for_each` are known; `count` says how many. Each is a task in its span."""

    count: int


@event
class TaskInputPrepared(Event):
    """The prompts of a task, as the model gets them.

    Attributes:
        system_prompt: empty for a handler.
        user_prompt: with everything that the task reads; empty where what is `earlier` ends with the result of a tool.
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
    """The task's own agent has finally failed. What follows in this task is the work of its fallback.

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
        duration: how long it, or agents for it, worked or waited for a model, a tool, a limit or a person. Without its
            queue, startups, and the time between the attempts of its phase. None in files of 0.1.0.
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
    """Reuse was asked for, but a task has to run; `reason` says why, in words."""

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


@event
class TurnStarted(Event):
    """A turn of the agent loop begins: a model reply, and the tool calls that it asks for.

    Attributes:
        agent: role.
        iteration: number of the turn, from 1.
        is_fallback: whether a fallback agent works.
        is_correction: whether the turn asks to correct a structured output.
        prompt: what the correction, or the summary, asks; otherwise empty.
        is_summary: whether it sums up what is left out of an earlier conversation; its number is 0.
    """

    agent: str
    iteration: int
    is_fallback: bool = False
    is_correction: bool = False
    prompt: str = ""
    is_summary: bool = False


@event
class TurnEnded(Event):
    """A turn is over.

    Attributes:
        status: OK, ERROR, CANCELLED, or SKIPPED where a person has ended the run in it.
    """

    status: SpanStatus


@event
class LlmCallStarted(Event):
    """A model is asked for a reply.

    Attributes:
        agent: role.
        model: its name, as requested.
        provider: who serves it; None if unknown.
        max_attempts: the most requests that are made.
        is_scripted: whether the model follows a script.
        rates: the own rates that its requests are priced by; None: the public price list.
        changed: all that the model is told now, where a fork has changed it; None: what the conversation has.
        tool_characters: how long the descriptions of the tools are that it is offered, as JSON.
        context_window: tokens that it can take, as far as it says so itself; None where it does not.
    """

    agent: str
    model: str
    provider: str | None
    max_attempts: int
    is_scripted: bool
    rates: CostConfiguration | None = None
    changed: tuple[ChatMessage, ...] | None = None
    tool_characters: int = 0
    context_window: int | None = None


@event
class LlmAttemptStarted(Event):
    """A physical request starts. Its span is a child of the call's.

    Attributes:
        attempt: its number, from 1.
    """

    attempt: int


@event
class LlmToken(Event):
    """A piece of a streamed reply, in the span of the call.

    Attributes:
        text: the piece; concatenated, the pieces are the reply with the reasoning that its text begins with.
    """

    text: str


@event
class LlmAttemptEnded(Event):
    """A physical request is over. Usage is counted here, for failed requests too.

    Attributes:
        attempt: its number, from 1.
        status: OK, ERROR or CANCELLED.
        usage: its tokens.
        error: the exception, if it failed.
        cost: in dollars, where whoever made the request has told it; None: it has the price of its tokens.
        cost_source: who told it.
    """

    attempt: int
    status: SpanStatus
    usage: TokenUsage
    error: BaseException | None = None
    cost: Decimal | None = None
    cost_source: str | None = None


@event
class LlmCallRetried(Event):
    """An attempt failed, and another one follows.

    Attributes:
        attempt: number of the failed attempt.
        delay_s: seconds until the next one.
        reason: why, in short, such as ``"429"``.
        error: the exception.
    """

    attempt: int
    delay_s: float
    reason: str
    error: BaseException


@event
class LlmCallCompleted(Event):
    """A model has replied.

    Attributes:
        text: of the reply, without the reasoning that it begins with.
        tool_calls: that it asks for.
        usage: tokens of the successful request; of a reused reply, as in the earlier run.
        model: its name, as the provider gave it; None if it gave none.
        finish_reason: likewise.
        time_to_first_token_s: seconds; None if the reply was not streamed.
        reused: whether the reply is from an earlier run, so that no request was made.
        reasoning: what the model thought before it; of what stands in the text with its tags, which is the beginning.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: TokenUsage
    model: str | None
    finish_reason: str | None
    time_to_first_token_s: float | None
    reused: bool = False
    reasoning: str = ""


@event
class LlmCallFailed(Event):
    """There is no reply, after all retries.

    Attributes:
        error: the exception.
        status: ERROR, CANCELLED, or SKIPPED if the budget allowed no request.
    """

    error: BaseException
    status: SpanStatus


@event
class ToolCallStarted(Event):
    """A requested tool call begins.

    Attributes:
        agent: role.
        tool: name of the tool.
        tool_call_id: as in the model's reply.
        arguments: JSON text, as the model wrote it if that is known.
    """

    agent: str
    tool: str
    tool_call_id: str
    arguments: str


@event
class ToolCallCompleted(Event):
    """A tool call is over.

    Attributes:
        tool: name of the tool.
        tool_call_id: as in the model's reply.
        status: OK, ERROR, CANCELLED, INTERRUPTED if its end is not known, or SKIPPED if the tool has not heard of it.
        outcome: how it ended; None if it was cancelled, or the run ended before it began.
        result: the text that the model got.
        error: what the tool raised; None if it raised nothing.
        structured_output: the value that a `ToolResult` had beside its text.
        reused: whether the answer is from an earlier run, so that the tool was not called.
        pending: what waits for an answer, where it was not made for want of one; else None.
    """

    tool: str
    tool_call_id: str
    status: SpanStatus
    outcome: ToolOutcome | None
    result: str
    error: BaseException | None = None
    structured_output: Any = None
    reused: bool = False
    pending: PendingCall | None = None

    @property
    def is_executed(self) -> bool:
        """Whether it counts as executed: the tool has heard of it in this run."""
        return self.status is not SpanStatus.SKIPPED and not self.reused


@event
class DelegationStarted(Event):
    """An agent delegates work to another one, in the span of the tool call that asked for it.

    Attributes:
        delegator: role of the agent that asks.
        depth: of the delegation, from 1.
        request: as the agent made it.
    """

    delegator: str
    depth: int
    request: DelegationRequest


@event
class DelegationCompleted(Event):
    """The worker has answered.

    Attributes:
        request: as the worker got it, after all policies.
        response: what the delegating agent is told.
        output: of the worker's task.
    """

    request: DelegationRequest
    response: DelegationResponse
    output: TaskOutput | None = None


@event
class DelegationFailed(Event):
    """A delegation was refused by a guard or a policy, failed, or was cancelled.

    Attributes:
        request: as far as policies have changed it.
        response: what the delegating agent is told.
        status: ERROR or CANCELLED.
        error: the exception; None for a refusal.
    """

    request: DelegationRequest
    response: DelegationResponse
    status: SpanStatus = SpanStatus.ERROR
    error: BaseException | None = None


@event
class ReviewRequested(Event):
    """A review begins. Its span lasts until `ReviewAnswered`.

    Attributes:
        request: what is asked.
    """

    request: ReviewRequest


@event
class ReviewAnswered(Event):
    """A review is over.

    Attributes:
        decision: None if there is none: the timeout has passed and counts as a failure, or the run was stopped.
        waited_s: seconds since the request.
        is_timeout: whether `on_timeout` decided, since nobody answered in time.
        status: OK, ERROR, CANCELLED, or SKIPPED if the run closed or the budget was used up meanwhile.
        error: the exception, if the review failed.
        reused: whether the answer is from an earlier run, so that nobody was asked.
        by: ``"a person"``, the name of a handler, ``"on_timeout"``, or ``"nobody_to_ask"`` where that decided at once,
            since nobody could be asked; None where nothing was decided.
    """

    decision: ReviewDecision | None
    waited_s: float
    is_timeout: bool = False
    status: SpanStatus = SpanStatus.OK
    error: BaseException | None = None
    reused: bool = False
    by: str | None = None


@event
class GuardrailStarted(Event):
    """A guardrail checks the input or the output of a task.

    Attributes:
        kind: ``"input"`` or ``"output"``.
        name: of the function.
    """

    kind: str
    name: str


@event
class GuardrailEnded(Event):
    """A guardrail is done.

    Attributes:
        status: OK if the task may go on, ERROR if it was stopped.
        message: the reason, if it was stopped.
        error: the exception, if the guardrail raised one.
    """

    status: SpanStatus
    message: str = ""
    error: BaseException | None = None


@event
class MemoryStarted(Event):
    """A scope of the memory is read or written.

    Attributes:
        operation: ``"retrieve"`` or ``"store"``.
        scope: its name.
        store_kind: ``"short_term"``, ``"long_term"`` or ``"entity"``.
    """

    operation: str
    scope: str
    store_kind: str = "long_term"


@event
class MemoryEnded(Event):
    """A scope of the memory was read or written.

    Attributes:
        status: OK or ERROR.
        count: entries that were found or written.
        error: the exception, if it failed.
    """

    status: SpanStatus
    count: int
    error: BaseException | None = None


@event
class ScoreStarted(Event):
    """A scorer looks at what the run of a row has put out.

    Attributes:
        name: of the scorer.
    """

    name: str


@event
class ScoreEnded(Event):
    """A scorer is done. What it gave is beside the events: a score is no part of what was run.

    Attributes:
        status: OK, ERROR if it gave no score, or CANCELLED.
        error: the exception, if it failed.
    """

    status: SpanStatus
    error: BaseException | None = None


@event
class WaitStarted(Event):
    """Something has to wait.

    Attributes:
        cause: ``"rate_limit"``, ``"budget"`` or ``"connection"``, inside a model call, or ``"startup"``, of the run: a
            model is loaded, downloaded or started, once for all tasks (E57).
        subject: what is started; empty for other causes.
    """

    cause: str
    subject: str = ""


@event
class WaitEnded(Event):
    """A wait is over.

    Attributes:
        cause: as in `WaitStarted`.
        waited_s: seconds.
        status: ERROR if it was given up.
        error: why.
    """

    cause: str
    waited_s: float
    status: SpanStatus = SpanStatus.OK
    error: BaseException | None = None


@event
class RateLimitWaited(WaitEnded):
    """A wait for a rate limit is over; an ERROR if it would have taken longer than the limit's `wait_timeout`."""


@event
class BudgetWarning(Event):
    """The share `warn_at` of some limit is spent or reserved; emitted once per budget.

    Attributes:
        message: which limit, in words.
        spent: so far.
        budget: whose limit it is.
    """

    message: str
    spent: Spending
    budget: Budget
