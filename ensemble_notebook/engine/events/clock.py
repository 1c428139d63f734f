"""Where the engine reads the time. Waiting is asyncio's; a test's virtual loop and this clock agree."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for anchors, one for durations (T4)."""

    def now(self) -> datetime:
        """UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    # Read several times for each event: the function itself, not one around it.
    monotonic = staticmethod(time.monotonic)
