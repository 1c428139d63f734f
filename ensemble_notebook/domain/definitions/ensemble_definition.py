"""The definition of an ensemble: its fields and what one object can check by itself (E4).

The public ``Ensemble``, which also runs, derives from it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol, TypedDict

from ensemble_notebook.domain.definitions.agent import Agent, Llm, find_llm_fault
from ensemble_notebook.domain.definitions.definition import (
    Converted,
    Definition,
    converted,
    definition,
    show_value,
)
from ensemble_notebook.domain.definitions.delegation import (
    DelegationPolicy,
    HierarchicalConstraints,
    ManagerPrompt,
    PolicyFunction,
)
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    CaptureModeName,
    ErrorStrategy,
    ErrorStrategyName,
    ReviewPolicy,
    ReviewPolicyName,
    Workflow,
    WorkflowName,
)
from ensemble_notebook.domain.definitions.limits import (
    ANY_COST,
    AnyBudget,
    AnyCost,
    AnyRateLimit,
    Budget,
    CostConfiguration,
    RateLimit,
    get_currency,
    normalize_budget,
    normalize_rate_limit,
)
from ensemble_notebook.domain.definitions.memory import MemoryStore, VectorStore, is_vector_store
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import PromptTexts, normalize_inputs
from ensemble_notebook.domain.seams.event import Listener


class TraceExporter(Protocol):
    """Gets the ``ExecutionTrace`` of every run that is over, failed ones included; definitions do not know its class.

    A plain function ``(trace)`` will do, too.
    """

    def export(self, trace: Any, /) -> object:
        """Keep it, send it, show it."""


AnyPolicy = DelegationPolicy | PolicyFunction
Exporter = TraceExporter | Callable[[Any], object]
Memory = MemoryStore | VectorStore
FilePath = str | os.PathLike[str]


class EnsembleFields(TypedDict, total=False):
    """The fields of an ensemble, as `Ensemble.replace` takes them; see ``TaskFields``."""

    tasks: Sequence[Task]
    phases: Sequence[Phase]
    agents: Sequence[Agent]
    llm: Llm | None
    workflow: Workflow | WorkflowName
    error_strategy: ErrorStrategy | ErrorStrategyName
    fallback_is_warning: bool
    manager_llm: Llm | None
    manager_max_iterations: int
    manager_prompt: ManagerPrompt | None
    hierarchical_constraints: HierarchicalConstraints | Mapping[str, Any] | None
    delegation_policies: Sequence[AnyPolicy] | AnyPolicy
    max_delegation_depth: int
    listeners: Sequence[Listener] | Listener
    capture_mode: CaptureMode | CaptureModeName | None
    trace_exporter: Exporter | FilePath | None
    rate_limit: AnyRateLimit | None
    budget: AnyBudget | None
    max_concurrency: int | None
    memory: Memory | FilePath | bool | None
    review_handler: ReviewHandler | None
    review_policy: ReviewPolicy | ReviewPolicyName
    cost: AnyCost | None
    inputs: Mapping[str, Any]
    texts: PromptTexts | Mapping[str, str] | None
    deps: object
    verbose: bool
    name: str | None


_ANY_CONSTRAINTS: Final = "HierarchicalConstraints, or a mapping such as {'required_workers': ['Writer']}"


@definition
class EnsembleDefinition(Definition):
    """What runs together. See ``Ensemble`` for the fields."""

    tasks: Sequence[Task] = ()
    phases: Sequence[Phase] = ()
    agents: Sequence[Agent] = ()
    llm: Llm | None = None
    workflow: Converted[Workflow, Workflow | WorkflowName] = converted(default=Workflow.SEQUENTIAL)
    error_strategy: Converted[ErrorStrategy, ErrorStrategy | ErrorStrategyName] = converted(
        default=ErrorStrategy.FAIL_FAST
    )
    fallback_is_warning: bool = True
    manager_llm: Llm | None = None
    manager_max_iterations: int = 20
    manager_prompt: ManagerPrompt | None = None
    hierarchical_constraints: Converted[
        HierarchicalConstraints | None, HierarchicalConstraints | Mapping[str, Any] | None
    ] = converted(default=None)
    delegation_policies: Converted[tuple[AnyPolicy, ...], Sequence[AnyPolicy] | AnyPolicy] = converted(default=())
    max_delegation_depth: int = 3
    listeners: Converted[tuple[Listener, ...], Sequence[Listener] | Listener] = converted(default=())
    capture_mode: Converted[CaptureMode | None, CaptureMode | CaptureModeName | None] = converted(default=None)
    trace_exporter: Converted[Exporter | None, Exporter | FilePath | None] = converted(default=None)
    rate_limit: Converted[RateLimit | None, AnyRateLimit | None] = converted(default=None)
    budget: Converted[Budget | None, AnyBudget | None] = converted(default=None)
    max_concurrency: int | None = None
    memory: Converted[Memory | None, Memory | FilePath | bool | None] = converted(default=None)
    review_handler: ReviewHandler | None = None
    review_policy: Converted[ReviewPolicy, ReviewPolicy | ReviewPolicyName] = converted(default=ReviewPolicy.NEVER)
    cost: Converted[CostConfiguration | None, AnyCost | None] = converted(default=None)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    texts: Converted[PromptTexts | None, PromptTexts | Mapping[str, str] | None] = converted(default=None)
    deps: object = None
    verbose: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        """Check the fields by themselves; `ensemble_rules` checks the rules between objects."""
        self._check_members("tasks", Task)
        self._check_members("phases", Phase)
        self._check_empty_agents()
        self._check_members("agents", Agent)
        for name in ("llm", "manager_llm"):
            if (llm := getattr(self, name)) is not None and (wrong := find_llm_fault(llm)):
                raise self._refuse(name, f"Ensemble {name} {wrong}.")
        self._make_enum("workflow", Workflow)
        self._make_enum("error_strategy", ErrorStrategy)
        self._require_bool("fallback_is_warning")
        self._make_part("hierarchical_constraints", HierarchicalConstraints, _ANY_CONSTRAINTS)
        self._require_integer("max_delegation_depth", least=1)
        self._check_methods("manager_prompt", ("system", "user"), "system(workers) and user(tasks)")
        self._check_callables()
        if self.capture_mode is not None:
            self._make_enum("capture_mode", CaptureMode)
        is_live = hasattr(self.trace_exporter, "on_event")  # a listener, which is given no trace at the end
        if self.trace_exporter is not None and not is_live and not callable(self.trace_exporter):
            self._check_methods("trace_exporter", ("export",), "export(trace)")
        if inspect.iscoroutinefunction(getattr(self.trace_exporter, "export", None) or self.trace_exporter):
            message = "Ensemble trace_exporter is async; make it a plain function: it is called on a thread of its own."
            raise self._refuse("trace_exporter", message)
        normalize_rate_limit(self)
        self._make_part("cost", CostConfiguration, ANY_COST)
        normalize_budget(self, get_currency(self.cost))
        if not is_vector_store(self.memory):
            wanted = "store(scope, entry) and retrieve(scope, query, limit)"
            self._check_methods("memory", ("store", "retrieve"), wanted)
        self._check_optional_function("review_handler", "(ReviewRequest) -> ReviewDecision")
        self._make_enum("review_policy", ReviewPolicy)
        if self.max_concurrency is not None:
            self._require_integer("max_concurrency", least=1)
        normalize_inputs(self)
        self._make_part("texts", PromptTexts, "PromptTexts, or a mapping such as {'correction': 'Again: {error}'}")
        self._require_bool("verbose")
        self._check_optional_text("name")
        self._require_whole_characters("name", self.name)

    def _check_members(self, name: str, kind: type) -> None:
        self._make_tuple(name)
        for index, each in enumerate(getattr(self, name)):
            if not isinstance(each, kind):
                message = f"Ensemble {name}[{index}] must be a {kind.__name__}, got {type(each).__name__}."
                if kind is Task and isinstance(each, str):
                    message += f" Write Task(description={show_value(each)})."
                raise self._refuse(name, message, item=index)

    def _check_empty_agents(self) -> None:
        """Refuse an empty list beside tasks that have agents: a tuple without members is how `agents` is left out."""
        given: Any = self.agents
        if isinstance(given, tuple) or not isinstance(given, Sequence) or given:
            return
        tasks = (*self.tasks, *(task for phase in self.phases for task in phase.tasks))
        if role := next((task.agent.role for task in tasks if task.agent is not None), None):
            message = f"Ensemble agents is an empty list, and a task is done by {role!r}."
            raise self._refuse("agents", f"{message} List the agents, or leave it out.")

    def _check_methods(self, name: str, methods: Sequence[str], wanted: str) -> None:
        value = getattr(self, name)
        has_all = not isinstance(value, type) and all(callable(getattr(value, each, None)) for each in methods)
        if value is not None and not has_all:
            raise self._refuse(name, f"Ensemble {name} must be an object with {wanted}, got {type(value).__name__}.")

    def _check_callables(self) -> None:
        for index, policy, _, label in self._make_callables(
            "delegation_policies", "Policy", "evaluate(request, context)"
        ):
            if isinstance(policy, type):
                message = f"{label} is neither callable nor has evaluate(request, context)."
                raise self._refuse("delegation_policies", message, item=index)
        for index, _, call, label in self._make_callables("listeners", "Listener", "on_event(event)"):
            if inspect.iscoroutinefunction(call):
                message = f"{label} is async; make it a plain function: it is called on a thread of its own."
                raise self._refuse("listeners", message, item=index)

    def _make_callables(self, name: str, noun: str, wanted: str) -> Iterator[tuple[int, Any, Any, str]]:
        """A tuple of functions, or objects with the wanted method: of each its place, what is called, and a label."""
        given, method = getattr(self, name), wanted.partition("(")[0]
        if callable(getattr(given, method, None) or given):
            self._set(name, (given,))
        self._make_tuple(name)
        for index, each in enumerate(getattr(self, name)):
            call, label = getattr(each, method, None) or each, f"{noun} at index {index} ({type(each).__name__})"
            if not callable(call):
                raise self._refuse(name, f"{label} is neither callable nor has {wanted}.", item=index)
            yield index, each, call, label
