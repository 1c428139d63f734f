"""The specification of a run: everything that the engine needs to know, as the facade hands it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.definitions.cost import Pricing
from ensemble_notebook.domain.definitions.delegation import DelegationPolicy
from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, ReviewPolicy
from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints, ManagerPrompt
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.memory import MemoryStore
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.events.textless_event import TextFilter
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent
from ensemble_notebook.domain.planning.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What is to be run, with which values, how strictly, and within which limits.

    Attributes:
        graph: valid.
        plan: of the graph.
        agents: who takes part, for views.
        streams: whether replies are streamed, because somebody watches (E17).
        memory: the store of all scopes; None where no task has any.
        text_filter: takes the texts out of what is told of the run; None where they are kept (T6a).
        pricing: what requests cost, for the budget.
        review_handler: None where nobody can be asked.
        replayed_from: the name of the recording that answers in place of models; None where models are asked.
        constraints, manager_prompt: of the manager of a hierarchical run; None where it has none.
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
