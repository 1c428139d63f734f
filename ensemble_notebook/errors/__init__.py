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
    │   └── ModelRefusedError                   it refused, in words of its own
    ├── FallbackFailedError (RuntimeError)      a task's own worker failed, and then its fallback
    ├── ItemsFailedError (RuntimeError)         items of a task failed that runs for each of a list
    ├── ScoringError (RuntimeError)             a score function failed for each run; all runs are kept
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
    ├── TraceFormatError (ValueError)           a file is no execution trace
    ├── StoreError (OSError)                    the run store can't be read, or has no such run
    ├── MissingPackageError (ImportError)       an optional package is not installed
    └── AbsentObjectError (AttributeError)      a pickle holds only the description of what was asked for

    RunInterrupted (KeyboardInterrupt)          a person stopped the run

Whatever fails inside a task leaves ``run`` as a `TaskExecutionError` whose causes lead to the origin:
task -> agent -> the foreign error. Each error that leaves ``run`` carries ``output``: what was finished by then.
"""

from __future__ import annotations

from ensemble_notebook.errors.base import (
    AbsentObjectError,
    EnsembleError,
    RunInterrupted,
    SuggestsNames,
    did_you_mean,
    find_nearest,
    get_message,
    make_readable,
    register_mask,
    remove_control_characters,
    show_hidden_characters,
    summarize_error,
)
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
    FallbackFailedError,
    GuardrailViolationError,
    ItemsFailedError,
    MaxIterationsExceededError,
    MissingPackageError,
    ModelRefusedError,
    OutputParsingError,
    ParallelExecutionError,
    PhaseExecutionError,
    RateLimitTimeoutError,
    ReplayError,
    ReviewRejectedError,
    ReviewTimeoutError,
    ScoringError,
    StoreError,
    TaskExecutionError,
    ToolExecutionError,
    TraceFormatError,
)
from ensemble_notebook.errors.origin import (
    add_origin,
    drop_own_frames,
    find_origin,
    find_place,
    make_users_traceback,
    register_cell_namer,
)
from ensemble_notebook.errors.pickling import (
    AbsentObject,
    DescribedObject,
    Pickled,
    RecordedError,
    describe_object,
    describe_parts,
    find_http_status,
    get_state,
    make_recorded_error,
    mask_error,
    read_http_status,
)

__all__ = [
    "AbsentObject",
    "AbsentObjectError",
    "AgentExecutionError",
    "BudgetExceededError",
    "CircularDependencyError",
    "ConstraintViolationError",
    "DeadlineExceededError",
    "DescribedObject",
    "EnsembleError",
    "FallbackFailedError",
    "GuardrailViolationError",
    "ItemsFailedError",
    "MaxIterationsExceededError",
    "MissingPackageError",
    "ModelRefusedError",
    "OutputParsingError",
    "ParallelExecutionError",
    "PhaseExecutionError",
    "Pickled",
    "Problem",
    "PromptTemplateError",
    "RateLimitTimeoutError",
    "RecordedError",
    "ReplayError",
    "ReviewRejectedError",
    "ReviewTimeoutError",
    "RunInterrupted",
    "ScoringError",
    "StoreError",
    "SuggestsNames",
    "TaskExecutionError",
    "ToolExecutionError",
    "TraceFormatError",
    "ValidationError",
    "add_origin",
    "describe_object",
    "describe_parts",
    "did_you_mean",
    "drop_own_frames",
    "find_http_status",
    "find_nearest",
    "find_origin",
    "find_place",
    "get_message",
    "get_state",
    "make_readable",
    "make_recorded_error",
    "make_users_traceback",
    "mask_error",
    "read_http_status",
    "register_cell_namer",
    "register_mask",
    "remove_control_characters",
    "show_hidden_characters",
    "summarize_error",
]
