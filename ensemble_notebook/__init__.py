"""Ensembles of LLM agents in a notebook: ``%load_ext ensemble_notebook``, then ``%%ensemble`` cells.

The same from Python::

    from ensemble_notebook import Ensemble, Task

    Ensemble(tasks=[Task.of("Write a haiku about tides")]).run()

Every name is imported at its first use, so that loading the extension is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.seams.rich_display import register_face

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
    "domain.definitions.agent": "Agent",
    "domain.definitions.task": "Task",
    "domain.definitions.phase": "Phase",
    "domain.definitions.enums": (
        "CaptureMode DelegationPriority DelegationStatus ErrorStrategy ExitReason OnTimeout PhaseStatus ReviewPolicy "
        "ReviewTiming RunStatus SpanStatus ToolOutcome Workflow"
    ),
    "domain.definitions.condition": "Condition",
    "domain.definitions.cost": "CostConfiguration",
    "domain.definitions.delegation": (
        "DelegationContext DelegationPolicy DelegationPolicyResult DelegationRequest DelegationResponse"
    ),
    "domain.outputs.cost_estimate": "CostEstimate",
    "domain.events": (
        "BudgetWarning DelegationCompleted DelegationFailed DelegationStarted Event GuardrailEnded GuardrailStarted "
        "LlmAttemptEnded LlmAttemptStarted LlmCallCompleted LlmCallFailed LlmCallRetried LlmCallStarted LlmToken "
        "MemoryEnded MemoryStarted Noted PhaseEnded PhaseRetried PhaseSkipped PhaseStarted PlanMade RateLimitWaited "
        "ReviewAnswered ReviewRequested RunEnded RunStarted TaskCompleted TaskFailed TaskFellBack TaskInputPrepared "
        "TaskRetried TaskSkipped TaskStarted ToolCallCompleted ToolCallStarted TurnEnded TurnStarted WaitEnded "
        "WaitStarted Warned"
    ),
    "domain.definitions.guardrail": "GuardrailResult",
    "domain.definitions.hierarchy": "HierarchicalConstraints ManagedTask ManagerPrompt",
    "domain.definitions.limits": "Budget RateLimit Spending",
    "domain.definitions.memory": "MemoryEntry MemoryStore",
    "domain.outputs.metrics": "Metrics TokenUsage",
    "domain.outputs.task_output": "Failure Skipped TaskOutput",
    "domain.planning.execution_plan": "ExecutionPlan",
    "domain.definitions.review": "PhaseReview Review ReviewDecision ReviewRequest",
    "domain.definitions.tool": "AgentTool TaskInput ToolResult human_input",
    "ensemble.ensemble": "Ensemble",
    "ensemble.run_handle": "RunHandle",
    "ensemble.ensemble_output": "EnsembleOutput",
    "ensemble.review_handlers": "auto_review console_review",
    "memory.entity_memory": "EntityMemory",
    "memory.sqlite_memory": "SqliteMemory",
    "memory.in_memory_store": "InMemoryStore",
    "memory.vector_store_memory": "VectorStoreMemory",
    "models.langchain.scripted_model": "Fail Reply ScriptedChatModel ToolUse",
    "trace.capture": "config",
    "trace.execution_trace": "ExecutionTrace",
    "trace.exporters": "JsonTraceExporter",
    "trace.task_traces": "DelegationTrace LlmInteraction PhaseTrace TaskTrace ToolCallTrace",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOME_OF)]

register_face("timeline", "ensemble_notebook.notebook.live.timeline_widget:timeline_of")
register_face("output", "ensemble_notebook.notebook.picture.static_picture:output_bundle")
register_face("plan", "ensemble_notebook.notebook.picture.static_picture:plan_bundle")


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
    importlib.import_module(f"{__name__}.notebook.magics.extension").load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """``%unload_ext ensemble_notebook``: takes everything out again."""
    importlib.import_module(f"{__name__}.notebook.magics.extension").unload(shell)
