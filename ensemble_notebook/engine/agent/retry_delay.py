"""How long a retry waits, of a model request (E30) and of a handler."""

from __future__ import annotations

from typing import Final

from ensemble_notebook.domain.definitions.agent import USUAL_RETRY_WAIT_S
from ensemble_notebook.domain.seams.chat_port import Fault

LONGEST_WAIT_S: Final = 10.0
LARGEST_EXTRA: Final = 0.25


def compute_retry_delay(
    fault: Fault, attempt: int, max_retries: int, draw: float, max_wait_s: float = USUAL_RETRY_WAIT_S
) -> float | None:
    """Seconds to wait after request number `attempt` (from 1) failed, or None when it was the last. Pure.

    A server that asks for a longer wait than there may be is not asked again: neither before its time nor after it.

    Args:
        fault: what the failure means.
        attempt: how many requests have failed.
        max_retries: how many more there may be.
        draw: as of `compute_backoff`.
        max_wait_s: how long a wait may be.
    """
    if fault.has_changed_request:
        return 0.0
    asked_s = fault.retry_after_s or 0.0
    if not fault.is_transient or attempt > max_retries or asked_s > max_wait_s:
        return None
    return compute_backoff(attempt, draw, least=asked_s, most=max_wait_s)


def compute_backoff(attempt: int, draw: float, least: float = 0.0, most: float = USUAL_RETRY_WAIT_S) -> float:
    """Seconds to wait after attempt number `attempt` (from 1): 1, 2, 4 ..., at most 10, or `least` where it is longer.

    Up to a quarter more comes on top, after the cap and after what a server asks for: tasks that were refused together
    must not come back together.

    Args:
        attempt: how many have failed.
        draw: a random number from 0 to 1, which says how much more.
        least: what the server asks for.
        most: how long a wait may be.
    """
    backoff = LONGEST_WAIT_S if attempt > 4 else 2.0 ** (attempt - 1)
    return min(max(backoff, least) * (1 + LARGEST_EXTRA * draw), most)
