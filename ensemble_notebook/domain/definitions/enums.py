"""The closed sets of values. Enum values are the lower-case names (docs/contract/engine.md#pinned-names)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

# Among the enums for whoever looks here; the seam, which tool calls pass, may not look up to definitions.
from ensemble_notebook.domain.seams.chat_port import ToolOutcome as ToolOutcome  # noqa: PLC0414 - so that it is exported


class Workflow(StrEnum):
    """How the tasks of an ensemble or a phase follow each other."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    HIERARCHICAL = "hierarchical"


WorkflowName = Literal["sequential", "parallel", "hierarchical"]


def find_framework(workflow: str | None) -> str | None:
    """What told of a run of another framework or a session, in place of a workflow; None for a run of an ensemble."""
    return None if not workflow or workflow in {*Workflow} else workflow


class ErrorStrategy(StrEnum):
    """What a failed task means for the others of its list or phase."""

    FAIL_FAST = "fail_fast"
    CONTINUE_ON_ERROR = "continue_on_error"
    PARTIAL = "partial"


ErrorStrategyName = Literal["fail_fast", "continue_on_error", "partial"]


class RunStatus(StrEnum):
    """How a run stands or ended. ``PENDING`` and ``RUNNING`` are seen on a live handle only."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    COMPLETED_WITH_WARNINGS = "completed_with_warnings"
    FAILED = "failed"
    BUDGET_EXCEEDED = "budget_exceeded"
    EXITED_EARLY = "exited_early"
    INTERRUPTED = "interrupted"


DONE: Final = frozenset({RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS, RunStatus.EXITED_EARLY})
"""Of runs, and of rows, that have done what they were for, or as much as somebody wanted."""


class RunKind(StrEnum):
    """What a run is: one by itself, or something made of another one."""

    RUN = "run"
    MAP = "map"
    RERUN = "rerun"
    FORK = "fork"
    NESTED = "nested"


class ExitReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    USER_EXIT_EARLY = "user_exit_early"
    NOBODY_TO_ASK = "nobody_to_ask"
    TIMEOUT = "timeout"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    BUDGET_EXCEEDED = "budget_exceeded"


class TaskNoun(StrEnum):
    """What views call the tasks of a run. Of a map they are rows, variants, or rows under variants, as runs."""

    TASK = "task"
    ROW = "row"
    VARIANT = "variant"
    RUN = "run"

    @property
    def is_run(self) -> bool:
        """Whether each of them is a run of its own: those of a map."""
        return self is not TaskNoun.TASK


class PhaseStatus(StrEnum):
    """How a phase ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXITED_EARLY = "exited_early"
    SKIPPED = "skipped"


class SpanStatus(StrEnum):
    """State of one interval of the trace."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


class CaptureMode(StrEnum):
    """How much of a run is recorded, from the least on."""

    METADATA = "metadata"
    OFF = "off"
    STANDARD = "standard"
    FULL = "full"

    @property
    def meaning(self) -> str:
        """What it keeps, on one line."""
        return _CAPTURE_MEANINGS[self]


_CAPTURE_MEANINGS: Final = {
    CaptureMode.METADATA: "names, times, counts, tokens, statuses and types of errors, and no text at all",
    CaptureMode.OFF: "prompts, tool arguments and results, final texts, times and tokens",
    CaptureMode.STANDARD: "the whole message history of each turn as well",
    CaptureMode.FULL: "parsed inputs of tools as well, and a file in ./traces/ where no exporter is set",
}
CaptureModeName = Literal["metadata", "off", "standard", "full"]


class ReuseMode(StrEnum):
    """Whether an output of an earlier run may serve in place of running a task."""

    AUTO = "auto"
    NEVER = "never"


ReuseModeName = Literal["auto", "never"]


class ReviewPolicy(StrEnum):
    """Which tasks without a `review` of their own have a review gate after them."""

    NEVER = "never"
    AFTER_EVERY_TASK = "after_every_task"
    AFTER_LAST_TASK = "after_last_task"


ReviewPolicyName = Literal["never", "after_every_task", "after_last_task"]


class ReviewTiming(StrEnum):
    """When a person is asked: before a task, before each of its tool calls, or after it."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


ReviewTimingName = Literal["before", "during", "after"]


class OnTimeout(StrEnum):
    """What happens when nobody answers a review in time."""

    EXIT_EARLY = "exit_early"
    CONTINUE = "continue"
    FAIL = "fail"


OnTimeoutName = Literal["exit_early", "continue", "fail"]


class OnExhausted(StrEnum):
    """What happens when the review of a phase sends it back and no retry is left."""

    FAIL = "fail"
    KEEP = "keep"


OnExhaustedName = Literal["fail", "keep"]


class DelegationPriority(StrEnum):
    """A hint for policies and views; the engine treats all alike."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"


class DelegationStatus(StrEnum):
    """How a delegation ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    PARTIAL = "partial"


class TimelineView(StrEnum):
    """How a timeline shows its run."""

    BARS = "bars"
    GRAPH = "graph"
    GRID = "grid"
    MESSAGES = "messages"
    TABLE = "table"
