"""The closed sets of values. Enum values are the lower-case names (section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Workflow(StrEnum):
    """How the tasks of an ensemble or a phase follow each other."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class ErrorStrategy(StrEnum):
    """What a failed task means for the others of its list or phase (E32)."""

    FAIL_FAST = "fail_fast"
    CONTINUE_ON_ERROR = "continue_on_error"


LATER_WORKFLOWS: Final[Mapping[str, str]] = {"hierarchical": "a manager that delegates to workers"}
LATER_STRATEGIES: Final[Mapping[str, str]] = {"partial": "dependents run with partial input"}


class RunStatus(StrEnum):
    """How a run stands or ended (E34). ``PENDING`` and ``RUNNING`` are seen on a live handle only."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class ExitReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    TIMEOUT = "timeout"
    ERROR = "error"
    INTERRUPTED = "interrupted"


class PhaseStatus(StrEnum):
    """How a phase ended (T2)."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


class SpanStatus(StrEnum):
    """State of one interval of the trace (T20)."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class ToolOutcome(StrEnum):
    """How a requested tool call ended (TRACE section 2)."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED_MAX_ITERATIONS = "skipped_max_iterations"
