"""Listeners get every event in order, on threads of their own; a slow or broken one does no harm.

See docs/contract/engine.md#events.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ensemble_notebook.domain.events import Event, Noted, Warned
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter, SystemClock
from ensemble_notebook.engine.events.listeners import ListenerDelivery, wants_tokens

ASKER = contextvars.ContextVar("ASKER", default="nobody")


class Recorder:
    """A listener that keeps what it gets."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.threads: set[threading.Thread] = set()

    def on_event(self, event: Event) -> None:
        assert isinstance(event, Noted)
        self.messages.append(event.message)
        self.threads.add(threading.current_thread())


def deliver(listeners: Sequence[Any], count: int, limit_s: float = 30.0) -> Sequence[str]:
    """Send `count` events, wait for the listeners and give the warnings."""

    async def main() -> Sequence[str]:
        delivery = ListenerDelivery(listeners)
        stream = EventStream("r", SystemClock(), [delivery.put])
        for number in range(count):
            SpanEmitter(stream, "r").emit(Noted, message=str(number))
        return await delivery.drain(limit_s)

    return asyncio.run(main())


def test_every_listener_gets_every_event_in_order_before_the_drain_is_over() -> None:
    first, second, third = Recorder(), Recorder(), Recorder()
    deliver([first, second, third.on_event], 500)
    assert first.messages == second.messages == third.messages == [str(number) for number in range(500)]


def test_each_listener_has_one_thread_of_its_own() -> None:
    first, second = Recorder(), Recorder()
    deliver([first, second], 20)
    assert len(first.threads) == len(second.threads) == 1
    assert first.threads != second.threads
    assert threading.main_thread() not in first.threads | second.threads


def test_the_threads_end_with_the_run() -> None:
    recorder = Recorder()
    deliver([recorder], 1)
    (thread,) = recorder.threads
    thread.join(30)
    assert not thread.is_alive()


def test_a_listener_sees_the_callers_context_variables() -> None:
    seen: list[str] = []
    token = ASKER.set("ada")
    try:
        deliver([lambda _: seen.append(ASKER.get())], 1)
    finally:
        ASKER.reset(token)
    assert seen == ["ada"]


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_a_listener_that_raises_is_logged_and_goes_on(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []

    def picky(event: Event) -> None:
        seen.append(event)
        raise error

    recorder = Recorder()
    (warning,) = deliver([picky, recorder], 3)
    assert warning.startswith(f"Listener picky failed on Noted: {type(error).__name__}")
    assert len(seen) == len(recorder.messages) == 3
    assert [record.getMessage() for record in caplog.records] == ["Listener picky failed on Noted."] * 3
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error


def test_a_slow_listener_blocks_neither_the_sender_nor_the_others() -> None:
    release, seen = threading.Event(), threading.Event()

    class Slow:
        def on_event(self, _: Event) -> None:
            release.wait()

    async def main() -> None:
        delivery = ListenerDelivery([Slow(), lambda _: seen.set()])
        stream = EventStream("r", SystemClock(), [delivery.put])
        SpanEmitter(stream, "r").emit(Noted, message="1")
        assert await asyncio.to_thread(seen.wait, 30)
        release.set()
        await delivery.drain(30)

    asyncio.run(main())


@pytest.mark.parametrize(
    "limit_s, logged",
    [(0.01, ["Listener Stuck is still busy after 0.01 s; not waiting for it."]), (0.0, [])],
    ids=["bounded", "not waited for at all"],
)
def test_the_wait_for_a_stuck_listener_is_bounded(
    limit_s: float, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    class Stuck:
        def on_event(self, _: Event) -> None:
            release.wait()

    with caplog.at_level(logging.WARNING):
        deliver([Stuck()], 1, limit_s)
    release.set()
    assert [record.getMessage() for record in caplog.records] == logged


def test_nobody_listening_costs_nothing() -> None:
    before = set(threading.enumerate())

    async def main() -> set[threading.Thread]:
        delivery = ListenerDelivery([])
        await delivery.drain()
        return set(threading.enumerate())

    assert asyncio.run(main()) <= before


def asking(answer: bool) -> Callable[[Event], None]:
    def listener(_: Event) -> None: ...

    listener.wants_tokens = answer  # type: ignore[attr-defined]
    return listener


def test_replies_stream_when_one_listener_asks_for_them_e17() -> None:
    assert wants_tokens([Recorder(), asking(True)])
    assert not wants_tokens([Recorder(), asking(False)])
    assert not wants_tokens([])


class Choosy(Recorder):
    """A listener that hears of warnings alone."""

    event_types = (Warned,)

    def on_event(self, event: Event) -> None:
        assert isinstance(event, Warned)
        self.messages.append(event.message)


class Resting(Recorder):
    """A listener that rests after each time that it has heard everything; longer than a test may take."""

    rest_s = 1000.0


def test_listener_hears_of_its_types_alone() -> None:
    choosy = Choosy()

    async def main() -> None:
        delivery = ListenerDelivery([choosy])
        emitter = SpanEmitter(EventStream("r", SystemClock(), [delivery.put]), "r")
        emitter.emit(Noted, message="a note")
        emitter.emit(Warned, message="a warning")
        await delivery.drain(30)

    asyncio.run(main())
    assert choosy.messages == ["a warning"]


def test_listener_that_rests_hears_everything_at_the_end() -> None:
    resting = Resting()

    async def main() -> None:
        delivery = ListenerDelivery([resting])
        emitter = SpanEmitter(EventStream("r", SystemClock(), [delivery.put]), "r")
        emitter.emit(Noted, message="0")
        while not resting.messages:  # noqa: ASYNC110 - it happens on another thread
            await asyncio.sleep(0.001)
        for number in range(1, 100):
            emitter.emit(Noted, message=str(number))
        await asyncio.sleep(0.05)
        assert resting.messages == ["0"]
        await delivery.drain(30)

    asyncio.run(main())
    assert resting.messages == [str(number) for number in range(100)]
