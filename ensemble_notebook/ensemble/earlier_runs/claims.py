"""Which runs of this process go on with which ones: one at a time (C33), also where no store could say so."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Final

from ensemble_notebook.trace.store.run_facts import describe_owner, make_claim_error

_going_on: Final[dict[str, tuple[str, datetime]]] = {}
"""By the id of a run the one that it goes on with, and since when."""
_lock: Final = threading.Lock()


def check_unclaimed_here(resumed_id: str) -> None:
    """Check that no run of this process goes on with this one now.

    Raises:
        ValidationError: one does; says which.
    """
    for run_id, (claimed, since) in [*_going_on.items()]:
        if claimed == resumed_id:
            raise make_claim_error(resumed_id, run_id, describe_owner(), None, since)


def claim_here(resumed_id: str, run_id: str, since: datetime, *, is_only: bool) -> None:
    """A run goes on with this one from here on, until it is released.

    Raises:
        ValidationError: it `is_only` to go on where no other run does so, and one does.
    """
    with _lock:
        if is_only:
            check_unclaimed_here(resumed_id)
        _going_on[run_id] = resumed_id, since


def release_here(run_id: str) -> None:
    """The run has ended; one that goes on with none has nothing to release."""
    _going_on.pop(run_id, None)
