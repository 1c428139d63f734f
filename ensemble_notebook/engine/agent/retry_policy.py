"""Decides whether a failed model request is tried again, and after how long (E30). Pure."""

from __future__ import annotations

from typing import Final

from ensemble_notebook.domain.seams.chat_port import Fault

LONGEST_WAIT_S: Final = 10.0


def compute_retry_delay(fault: Fault, attempt: int, max_retries: int) -> float | None:
    """Seconds to wait after attempt number `attempt` (from 1) failed, or None when it was the last.

    Waits are 1, 2, 4 ... s, capped at 10 s, or what the server asked for if that is longer.
    """
    if not fault.is_transient or attempt > max_retries:
        return None
    backoff = LONGEST_WAIT_S if attempt > 4 else 2.0 ** (attempt - 1)
    return max(backoff, fault.retry_after_s or 0.0)
