"""Whether a run may still send model requests (E66): asked before each one, whatever else has become of the run."""

from __future__ import annotations

import asyncio


class SendGate:
    """Open until the run is stopped or over; then for good closed. May be closed from any thread."""

    def __init__(self) -> None:
        self._is_closed = False

    def close(self) -> None:
        """Let no further request through."""
        self._is_closed = True

    def check(self) -> None:
        """Let a request through.

        Raises:
            CancelledError: the run was stopped, and a tool or a callback has kept that from whoever asks.
        """
        if self._is_closed:
            raise asyncio.CancelledError("the run was stopped")
