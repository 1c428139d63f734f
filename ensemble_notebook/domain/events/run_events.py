"""The events of a run as a whole, of its phases and of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason, PhaseStatus, RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.seams.event import Event, event


@event
class RunStarted(Event):
    """A run begins. `inputs` are the template variables as text.

    `replayed_from` is the name of the recording that answers in place of models; None where models are asked (E42).
    """

    name: str | None
    workflow: str
    inputs: Mapping[str, str]
    max_concurrency: int | None
    budget: Budget | None = None
    capture_mode: CaptureMode = CaptureMode.OFF
    agents: tuple[PlannedAgent, ...] = ()
    replayed_from: str | None = None


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
class NestedRunStarted(Event):
    """A run begins inside a function that this run has called; what follows in its span is its work (E52)."""

    name: str
    nested_run_id: str
    workflow: str


@event
class NestedRunEnded(Event):
    """It has ended, or nobody waits for it any more: then `run_status` is None, and what is open inside is over."""

    status: SpanStatus
    run_status: RunStatus | None = None
    error: BaseException | None = None


@event
class PhaseStarted(Event):
    """The last predecessor of a phase has completed."""


@event
class PhaseEnded(Event):
    """Every task of a phase is resolved. `is_cancelled` where it was cut short: the run was stopped or closed."""

    status: PhaseStatus
    is_cancelled: bool = False


@event
class PhaseRetried(Event):
    """A review sent a phase back: `tasks` are done once more, in attempt number `attempt`, with the feedback (E28).

    `tasks` are those that the feedback addresses, and what depends on them; empty in files of older versions, where it
    was always all of them.
    """

    attempt: int
    feedback: str
    tasks: tuple[str, ...] = ()


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
    """A task is done once more, as attempt number `attempt` (E30, E45, E51).

    `cause` is who sent it back with the feedback, ``"review"`` or ``"guardrail"``, or ``"error"`` where its handler
    failed; then `error` says with what, and the attempt follows after `delay_s` seconds.
    """

    attempt: int
    feedback: str
    cause: str = "review"
    delay_s: float = 0.0
    error: BaseException | None = None


@event
class TaskFellBack(Event):
    """The task's own worker, `replaced`, has finally failed, and `agent` takes over (E31).

    What follows in this task is its work. `replaced` is empty in files of older versions.
    """

    agent: str
    error: BaseException
    replaced: str = ""


@event
class TaskCompleted(Event):
    """A task has its output.

    `duration` is the union of the intervals in which the task, or agents on its behalf, worked or waited for a model, a
    tool, a limit or a person: not its queue, not a startup, not the time in which it was over until its phase was sent
    back (E50). It is the output's, too; None in files of 0.1.0.
    """

    output: TaskOutput
    duration: timedelta | None = None


@event
class TaskFailed(Event):
    """A task ended without output; `status` is ERROR or CANCELLED, `duration` as of `TaskCompleted`."""

    agent: str
    error: BaseException
    status: SpanStatus
    duration: timedelta | None = None


@event
class TaskSkipped(Event):
    """A task will not run, or not go on; `duration` as of `TaskCompleted`, None where it has never run."""

    reason: str
    duration: timedelta | None = None
