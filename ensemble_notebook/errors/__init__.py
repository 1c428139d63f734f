"""Every error of the package, in one tree. Imports nothing of ours.

::

    EnsembleError
    ├── ValidationError (ValueError)            a definition can't run; nothing was called
    │   └── CircularDependencyError             tasks or phases wait for each other
    ├── PromptTemplateError (ValueError)        a {variable} has no value
    ├── TaskExecutionError (RuntimeError)       a task failed
    │   ├── ParallelExecutionError              several may have failed; the rest ran
    │   └── PhaseExecutionError                 at least one phase failed; unrelated ones ran
    ├── ConstraintViolationError (RuntimeError) a required worker never succeeded
    ├── AgentExecutionError (RuntimeError)      an agent's model could not answer
    ├── ToolExecutionError (RuntimeError)       a handler, or a tool as handler, reported a failure
    ├── MaxIterationsExceededError (RuntimeError)  an agent kept calling tools
    ├── OutputParsingError (ValueError)         no reply fits the output type
    ├── GuardrailViolationError (RuntimeError)  a guardrail stopped a task
    ├── RateLimitTimeoutError (TimeoutError)    a request would wait too long for its rate limit
    ├── BudgetExceededError (RuntimeError)      a request does not fit into the budget
    ├── ReviewTimeoutError (TimeoutError)       nobody answered a review in time
    ├── ReviewRejectedError (RuntimeError)      a review rejected a task or a phase
    ├── DeadlineExceededError (TimeoutError)    a model request, a task or a run took too long
    ├── ReplayError (LookupError)               a recording has no answer
    └── TraceFormatError (ValueError)           a file is no execution trace

    RunInterrupted (KeyboardInterrupt)          a person stopped the run

Whatever fails inside a task leaves ``run`` as a `TaskExecutionError` whose causes lead to the origin:
task -> agent -> the foreign error. Each error that leaves ``run`` carries ``output``: what was finished by then.
"""

from __future__ import annotations

from ensemble_notebook.errors.base import EnsembleError, get_message, register_mask, summarize_error
from ensemble_notebook.errors.definition_errors import (
    CircularDependencyError,
    Problem,
    PromptTemplateError,
    ValidationError,
)
from ensemble_notebook.errors.execution_errors import (
    AgentExecutionError,
    BudgetExceededError,
    ConstraintViolationError,
    DeadlineExceededError,
    GuardrailViolationError,
    MaxIterationsExceededError,
    OutputParsingError,
    ParallelExecutionError,
    PhaseExecutionError,
    RateLimitTimeoutError,
    ReplayError,
    ReviewRejectedError,
    ReviewTimeoutError,
    RunInterrupted,
    TaskExecutionError,
    ToolExecutionError,
    TraceFormatError,
)
from ensemble_notebook.errors.suggestions import did_you_mean, find_nearest

__all__ = [
    "AgentExecutionError",
    "BudgetExceededError",
    "CircularDependencyError",
    "ConstraintViolationError",
    "DeadlineExceededError",
    "EnsembleError",
    "GuardrailViolationError",
    "MaxIterationsExceededError",
    "OutputParsingError",
    "ParallelExecutionError",
    "PhaseExecutionError",
    "Problem",
    "PromptTemplateError",
    "RateLimitTimeoutError",
    "ReplayError",
    "ReviewRejectedError",
    "ReviewTimeoutError",
    "RunInterrupted",
    "TaskExecutionError",
    "ToolExecutionError",
    "TraceFormatError",
    "ValidationError",
    "did_you_mean",
    "find_nearest",
    "get_message",
    "register_mask",
    "summarize_error",
]
