"""What the store is told of a run when it begins, and what it tells of it later."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, RunKind, RunStatus
from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.outputs.conversation import Messages
from ensemble_notebook.domain.outputs.task_output import Sums, TaskOutput
from ensemble_notebook.errors import ValidationError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrigin:
    """The cell that a run comes from.

    Attributes:
        cell: what the notebook calls it: ``In[3]``.
        variable: that the output is bound to; None where nobody chose one.
        text: of its body; empty where no text is kept.
        options: its first line; empty likewise.
        notebook: path or name of the notebook, where that is known.
        cell_id: the notebook's id of the cell, the same each time that it is run, where the frontend tells it.
    """

    cell: str | None = None
    variable: str | None = None
    text: str = ""
    options: str = ""
    notebook: str | None = None
    cell_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of a run before its first event.

    Attributes:
        name: of the ensemble, else of the variable that its output is bound to.
        started_at: UTC.
        cost: the ensemble's own rates.
        origin: None for a run from Python.
        inputs: values of the template variables, as far as JSON has them and no secret is in them.
        lost_inputs: the names of the others.
        resumed_from: the run that it goes on with; it begins with all exchanges and results of that one.
        kind: what the run is; None in files of earlier versions.
        forked_from_run, forked_from_span: the run that it forks, or makes a call of again, and where.
        changed: what that fork changes: the names of its arguments.
        changed_model: of these ``llm`` and ``parameters``, as far as JSON has them and no secret is in them; else None.
        continued_from: the run whose conversations its tasks go on with.
        deps: what the object is called that functions of its tasks were given; None where they were given none.
        framework: what told of it, where another framework ran it; None for a run of an ensemble.
        conversations: these, by the names of the tasks; None where there are none, or a secret is in them.
    """

    run_id: str
    name: str | None
    started_at: datetime
    capture_mode: CaptureMode = CaptureMode.OFF
    cost: CostConfiguration | None = None
    origin: RunOrigin | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    lost_inputs: tuple[str, ...] = ()
    resumed_from: str | None = None
    kind: RunKind | None = None
    forked_from_run: str | None = None
    forked_from_span: str | None = None
    changed: tuple[str, ...] = ()
    changed_model: Mapping[str, Any] | None = None
    continued_from: str | None = None
    conversations: Mapping[str, Messages] | None = None
    deps: str | None = None
    framework: str | None = None

    @property
    def keeps_texts(self) -> bool:
        """Whether anything but names, times and numbers may be written."""
        return self.capture_mode is not CaptureMode.METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedRun:
    """A run in the store.

    Attributes:
        facts: as it began.
        status: how it ended. RUNNING while its process lives; INTERRUPTED where that is gone, or was stopped.
        ended_at: UTC; None where it has no end.
    """

    facts: RunFacts
    status: RunStatus
    ended_at: datetime | None

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.facts.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run came to. Unknown is None.

    Attributes:
        cost: the known part, in `currency`.
        wall_ms: from start to end, or to its last event.
        sums: all that its metrics tell; None in summaries of earlier versions.
        picture: its bars, see `small_picture`; None in a summary of an earlier version.
    """

    tasks: int
    tasks_done: int
    input_tokens: int | None
    output_tokens: int | None
    cost: Decimal | None
    currency: str
    wall_ms: float | None
    inputs: Mapping[str, str]
    sums: Sums | None = None
    picture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """What a finished task left in the store.

    Attributes:
        run_id, path: of the run and of the task in it: ``"phase/task"`` or ``"task"``.
        key, parts: of everything that counted, as they were given.
        obstacle: why it can't serve again, in words; None where it can.
        output: without trace and metrics; None where there is an obstacle. `parsed_output` is there where it is a plain
            JSON value.
        delegated: outputs of the workers of a managed task.
        has_lost_value: its `parsed_output` was no JSON value, and is not kept; `raw` is.
        facts: whatever else was given: plain JSON.
    """

    run_id: str
    path: str
    key: str
    parts: Mapping[str, str]
    obstacle: str | None
    output: TaskOutput | None
    delegated: tuple[TaskOutput, ...] = ()
    has_lost_value: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


# --- Which process writes a run, so that others can see whether it still lives. Numbers of processes are used again ---


# A process on another machine can't be looked up: it is taken for gone once its run was silent for so long.
SILENT_S: Final = 180.0
SIGN_OF_LIFE_S: Final = 30.0
# The start of a process is told by the clock of the system, which may be set meanwhile.
_TOLERANCE_S: Final = 5.0


def describe_owner() -> str:
    """This process as JSON: machine, number, start."""
    return _describe(os.getpid())


@lru_cache(maxsize=1)
def _describe(pid: int) -> str:
    return json.dumps({"host": platform.node(), "pid": pid, "start": _find_start(pid)})


def name_owner(description: str) -> str:
    """The process that was described so, for people."""
    known = _read(description)
    if description == describe_owner():
        return "this process"
    place = "" if known.get("host") == platform.node() else f" on {known.get('host')}"
    return f"process {known.get('pid')}{place}"


def make_claim_error(
    resumed_id: str, run_id: str, owner: str, origin: RunOrigin | None, since: datetime
) -> ValidationError:
    """The error of a run that would go on where another one does so already: says which, and where."""
    cell = "" if origin is None else ", ".join(filter(None, (origin.cell, origin.notebook)))
    where = f"{name_owner(owner)}, {cell}" if cell else name_owner(owner)
    return ValidationError(
        f"Run {resumed_id} is resumed already: run {run_id} in {where} has gone on with it since "
        f"{since:%H:%M:%S} UTC, and both would pay for the rest. Wait for its end, or resume with anyway=True."
    )


def is_alive(description: str, seen_at: float) -> bool:
    """Whether the process that was described so lives; `seen_at` (seconds since 1970) is its last sign of life."""
    known = _read(description)
    if known.get("host") != platform.node():
        return time.time() - seen_at < SILENT_S
    pid, start = known.get("pid"), known.get("start")
    if not isinstance(pid, int) or not isinstance(start, int | float):
        return False
    found = _find_start(pid)
    return found is not None and abs(found - start) < _TOLERANCE_S


def _read(description: str) -> dict[str, Any]:
    try:
        known = json.loads(description)
    except (ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _find_start(pid: int) -> float | None:
    """When the process began, in seconds since 1970; None where there is none of that number."""
    import psutil

    try:
        found = psutil.Process(pid)
        return None if found.status() == psutil.STATUS_ZOMBIE else found.create_time()
    except (psutil.Error, ValueError, OverflowError):
        return None
