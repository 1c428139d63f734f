"""The definition of an ensemble: its fields and what one object can check by itself (E4).

The public ``Ensemble``, which also runs, derives from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, ClassVar

from ensemble_notebook.domain.agent import Agent, check_llm
from ensemble_notebook.domain.choice import LATER_STRATEGIES, LATER_WORKFLOWS, ErrorStrategy, Workflow
from ensemble_notebook.domain.cost import CostConfiguration
from ensemble_notebook.domain.definition import Checked, definition
from ensemble_notebook.domain.phase import Phase
from ensemble_notebook.domain.task import Task
from ensemble_notebook.domain.template import is_variable_name


@definition
class EnsembleDefinition(Checked):
    """What runs together. See ``Ensemble`` for the fields."""

    tasks: Sequence[Task] = ()
    phases: Sequence[Phase] = ()
    agents: Sequence[Agent] = ()
    llm: Any = None
    workflow: Workflow = Workflow.SEQUENTIAL
    error_strategy: ErrorStrategy = ErrorStrategy.FAIL_FAST
    listeners: Sequence[Any] = ()
    max_concurrency: int | None = None
    cost: CostConfiguration | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False
    name: str | None = None

    LATER: ClassVar[Mapping[str, str]] = {
        "manager_llm": "the hierarchical workflow",
        "manager_max_iterations": "the hierarchical workflow",
        "manager_prompt": "the hierarchical workflow",
        "hierarchical_constraints": "the hierarchical workflow",
        "delegation_policies": "delegation",
        "max_delegation_depth": "delegation",
        "capture_mode": "capture modes",
        "trace_exporter": "trace exporters",
        "rate_limit": "rate limits",
        "budget": "budgets",
        "memory": "memory",
        "review_handler": "human review",
        "review_policy": "human review",
    }

    def __post_init__(self) -> None:
        """Check the fields by themselves; rules between objects are in `rule`."""
        self._check_members("tasks", Task)
        self._check_members("phases", Phase)
        self._check_members("agents", Agent)
        if self.llm is not None and (wrong := check_llm(self.llm)):
            raise self._refuse("llm", f"Ensemble llm {wrong}.")
        self._make_enum("workflow", Workflow, LATER_WORKFLOWS)
        self._make_enum("error_strategy", ErrorStrategy, LATER_STRATEGIES)
        self._check_listeners()
        if self.max_concurrency is not None:
            self._require_integer("max_concurrency", least=1)
        if self.cost is not None and not isinstance(self.cost, CostConfiguration):
            raise self._refuse("cost", f"Ensemble cost must be a CostConfiguration, got {type(self.cost).__name__}.")
        self._check_inputs()
        self._require_bool("verbose")
        self._optional_text("name")

    def _check_members(self, name: str, kind: type) -> None:
        self._make_tuple(name)
        for index, each in enumerate(getattr(self, name)):
            if not isinstance(each, kind):
                message = f"Ensemble {name}[{index}] must be a {kind.__name__}, got {type(each).__name__}."
                raise self._refuse(name, message, item=index)

    def _check_listeners(self) -> None:
        self._make_tuple("listeners")
        for index, each in enumerate(self.listeners):
            call = getattr(each, "on_event", None) or each
            label = f"Listener at index {index} ({type(each).__name__})"
            if not callable(call):
                message = f"{label} is neither callable nor has on_event(event)."
                raise self._refuse("listeners", message, item=index)
            if inspect.iscoroutinefunction(call):
                message = f"{label} is async; make it a plain function: it is called on a thread of its own."
                raise self._refuse("listeners", message, item=index)

    def _check_inputs(self) -> None:
        if not isinstance(self.inputs, Mapping):
            raise self._refuse("inputs", f"Ensemble inputs must map names to values, got {type(self.inputs).__name__}.")
        for name in self.inputs:
            if not is_variable_name(name):
                message = f"Input {name!r} can't be a template variable: use ASCII letters, digits and underscores."
                raise self._refuse("inputs", message, item=str(name))
        self._set("inputs", MappingProxyType(dict(self.inputs)))
