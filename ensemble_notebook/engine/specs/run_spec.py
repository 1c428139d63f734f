"""The specification of a run: everything that the engine needs to know, as the facade hands it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ensemble_notebook.domain.definitions.cost import Pricing
from ensemble_notebook.domain.definitions.delegation import DelegationPolicy
from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, ReviewPolicy, TaskNoun
from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints, ManagerPrompt
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.memory import MemoryStore
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.events.textless_event import TextFilter
from ensemble_notebook.domain.fingerprints.task_start import TaskKeys
from ensemble_notebook.domain.outputs.chat_message import Messages
from ensemble_notebook.domain.outputs.record import fill_slots_directly
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.planning.graph_part import GraphPart
from ensemble_notebook.domain.planning.known_items import KnownItems
from ensemble_notebook.engine.specs.inner_revision import InnerRevision


@fill_slots_directly
@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What is to be run, with which values, how strictly, and within which limits.

    Attributes:
        graph: valid.
        plan: of the graph.
        bare_plan: the same without the values of inputs, where no view is told these and many runs have it in common;
            None where views are told of `plan` (T6a).
        items: those that are known by now, by index of the task that runs for them (E53).
        agents: who takes part, for views.
        streams: whether replies are streamed, because somebody watches (E17).
        memory: the store of all scopes; None where no task has any.
        text_filter: takes the texts out of what is told of the run; None where they are kept (T6a).
        pricing: what requests cost, for the budget.
        review_handler: None where nobody can be asked.
        replayed_from: the name of the recording that answers in place of models; None where models are asked.
        conversations: that its tasks go on with, by their names: prompts and replies in turns (E55).
        continued_from: the run that they are of; None where none is gone on with.
        path: what it and the runs around it are called, the outermost first (E54).
        resumed_from: the run that this one goes on with; None where it begins afresh.
        constraints, manager_prompt: of the manager of a hierarchical run; None where it has none.
        keeps_tasks: whether what tasks leave behind is kept for later runs, those inside included.
        task_keys: makes the keys under which finished tasks are kept; None where none of its own is.
        is_reusing: whether what earlier runs have done serves in place of running it again (C34).
        only: the one task that the run is about, and what it builds on; None for all tasks.
        task_noun: what views call its tasks.
        revision: what its tasks are to do better, where it does a task that was sent back (E54); else None.
    """

    graph: Graph
    plan: ExecutionPlan
    name: str | None
    workflow: str
    error_strategy: ErrorStrategy
    inputs: Mapping[str, Any]
    max_concurrency: int | None
    warnings: Sequence[str]
    streams: bool
    memory: MemoryStore | None = None
    bare_plan: ExecutionPlan | None = None
    agents: tuple[PlannedAgent, ...] = ()
    capture_mode: CaptureMode = CaptureMode.OFF
    text_filter: TextFilter | None = None
    budget: Budget | None = None
    pricing: Pricing | None = None
    rate_limit: RateLimit | None = None
    review_handler: ReviewHandler | None = None
    review_policy: ReviewPolicy = ReviewPolicy.NEVER
    delegation_policies: Sequence[DelegationPolicy | Any] = ()
    max_delegation_depth: int = 3
    constraints: HierarchicalConstraints | None = None
    manager_prompt: ManagerPrompt | None = None
    replayed_from: str | None = None
    keeps_tasks: bool = False
    task_keys: TaskKeys | None = None
    is_reusing: bool = False
    only: GraphPart | None = None
    resumed_from: str | None = None
    items: KnownItems = field(default_factory=dict)
    path: tuple[str, ...] = ()
    conversations: Mapping[str, Messages] = field(default_factory=dict)
    continued_from: str | None = None
    revision: InnerRevision | None = None
    task_noun: TaskNoun = TaskNoun.TASK

    def get_told_plan(self) -> ExecutionPlan:
        """Get the plan that views are told of."""
        return self.plan if self.bare_plan is None else self.bare_plan
