"""The events of what else happens in a task: delegations, reviews, guardrails, memory, waits, budgets."""

from __future__ import annotations

from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.event import Event, event


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
    """It has passed (OK), or stopped the task (ERROR) for a reason; `error` is what it raised, if it did."""

    status: SpanStatus
    message: str = ""
    error: BaseException | None = None


@event
class MemoryStarted(Event):
    """A scope of the memory is read or written. `operation` is ``"retrieve"`` or ``"store"`` (E44).

    `store_kind` is ``"short_term"``, ``"long_term"`` or ``"entity"``.
    """

    operation: str
    scope: str
    store_kind: str = "long_term"


@event
class MemoryEnded(Event):
    """`count` entries were found or written."""

    status: SpanStatus
    count: int
    error: BaseException | None = None


@event
class WaitStarted(Event):
    """Something has to wait. `cause` is ``"rate_limit"`` or ``"budget"``, inside a model call, or ``"startup"``.

    A startup belongs to the run: a model is loaded, fetched or started, once for all tasks (E57). `subject` says which.
    """

    cause: str
    subject: str = ""


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
