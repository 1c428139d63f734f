"""The events of a run (section 7): one stream, typed, frozen, numbered without gaps.

Every view of a run is a fold over these. Each kind of span of the trace (run, phase, task, turn, llm, attempt, tool,
delegation, memory, review, guardrail, wait) has one event that starts it and exactly one that ends it, also when it
fails or is cancelled. `span_id` is the span
that the event belongs to, `parent_id` the span around that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, dataclass_transform

from ensemble_notebook.domain.choice import CaptureMode, ExitReason, PhaseStatus, RunStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.limit import Budget, Spending
from ensemble_notebook.domain.metric import TokenUsage
from ensemble_notebook.domain.model import ToolCall
from ensemble_notebook.domain.output import TaskOutput
from ensemble_notebook.domain.plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.review import ReviewDecision, ReviewRequest

E = TypeVar("E")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(cls: type[E]) -> type[E]:
    """The form of every event: frozen, slotted, keyword-only."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


@event
class Event:
    """What all events have.

    Attributes:
        run_id: the run.
        seq: position in the stream, from 0, without gaps.
        span_id: the span it belongs to.
        parent_id: the span around that one; None for the run.
        time: UTC.
        offset_s: seconds since the run started, on a monotonic clock.
        task, phase: names, where it belongs to one.
        depends_on: names of the tasks or phases that this one waited for.
    """

    run_id: str
    seq: int
    span_id: str
    parent_id: str | None
    time: datetime
    offset_s: float
    task: str | None = None
    phase: str | None = None
    depends_on: tuple[str, ...] = ()


@event
class RunStarted(Event):
    """A run begins. `inputs` are the template variables as text."""

    name: str | None
    workflow: str
    inputs: Mapping[str, str]
    max_concurrency: int | None
    budget: Budget | None = None
    capture_mode: CaptureMode = CaptureMode.OFF
    agents: tuple[PlannedAgent, ...] = ()


@event
class PlanMade(Event):
    """What is going to happen. The ids are those of the spans that will come: of ``plan.tasks``, of ``plan.phases``."""

    plan: ExecutionPlan
    task_span_ids: tuple[str, ...]
    phase_span_ids: tuple[str, ...]


@event
class Noted(Event):
    """Something that a person watching should know, e.g. that the local model is being started."""

    message: str


@event
class Warned(Event):
    """Something is odd but no reason to stop; also logged."""

    message: str


@event
class RunEnded(Event):
    """The last event of every run."""

    status: RunStatus
    exit_reason: ExitReason
    error: BaseException | None = None


@event
class PhaseStarted(Event):
    """The last predecessor of a phase has completed."""


@event
class PhaseEnded(Event):
    """Every task of a phase is resolved. `is_cancelled` where the run was stopped meanwhile."""

    status: PhaseStatus
    is_cancelled: bool = False


@event
class PhaseRetried(Event):
    """A review sent a phase back: its tasks run once more, as attempt number `attempt`, with the feedback (E28)."""

    attempt: int
    feedback: str


@event
class PhaseSkipped(Event):
    """A phase will not run."""

    reason: str


@event
class TaskStarted(Event):
    """A task begins; `queued_s` is how long it was ready and had to wait for a free place.

    Work that was delegated is a task, too, in the span of its delegation: it is not in the plan, `index` and `total`
    are None.
    """

    agent: str
    description: str
    index: int | None
    total: int | None
    queued_s: float


@event
class TaskInputPrepared(Event):
    """The prompts of a task, as the model gets them; empty system prompt for a handler."""

    system_prompt: str
    user_prompt: str
    context: tuple[str, ...]


@event
class TaskRetried(Event):
    """A review sent a task back: it is done once more, as attempt number `attempt`, with the feedback (E45)."""

    attempt: int
    feedback: str


@event
class TaskFellBack(Event):
    """The task's own worker has finally failed, and `agent` takes over; what follows in this task is its work (E31)."""

    agent: str
    error: BaseException


@event
class TaskCompleted(Event):
    """A task has its output."""

    output: TaskOutput


@event
class TaskFailed(Event):
    """A task ended without output; `status` is ERROR or CANCELLED."""

    agent: str
    error: BaseException
    status: SpanStatus


@event
class TaskSkipped(Event):
    """A task will not run."""

    reason: str


@event
class TurnStarted(Event):
    """One round of the agent loop: a model reply and the tool calls it asks for. `iteration` counts from 1.

    A correction of a structured output (E16) is a round, too. `is_fallback` where a fallback agent is at work.
    """

    agent: str
    iteration: int
    is_fallback: bool = False
    is_correction: bool = False


