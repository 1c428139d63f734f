"""Which process writes a run, so that others can see whether it still lives. Numbers of processes are used again."""

from __future__ import annotations

import json
import os
import platform
import time
from functools import lru_cache
from typing import Any, Final

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
