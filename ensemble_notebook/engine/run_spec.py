"""What the engine is told: the specification of a run, and each start of a task in it, whichever attempt it is."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain.attachments import HeldAttachments
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import HierarchicalConstraints
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode, RunKind, TaskNoun
from ensemble_notebook.domain.definitions.limits import Budget, Pricing, RateLimit, get_currency
from ensemble_notebook.domain.definitions.memory import MemoryStore
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import PlacedText
from ensemble_notebook.domain.fingerprints.task_keys import TaskKeys
from ensemble_notebook.domain.outputs.conversation import Messages, split_prompt
from ensemble_notebook.domain.outputs.task_output import Sums, TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, KnownItems, PlannedAgent
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.domain.planning.only_selection import GraphPart
from ensemble_notebook.domain.planning.versions import Versions
from ensemble_notebook.domain.text_filter import TextFilter


class ForkPlace(NamedTuple):
    """Where a run forks another one, or makes a call of it again, and what it changes there.

    Attributes:
        changed: the names of what it changes.
        model: of these, the model and its parameters, by their names; None: neither.
    """

    run_id: str
    span_id: str
    changed: tuple[str, ...]
    is_rerun: bool = False
    model: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What is to be run, with which values, how strictly, and within which limits.

    Attributes:
        definition: of the ensemble; what else is here is made of it and of the settings of the run.
        graph: valid.
        plan: of the graph.
        bare_plan: the same without the values of inputs, where no view is told these and many runs have it in common;
            None where views are told of `plan`.
        items: those that are known by now, by index of the task that runs for them.
        agents: who takes part, for views.
        streams: whether replies are streamed, because somebody watches.
        memory: the store of all scopes; None where no task has any.
        text_filter: takes the texts out of what is told of the run; None where they are kept.
        budgets_around: of the kernel (E142), for a run that is in no other.
        rate_limits: likewise; or of the runs around it, where those are in another process.
        pricing: what requests cost, for the budget.
        review_handler: whoever is asked; None where nobody can be.
        person: whom the runs inside ask that have no review handler of their own; None where nobody can be asked.
        row: name of the row that it is the run of, in a map; None elsewhere.
        replayed_from: the name of the recording that answers in place of models; None where models are asked.
        conversations: that its tasks go on with, by their names: in turns. One that ends with a prompt has that of the
            task's turn.
        continued_from: the run that they are of; None where none is gone on with.
        path: what it and the runs around it are called, the outermost first.
        resumed_from: the run that this one goes on with; None where it begins afresh.
        forked_from: the run that this one forks, where, and what it changes; None where it forks none.
        earlier: what that one and those before it took; None where nothing is known of it.
        constraints: of the manager of a hierarchical run; None where it has none.
        keeps_tasks: whether what tasks leave behind is kept for later runs, those inside included.
        task_keys: makes the keys under which finished tasks are kept; None where none of its own is.
        is_reusing: whether what earlier runs have done serves in place of running it again.
        only: the one task that the run is about, and what it builds on; None for all tasks.
        kind: what the run is.
        task_noun: what views call its tasks.
        versions: of what it was declared with; None where nobody has named them.
        variable: that its output is bound to in a notebook; None where nobody chose one.
        revision: what its tasks are to do better, where it does a task that was sent back; else None.
        texts: in place of ours, by name, with the variables filled in.
        deps: for functions that take a `RunContext`.
        timeout: seconds for all of it; None for no limit.
        history: how much of earlier conversations is sent, where neither task nor agent says it; None for all.
        attachments: the pictures and PDFs that it has, and those that come while it runs.
        complete: makes it anew of what its inputs are once they are read, and of a conversation that is read; None
            where nothing is.
    """

    definition: EnsembleDefinition
    graph: Graph
    plan: ExecutionPlan
    inputs: Mapping[str, Any]
    warnings: Sequence[str]
    streams: bool
    memory: MemoryStore | None = None
    bare_plan: ExecutionPlan | None = None
    agents: tuple[PlannedAgent, ...] = ()
    capture_mode: CaptureMode = CaptureMode.OFF
    text_filter: TextFilter | None = None
    budget: Budget | None = None
    budgets_around: tuple[Budget, ...] = ()
    rate_limits: tuple[RateLimit, ...] = ()
    pricing: Pricing | None = None
    review_handler: ReviewHandler | None = None
    person: ReviewHandler | None = None
    row: str | None = None
    constraints: HierarchicalConstraints | None = None
    replayed_from: str | None = None
    keeps_tasks: bool = False
    task_keys: TaskKeys | None = None
    is_reusing: bool = False
    only: GraphPart | None = None
    resumed_from: str | None = None
    forked_from: ForkPlace | None = None
    earlier: Sums | None = None
    items: KnownItems = field(default_factory=dict)
    path: tuple[str, ...] = ()
    conversations: Mapping[str, Messages] = field(default_factory=dict)
    continued_from: str | None = None
    revision: InnerRevision | None = None
    kind: RunKind = RunKind.RUN
    task_noun: TaskNoun = TaskNoun.TASK
    versions: Versions | None = None
    variable: str | None = None
    texts: Mapping[str, PlacedText] = field(default_factory=dict)
    history: str | None = None
    deps: object = None
    timeout: float | None = None
    attachments: HeldAttachments = field(default_factory=HeldAttachments)
    complete: Callable[[Mapping[str, Any], Messages | None], RunSpec] | None = None

    @property
    def currency(self) -> str:
        """The currency of its costs."""
        return get_currency(self.definition.cost)

    def find_history(self, task: Task, agent: Agent | None) -> str | None:
        """How much of an earlier conversation a task sends: it says it, else its agent, else the run."""
        return task.history or (None if agent is None else agent.history) or self.history

    def get_earlier(self, task: str) -> Messages:
        """The conversation that a task goes on with, without the prompt that it may end with; empty for most."""
        return split_prompt(self.conversations.get(task, ()))[0]

    def find_prompt(self, task: str) -> str | None:
        """The prompt of a task's turn that the conversation ends with which it goes on with; None for most."""
        return split_prompt(self.conversations.get(task, ()))[1]

    def get_told_plan(self) -> ExecutionPlan:
        """Get the plan that views are told of."""
        return self.plan if self.bare_plan is None else self.bare_plan


