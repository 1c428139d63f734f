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
    ├── CheckFailed (AssertionError)            something that was expected of a run does not hold
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

from ensemble_notebook.errors.base import AbsentObjectError as AbsentObjectError
from ensemble_notebook.errors.base import EnsembleError as EnsembleError
from ensemble_notebook.errors.base import RunInterrupted as RunInterrupted
from ensemble_notebook.errors.base import SuggestsNames as SuggestsNames
from ensemble_notebook.errors.base import did_you_mean as did_you_mean
from ensemble_notebook.errors.base import find_nearest as find_nearest
from ensemble_notebook.errors.base import get_message as get_message
from ensemble_notebook.errors.base import make_readable as make_readable
from ensemble_notebook.errors.base import register_mask as register_mask
from ensemble_notebook.errors.base import remove_control_characters as remove_control_characters
from ensemble_notebook.errors.base import show_hidden_characters as show_hidden_characters
from ensemble_notebook.errors.base import summarize_error as summarize_error
from ensemble_notebook.errors.exceptions import AgentExecutionError as AgentExecutionError
from ensemble_notebook.errors.exceptions import BudgetExceededError as BudgetExceededError
from ensemble_notebook.errors.exceptions import CheckFailed as CheckFailed
from ensemble_notebook.errors.exceptions import CircularDependencyError as CircularDependencyError
from ensemble_notebook.errors.exceptions import ConstraintViolationError as ConstraintViolationError
from ensemble_notebook.errors.exceptions import DeadlineExceededError as DeadlineExceededError
from ensemble_notebook.errors.exceptions import FallbackFailedError as FallbackFailedError
from ensemble_notebook.errors.exceptions import GuardrailViolationError as GuardrailViolationError
from ensemble_notebook.errors.exceptions import ItemsFailedError as ItemsFailedError
from ensemble_notebook.errors.exceptions import MaxIterationsExceededError as MaxIterationsExceededError
from ensemble_notebook.errors.exceptions import MissingPackageError as MissingPackageError
from ensemble_notebook.errors.exceptions import ModelRefusedError as ModelRefusedError
from ensemble_notebook.errors.exceptions import OutputParsingError as OutputParsingError
from ensemble_notebook.errors.exceptions import ParallelExecutionError as ParallelExecutionError
from ensemble_notebook.errors.exceptions import PhaseExecutionError as PhaseExecutionError
from ensemble_notebook.errors.exceptions import Problem as Problem
from ensemble_notebook.errors.exceptions import PromptTemplateError as PromptTemplateError
from ensemble_notebook.errors.exceptions import RateLimitTimeoutError as RateLimitTimeoutError
from ensemble_notebook.errors.exceptions import ReplayError as ReplayError
from ensemble_notebook.errors.exceptions import ReviewRejectedError as ReviewRejectedError
from ensemble_notebook.errors.exceptions import ReviewTimeoutError as ReviewTimeoutError
from ensemble_notebook.errors.exceptions import ScoringError as ScoringError
from ensemble_notebook.errors.exceptions import StoreError as StoreError
from ensemble_notebook.errors.exceptions import TaskExecutionError as TaskExecutionError
from ensemble_notebook.errors.exceptions import ToolExecutionError as ToolExecutionError
from ensemble_notebook.errors.exceptions import TraceFormatError as TraceFormatError
from ensemble_notebook.errors.exceptions import ValidationError as ValidationError
from ensemble_notebook.errors.exceptions import say_install as say_install
from ensemble_notebook.errors.http_status import find_http_status as find_http_status
from ensemble_notebook.errors.http_status import read_http_status as read_http_status
from ensemble_notebook.errors.origin import add_origin as add_origin
from ensemble_notebook.errors.origin import drop_own_frames as drop_own_frames
from ensemble_notebook.errors.origin import find_origin as find_origin
from ensemble_notebook.errors.origin import find_place as find_place
from ensemble_notebook.errors.origin import make_users_traceback as make_users_traceback
from ensemble_notebook.errors.origin import register_cell_namer as register_cell_namer
from ensemble_notebook.errors.pickling import AbsentObject as AbsentObject
from ensemble_notebook.errors.pickling import DescribedObject as DescribedObject
from ensemble_notebook.errors.pickling import Pickled as Pickled
from ensemble_notebook.errors.pickling import describe_object as describe_object
from ensemble_notebook.errors.pickling import describe_parts as describe_parts
from ensemble_notebook.errors.pickling import get_state as get_state
from ensemble_notebook.errors.recorded_errors import RecordedError as RecordedError
from ensemble_notebook.errors.recorded_errors import make_recorded_error as make_recorded_error
from ensemble_notebook.errors.recorded_errors import mask_error as mask_error
