"""Ensembles of LLM agents in a notebook: ``%load_ext ensemble_notebook``, then ``%%ensemble`` cells.

The same from Python::

    from ensemble_notebook import Ensemble, Task

    Ensemble(tasks=[Task.of("Write a haiku about tides")]).run()

Every name is imported at its first use, so that loading the extension is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.view import register_face

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"

_HOMES = {
    "errors": (
        "AgentExecutionError BudgetExceededError CircularDependencyError ConstraintViolationError "
        "DeadlineExceededError EnsembleError GuardrailViolationError MaxIterationsExceededError OutputParsingError "
        "ParallelExecutionError PhaseExecutionError PromptTemplateError RateLimitTimeoutError ReplayError "
        "ReviewRejectedError ReviewTimeoutError RunInterrupted TaskExecutionError ToolExecutionError TraceFormatError "
        "ValidationError"
    ),
    "domain.agent": "Agent",
    "domain.task": "Task",
    "domain.phase": "Phase",
    "domain.choice": (
        "CaptureMode DelegationPriority DelegationStatus ErrorStrategy ExitReason OnTimeout PhaseStatus ReviewPolicy "
        "ReviewTiming RunStatus SpanStatus ToolOutcome Workflow"
    ),
    "domain.condition": "Condition",
    "domain.cost": "CostConfiguration",
    "domain.delegation": (
        "DelegationContext DelegationPolicy DelegationPolicyResult DelegationRequest DelegationResponse"
    ),
    "domain.estimate": "CostEstimate",
    "domain.event": (
        "BudgetWarning DelegationCompleted DelegationFailed DelegationStarted Event GuardrailEnded GuardrailStarted "
        "LlmAttemptEnded LlmAttemptStarted LlmCallCompleted LlmCallFailed LlmCallRetried LlmCallStarted LlmToken "
        "MemoryEnded MemoryStarted Noted PhaseEnded PhaseRetried PhaseSkipped PhaseStarted PlanMade RateLimitWaited "
        "ReviewAnswered ReviewRequested RunEnded RunStarted TaskCompleted TaskFailed TaskFellBack TaskInputPrepared "
        "TaskRetried TaskSkipped TaskStarted ToolCallCompleted ToolCallStarted TurnEnded TurnStarted WaitEnded "
        "WaitStarted Warned"
    ),
    "domain.guardrail": "GuardrailResult",
    "domain.hierarchy": "HierarchicalConstraints ManagedTask ManagerPrompt",
    "domain.limit": "Budget RateLimit Spending",
    "domain.memory": "MemoryEntry MemoryStore",
    "domain.metric": "Metrics TokenUsage",
    "domain.output": "Failure Skipped TaskOutput",
    "domain.plan": "ExecutionPlan",
    "domain.review": "PhaseReview Review ReviewDecision ReviewRequest",
    "domain.tool": "AgentTool TaskInput ToolResult human_input",
    "ensemble.ensemble": "Ensemble",
    "ensemble.handle": "RunHandle",
    "ensemble.output": "EnsembleOutput",
    "ensemble.reviewer": "auto_review console_review",
    "memory.entity": "EntityMemory",
    "memory.long_term": "SqliteMemory",
    "memory.short_term": "InMemoryStore",
    "memory.vector": "VectorStoreMemory",
    "models.scripted": "Fail Reply ScriptedChatModel ToolUse",
    "trace.capture": "config",
    "trace.execution": "ExecutionTrace",
    "trace.exporter": "JsonTraceExporter",
    "trace.part": "DelegationTrace LlmInteraction PhaseTrace TaskTrace ToolCallTrace",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOME_OF)]

register_face("timeline", "ensemble_notebook.notebook.timeline:timeline_of")
register_face("output", "ensemble_notebook.notebook.picture:output_bundle")
register_face("plan", "ensemble_notebook.notebook.picture:plan_bundle")


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """``%load_ext ensemble_notebook``: adds ``%%ensemble`` and ``%ensemble``."""
    importlib.import_module(f"{__name__}.notebook.extension").load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """``%unload_ext ensemble_notebook``: takes everything out again."""
    importlib.import_module(f"{__name__}.notebook.extension").unload(shell)