@event
class TurnEnded(Event):
    """The round is over."""

    status: SpanStatus


@event
class LlmCallStarted(Event):
    """A reply is asked for. `model` is the name as requested, `provider` who serves it, where known."""

    agent: str
    model: str
    provider: str | None
    max_attempts: int
    is_scripted: bool


@event
class LlmAttemptStarted(Event):
    """One physical request; its span is a child of the call's. `attempt` counts from 1."""

    attempt: int


@event
class LlmToken(Event):
    """A piece of streamed text, in the span of the call."""

    text: str


@event
class LlmAttemptEnded(Event):
    """A physical request is over; the leaf that carries usage, also when it failed (T2)."""

    attempt: int
    status: SpanStatus
    usage: TokenUsage
    error: BaseException | None = None


@event
class LlmCallRetried(Event):
    """Attempt number `attempt` failed for `reason` (``"429"``, ...); the next one follows after `delay_s` seconds."""

    attempt: int
    delay_s: float
    reason: str
    error: BaseException


@event
class LlmCallCompleted(Event):
    """The reply. `model` is the name that the provider gave; `time_to_first_token_s` is None when not streamed."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: TokenUsage
    model: str | None
    finish_reason: str | None
    time_to_first_token_s: float | None


@event
class LlmCallFailed(Event):
    """No reply, retries included; `status` is ERROR or CANCELLED."""

    error: BaseException
    status: SpanStatus


@event
class ToolCallStarted(Event):
    """A requested tool call begins. `arguments` is the text of its JSON, as the model wrote it where known."""

    agent: str
    tool: str
    tool_call_id: str
    arguments: str


@event
class ToolCallCompleted(Event):
    """A tool call is over. `result` is the text that the model got; `error` what the tool raised, if it did."""

    tool: str
    tool_call_id: str
    status: SpanStatus
    outcome: ToolOutcome | None
    result: str
    error: BaseException | None = None


@event
class DelegationStarted(Event):
    """An agent asks another one to work, in the span of the tool call by which it asks (E23)."""

    delegator: str
    depth: int
    request: DelegationRequest


@event
class DelegationCompleted(Event):
    """The worker has answered. `request` is what the worker got, after policies; `output` is its task's."""

    request: DelegationRequest
    response: DelegationResponse
    output: TaskOutput | None = None


@event
class DelegationFailed(Event):
    """Refused by a guard or a policy (`error` is None), failed, or cancelled; `status` is ERROR or CANCELLED."""

    request: DelegationRequest
    response: DelegationResponse
    status: SpanStatus = SpanStatus.ERROR
    error: BaseException | None = None


@event
class ReviewRequested(Event):
    """A person, or what stands for one, is asked; the span lasts until `ReviewAnswered`."""

    request: ReviewRequest


@event
class ReviewAnswered(Event):
    """The answer. `decision` is None where there was none: nobody answered in time and that fails, or the run stopped.

    `is_timeout` where `on_timeout` decided.
    """

    decision: ReviewDecision | None
    waited_s: float
    is_timeout: bool = False
    status: SpanStatus = SpanStatus.OK
    error: BaseException | None = None


@event
class GuardrailStarted(Event):
    """A guardrail looks at the input or the output of a task. `kind` is ``"input"`` or ``"output"`` (E18)."""

    kind: str
    name: str


@event
class GuardrailEnded(Event):
    """It has passed (OK), or stopped the task (ERROR) for a reason."""

    status: SpanStatus
    message: str = ""


@event
class MemoryStarted(Event):
    """A scope of the memory is read or written. `operation` is ``"retrieve"`` or ``"store"`` (E44)."""

    operation: str
    scope: str


@event
class MemoryEnded(Event):
    """`count` entries were found or written."""

    status: SpanStatus
    count: int
    error: BaseException | None = None


@event
class WaitStarted(Event):
    """A model request has to wait, inside its call. `cause` is ``"rate_limit"`` or ``"budget"``."""

    cause: str


@event
class WaitEnded(Event):
    """The wait is over, after `waited_s` seconds."""

    cause: str
    waited_s: float
    status: SpanStatus = SpanStatus.OK
    error: BaseException | None = None


@event
class RateLimitWaited(WaitEnded):
    """A wait for a rate limit is over; ERROR when it would have been longer than the limit's `wait_timeout` (E37)."""


@event
class BudgetWarning(Event):
    """A share `warn_at` of some limit is spent or reserved; once per budget (E36)."""

    message: str
    spent: Spending
    budget: Budget
