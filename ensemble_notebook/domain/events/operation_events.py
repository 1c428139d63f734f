"""The events of delegations, reviews, guardrails, memory, scores, waits and budgets."""

from __future__ import annotations

from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.event import Event, event


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
        by: who decided: ``"a person"``, the name of a handler, ``"on_timeout"``, or ``"nobody_to_ask"`` where
            `on_timeout` decided at once, since nobody could be asked. None where nothing was decided.
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

    A startup belongs to the run: a model is loaded, downloaded or started, once for all tasks (E57).

    Attributes:
        cause: ``"rate_limit"``, ``"budget"`` or ``"connection"``, inside a model call, or ``"startup"``.
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
    """A wait for a rate limit is over.

    It is an ERROR if it would have taken longer than the limit's `wait_timeout`.
    """


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
