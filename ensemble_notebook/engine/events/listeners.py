"""Brings events to listeners, each from its own queue on its own thread: a slow or broken one does no harm.

See docs/contract/engine.md#events.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final

from ensemble_notebook.domain.events import Event
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.errors import add_origin, summarize_error

DRAIN_LIMIT_S: Final = 5.0

logger = logging.getLogger(__name__)


def wants_tokens(listeners: Sequence[Any], *, default: bool = False) -> bool:
    """True when some listener asks for replies to be streamed (E17); `default` is what one means that says nothing."""
    return any(getattr(listener, "wants_tokens", default) for listener in listeners)


def leave_out_heard(listeners: Sequence[Any], around: Sequence[Any]) -> Sequence[Any]:
    """The listeners that have to hear of a run.

    One that has `sends_to` sends what it hears to that object, and is left out where another one does so already.

    Args:
        listeners: of the run.
        around: who hears of the run around it, and so of this one.
    """
    heard, left = list(around), []
    for each in listeners:
        place = getattr(each, "sends_to", None)
        if place is None or all(getattr(other, "sends_to", None) is not place for other in heard):
            heard.append(each)
            left.append(each)
    return left


class ListenerDelivery:
    """The queues of all listeners of one run. Listeners see the caller's context variables.

    A listener with `event_types` hears of these alone. One with `rest_s` has a rest of so many seconds whenever it has
    heard everything, unless the run ends: events that come singly wake its thread less often, which costs the run time.

    Args:
        hold: called on each listener's thread before it hears of an event; returns once it may.
    """

    def __init__(self, listeners: Sequence[Any], hold: Callable[[Event], object] | None = None) -> None:
        self._mailboxes = [_Mailbox(listener, hold) for listener in listeners]

    def put(self, event: Event) -> None:
        """Hand an event to every listener; returns at once."""
        for mailbox in self._mailboxes:
            if mailbox.event_types is None or isinstance(event, mailbox.event_types):
                mailbox.queue.put(event)

    async def drain(self, limit_s: float = DRAIN_LIMIT_S) -> Sequence[str]:
        """Wait until every listener has seen everything, but no longer than `limit_s` seconds in all.

        Returns:
            Warnings: one for each listener that has failed, with its first error, or is late.
        """
        ends = [mailbox.close() for mailbox in self._mailboxes]
        if not ends:
            return ()
        _, late = await asyncio.wait(ends, timeout=limit_s)
        warnings = [mailbox.fault for mailbox in self._mailboxes if mailbox.fault is not None]
        for mailbox, end in zip(self._mailboxes, ends, strict=True):
            if end in late and limit_s > 0:
                warning = f"Listener {mailbox.label} is still busy after {limit_s:g} s; not waiting for it."
                logger.warning("%s", warning)
                warnings.append(warning)
        return warnings


class _Mailbox:
    def __init__(self, listener: Any, hold: Callable[[Event], object] | None) -> None:
        self._hold = hold
        self.fault: str | None = None
        self.label = getattr(listener, "__name__", type(listener).__name__)
        self.event_types: tuple[type[Event], ...] | None = getattr(listener, "event_types", None)
        self.queue: SimpleQueue[Event | None] = SimpleQueue()
        self._rest_s: float | None = getattr(listener, "rest_s", None)
        self._is_closing = threading.Event()
        self._call: Callable[[Event], Any] = getattr(listener, "on_event", None) or listener
        self._end = CrossThreadEvent()
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._work,), name=f"ensemble-{self.label}", daemon=True).start()

    def close(self) -> asyncio.Future[None]:
        """Ask for the end of the queue; the future is done when it is reached."""
        self.queue.put(None)
        self._is_closing.set()
        return self._end.future

    def _work(self) -> None:
        while (event := self.queue.get()) is not None:
            if self._hold is not None:
                self._hold(event)
            try:
                self._call(event)
            except BaseException as error:  # even SystemExit must not keep this listener from its next events
                kind = type(event).__name__
                logger.exception("Listener %s failed on %s.", self.label, kind)
                if self.fault is None:
                    self.fault = f"Listener {self.label} failed on {kind}: {add_origin(summarize_error(error), error)}"
            if self._rest_s is not None and self.queue.empty():
                self._is_closing.wait(self._rest_s)
        self._end.set()
