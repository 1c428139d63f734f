"""When what runs have to write is taken: as a rule it is on disk 0.1 s after it came (T30). The clock is a fake."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.events import Event, TaskCompleted
from ensemble_notebook.trace.store import run_writer
from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_writer import Intake, RunWriter
from tests.support.event_builder import EventBuilder

USUAL_S = 0.1
LONGEST_COMMIT_S = 0.019
"""Of one that is kept for 0.1 s: a batch has what comes in 80 ms, which takes a few milliseconds to write."""


class Script:
    """A clock by which things happen at their times, while somebody waits or writes."""

    def __init__(self) -> None:
        self.time = 0.0
        self.plan: list[tuple[float, Callable[[], None]]] = []
        self.waits = 0

    def now(self) -> float:
        return self.time

    def pass_time(self, until: float) -> None:
        while self.plan and self.plan[0][0] <= until:
            self.time, happen = self.plan.pop(0)
            happen()
        self.time = max(self.time, until)

    def wait(self, event: threading.Event, seconds: float) -> object:
        self.waits += 1
        end = self.time + seconds
        while not event.is_set() and self.plan and self.plan[0][0] <= end:
            self.pass_time(self.plan[0][0])
        if not event.is_set():
            self.time = end
        return event.is_set()


def make_events(count: int) -> list[Event]:
    build = EventBuilder({"say": ()})
    while len(build.events) < count:
        with build.task("say"):
            pass
    return list(build.events[:count])


def play(times: list[float], commits: list[float]) -> tuple[list[float], Script]:
    """When each of the events that come at these times is on disk, where commits take so long, one after the other."""
    script = Script()
    intake = Intake(script.now, script.wait)
    run = RunWriter(RunFacts(run_id="run", name=None, started_at=datetime.now(UTC)), intake)
    intake.add(run)
    events = make_events(len(times))
    script.plan = [(time, lambda each=each: run.on_event(each)) for time, each in zip(times, events, strict=True)]
    written: dict[int, float] = {}
    while len(written) < len(events):
        batch = intake.take(30)
        script.pass_time(script.time + commits.pop() if commits else script.time)
        written |= dict.fromkeys((each.seq for taken in batch.values() for each in taken.entries), script.time)
    return [written[each.seq] for each in events], script


TIMES = st.lists(st.floats(0, 0.5), min_size=1, max_size=30).map(sorted)


@given(TIMES, st.lists(st.floats(0, LONGEST_COMMIT_S), max_size=60))
def test_what_comes_is_on_disk_in_time_whenever_it_comes_where_the_thread_gets_its_turn(times, commits):
    written, _ = play(times, commits)
    assert max(after - came for came, after in zip(times, written, strict=True)) <= USUAL_S
    assert all(one <= other for one, other in pairwise(written))


def test_what_comes_in_a_burst_shares_a_commit_and_nobody_wakes_for_it():
    times = [number / 1000 for number in range(1, 321)]  # an event each millisecond
    written, script = play(times, [0.002] * 20)
    assert len(set(written)) == 4  # one each 80 ms
    assert script.waits == 5  # the first one woke it; after that, it only paused


class SlowToWake(Script):
    """A thread that is woken, and runs only after all that is planned has happened."""

    def wait(self, event: threading.Event, seconds: float) -> object:
        self.pass_time(self.plan[-1][0] if self.plan else self.time)
        return event.is_set()


class CountingIntake(Intake):
    """Counts how often it is woken."""

    count = 0

    def wake(self) -> None:
        self.count += 1
        super().wake()


def test_thread_that_is_woken_already_is_not_woken_again():
    script = SlowToWake()
    intake = CountingIntake(script.now, script.wait)
    run = RunWriter(RunFacts(run_id="run", name=None, started_at=datetime.now(UTC)), intake)
    intake.add(run)
    script.plan = [(0.0, lambda each=each: run.on_event(each)) for each in make_events(20)]
    assert len(intake.take(30)[run].entries) == 20
    assert intake.count == 1


def test_time_that_a_commit_takes_is_part_of_the_pause():
    written, _ = play([0.0, 0.081], [0.0, 0.02])  # the second comes while the first is written
    assert written == pytest.approx([0.08 + 0.02, 0.08 + 0.08])


def test_end_of_a_run_is_waited_for_by_nobody():
    script = Script()
    intake = Intake(script.now, script.wait)
    run = RunWriter(RunFacts(run_id="run", name=None, started_at=datetime.now(UTC)), intake)
    intake.add(run)
    script.plan = [(0.0, lambda: run.on_event(make_events(1)[0])), (0.001, lambda: run.close() and None)]
    batch = intake.take(30)
    assert script.time == 0.001
    assert batch[run].has_ended


class CountingWriter(RunWriter):
    """Notes what it waits for, which comes to nothing."""

    def __init__(self, thread: Intake) -> None:
        super().__init__(RunFacts(run_id="run", name=None, started_at=datetime.now(UTC)), thread)
        self.waited: list[int] = []

    def _wait_for(self, seq: int, timeout_s: float) -> bool:
        self.waited.append(seq)
        return False


def test_who_has_waited_too_long_waits_again_once_that_is_on_disk(monkeypatch):
    monkeypatch.setattr(run_writer, "SHOW_LIMIT_S", 1e-9)
    run = CountingWriter(Intake())
    one, two, three = [each for each in make_events(20) if isinstance(each, TaskCompleted)][:3]
    run.hold(one)
    run.hold(two)
    assert run.waited == [one.seq]
    run.note_written(one.seq)
    run.hold(three)
    assert run.waited == [one.seq, three.seq]