NO_REASON: Final = "Do it again, and better. No reason was given."


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Where a task stands that is not at its first attempt.

    Attributes:
        attempt: number of the present attempt, from 1.
        feedback: what reviews and guardrails wanted to be different so far, oldest first; empty where the task is done
            again only because something that it reads has changed, or because its handler failed.
        previous: what the task itself produced last; None where it has produced nothing.
        is_by_guardrail: whether a guardrail has sent it back, and neither a person nor a review.
        round: where its phase is done again until a condition holds, why this is another round; else None.
    """

    attempt: int = 1
    feedback: tuple[str, ...] = ()
    previous: str | None = None
    is_by_guardrail: bool = False
    round: str | None = None

    @property
    def told(self) -> tuple[str, ...]:
        """All that the task is told of what is to be done better, or until when."""
        return self.feedback if self.round is None else (*self.feedback, self.round)

    def follow(
        self, feedback: str | None = None, previous: str | None = None, *, is_by_guardrail: bool = False
    ) -> Revision:
        """The revision of the next attempt.

        Args:
            feedback: what it is to do better; None where nobody said anything about this task.
            previous: what the present attempt has produced; None where nothing.
            is_by_guardrail: whether a guardrail says so.
        """
        kept = self.previous if previous is None else previous
        attempt = self.attempt + 1
        return replace(self.add(feedback), attempt=attempt, previous=kept, is_by_guardrail=is_by_guardrail)

    def add(self, feedback: str | None) -> Revision:
        """The same attempt, which has not begun, with more feedback; None is nothing."""
        said = () if feedback is None else (feedback.strip() or NO_REASON,)
        return replace(self, feedback=(*self.feedback, *said))


FIRST_ATTEMPT: Final = Revision()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingOutput:
    """An output that the task reads and that is not there: whose, and why in a few words."""

    name: str
    agent_role: str
    description: str
    reason: str


# Not frozen: a review of its phase gives it another revision.
@dataclass(slots=True, kw_only=True)
class ResolvedTask:
    """One start of a task.

    Attributes:
        node: the task itself. What it declares is read from there, never copied from here to there.
        description: resolved.
        expected_output: resolved.
        context: the outputs that the task reads and that are there, in the order of its ``context``.
        missing: those that are not there.
        revision: which attempt this is, and what it is to do better.
        prompt: its own, in which all but its places is filled in; None where it has none.
        item_source: the output whose items it runs for; None where they come from elsewhere, or it runs once.
        is_item: whether this is one item of a task. item: the item.
        is_last: whether `ReviewPolicy.AFTER_LAST_TASK` means this one.
        is_judge: whether a phase goes on by what it says of what it reads: it reviews one, or `until` tests it.
    """

    node: TaskNode
    description: str
    expected_output: str
    context: tuple[TaskOutput, ...] = ()
    missing: tuple[MissingOutput, ...] = ()
    revision: Revision = FIRST_ATTEMPT
    is_last: bool = False
    is_judge: bool = False
    prompt: PlacedText | None = None
    item_source: TaskOutput | None = None
    is_item: bool = False
    item: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerRevision:
    """What the tasks of an ensemble are told whose own task was sent back.

    Attributes:
        revision: of that task.
        previous: what the tasks inside put out last, by name; None where that is not known.
    """

    revision: Revision
    previous: Mapping[str, str] | None

    def revise(self, name: str, *, is_final: bool) -> Revision:
        """The revision of a task inside; what the final one puts out is the output of the task around it."""
        if self.previous is None:
            return self.revision if is_final else replace(self.revision, previous=None)
        return replace(self.revision, previous=self.previous.get(name))


# In the context, since what is run is the ensemble's own `arun`, whose parameters are everybody's.
_inner: Final[contextvars.ContextVar[InnerRevision | None]] = contextvars.ContextVar(
    "ensemble_inner_revision", default=None
)


@contextmanager
def hand_down(revision: InnerRevision | None) -> Iterator[None]:
    """Have the run that begins inside the ``with`` block told this; runs that its own tasks begin are not."""
    token = _inner.set(revision)
    try:
        yield
    finally:
        _inner.reset(token)


def find_inner_revision() -> InnerRevision | None:
    """What the run that is about to begin is told; None for nothing."""
    return _inner.get()


def forget_inner_revision() -> None:
    """What begins from here on in this context is told nothing."""
    _inner.set(None)
