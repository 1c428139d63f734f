"""The event stream: numbering, stamping, and nothing after its end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ensemble_notebook.domain.events import Event, Noted, TaskSkipped
from ensemble_notebook.engine.events.event_stream import EventStream, SpanEmitter

START = datetime(2026, 1, 1, tzinfo=UTC)


class SteppingClock:
    """Each reading of the monotonic clock is half a second later than the one before; the wall clock jumps about."""

    def __init__(self) -> None:
        self._walls: Iterator[datetime] = iter([START, START - timedelta(days=1)])
        self._seconds = 100.0

    def now(self) -> datetime:
        return next(self._walls)

    def monotonic(self) -> float:
        self._seconds += 0.5
        return self._seconds


def test_events_are_numbered_from_0_without_gaps() -> None:
    stream = EventStream("r", SteppingClock())
    spans = [SpanEmitter(stream, stream.new_span_id()) for _ in range(3)]
    for span in [*spans, *spans]:
        span.emit(Noted, message="hello")
    assert [event.seq for event in stream.events] == [0, 1, 2, 3, 4, 5]


def test_times_follow_the_monotonic_clock_from_one_reading_of_the_wall_clock_t4() -> None:
    stream = EventStream("r", SteppingClock())
    span = SpanEmitter(stream, "r")
    for _ in range(3):
        span.emit(Noted, message="tick")
    assert [event.offset_s for event in stream.events] == [0.5, 1.0, 1.5]
    assert [event.time for event in stream.events] == [START + timedelta(seconds=s) for s in (0.5, 1.0, 1.5)]


def test_an_event_carries_where_it_belongs() -> None:
    stream = EventStream("r", SteppingClock())
    SpanEmitter(stream, "r.7", "r", task="write", phase="draft", depends_on=("read",)).emit(
        TaskSkipped, reason="no ink"
    )
    (event,) = stream.events
    assert isinstance(event, TaskSkipped)
    assert (event.run_id, event.span_id, event.parent_id) == ("r", "r.7", "r")
    assert (event.task, event.phase, event.depends_on) == ("write", "draft", ("read",))
    assert event.reason == "no ink"


def test_a_child_is_a_new_span_of_the_same_task_that_waits_for_nothing() -> None:
    stream = EventStream("r", SteppingClock())
    parent = SpanEmitter(stream, stream.new_span_id(), "r", task="write", phase="draft", depends_on=("read",))
    child, other = parent.child(), parent.child()
    assert child.parent_id == other.parent_id == parent.span_id
    assert len({parent.span_id, child.span_id, other.span_id}) == 3
    assert (child.task, child.phase, child.depends_on) == ("write", "draft", ())


def test_span_ids_of_two_runs_differ() -> None:
    first, second = EventStream("r1", SteppingClock()), EventStream("r2", SteppingClock())
    assert first.new_span_id() != second.new_span_id()


def test_every_sink_gets_every_event_in_order_as_it_is_written() -> None:
    seen: list[tuple[str, Event]] = []
    sinks = [lambda event, name=name: seen.append((name, event)) for name in ("first", "second")]
    stream = EventStream("r", SteppingClock(), sinks)
    for _ in range(2):
        SpanEmitter(stream, "r").emit(Noted, message="tick")
    one, two = stream.events
    assert seen == [("first", one), ("second", one), ("first", two), ("second", two)]


def test_nothing_is_written_after_the_end() -> None:
    seen: list[Event] = []
    stream = EventStream("r", SteppingClock(), [seen.append])
    stream.close()
    SpanEmitter(stream, "r").emit(Noted, message="too late")
    assert stream.events == seen == []


def test_an_event_can_not_be_changed() -> None:
    stream = EventStream("r", SteppingClock())
    SpanEmitter(stream, "r").emit(Noted, message="tick")
    with pytest.raises(AttributeError):
        stream.events[0].seq = 5  # type: ignore[misc]
