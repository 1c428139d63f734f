"""A finished run is freed at once: what the garbage collector has to look for, it looks for among all that is alive."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, MapResult, Phase, Task, TaskInput
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.engine.events.event_stream import SystemClock
from ensemble_notebook.engine.run.driver import Driver
from ensemble_notebook.engine.run_services import ParentRun, find_parent_run
from ensemble_notebook.engine.scheduler import Scheduler
from ensemble_notebook.engine.task.task_runner import TaskRunner
from tests.conformance.scene import scripted
from tests.support.drive import driver_of, works

# Without time limits: a timer that was cancelled keeps its context until its loop throws it away.
WRITER = Agent(role="Writer", goal="Write", llm=scripted(*["Done."] * 9), llm_timeout=None)
RUN_OBJECTS = (Driver, Scheduler, TaskRunner, ParentRun)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counting frees anything meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def nap(given: TaskInput) -> str:
    await asyncio.sleep(0)
    return given.description


def count_run_objects() -> int:
    return sum(isinstance(each, RUN_OBJECTS) for each in gc.get_objects())


def chain(**fields: Any) -> list[Task]:
    first = Task(name="first", description="Take {number}", expected_output="it", handler=nap)
    return [first, Task(name="second", description="Go on", expected_output="it", context=[first], **fields)]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    "fields",
    [
        {"tasks": chain(handler=nap)},
        {"tasks": chain(handler=lambda given: given.description)},
        {"tasks": chain(handler=nap, for_each=["a", "b"])},
        {"tasks": chain(agent=WRITER)},
    ],
    ids=["async", "sync", "items", "agent"],
)
def test_the_run_of_a_row_is_freed_without_the_garbage_collector_e72(fields: dict[str, Any]) -> None:
    seen: list[weakref.ref[ParentRun]] = []

    async def watch(given: TaskInput) -> str:
        run = find_parent_run()
        assert run is not None
        seen.append(weakref.ref(run))
        return given.name

    watching = Task(name="watch", description="Look", expected_output="it", handler=watch)
    before = count_run_objects()
    result = Ensemble(tasks=[*fields["tasks"], watching], capture_mode="metadata").map(
        [{"number": n} for n in range(3)]
    )
    assert isinstance(result, MapResult)
    assert all(row.is_done for row in result)
    for thread in threading.enumerate():
        if thread.name == "ensemble-call":  # the last call of a sync handler lives as long as its thread
            thread.join(10)
    assert len(seen) == 3
    assert [each() for each in seen] == [None] * 3
    assert count_run_objects() - before <= len(RUN_OBJECTS)  # the run of the map may be about to end still


def count_while_all_wait(count: int) -> int:
    """How many objects the garbage collector has to look at while so many rows wait."""
    waiting_count, object_count, everybody = 0, 0, asyncio.Event()

    async def wait(_given: TaskInput) -> str:
        nonlocal waiting_count, object_count
        waiting_count += 1
        if waiting_count == count:
            object_count = len(gc.get_objects())
            everybody.set()
        await everybody.wait()
        return "done"

    waiting = Task(name="wait", description="Wait {number}", expected_output="it", handler=wait)
    result = Ensemble(tasks=[waiting], capture_mode="metadata").map(
        [{"number": n} for n in range(count)], concurrency=count
    )
    assert all(row.is_done for row in result)
    return object_count


@pytest.mark.usefixtures("no_collector")
def test_a_row_that_waits_leaves_little_to_look_at_for_the_garbage_collector_e72() -> None:
    count_while_all_wait(1)
    few, many = count_while_all_wait(20), count_while_all_wait(120)
    # Its runs, its place among the rows, and who scores it: 173 alone, 177 behind other tests.
    assert (many - few) / 100 < 181


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("mode", ["metadata", "off"])
def test_what_a_row_failed_with_does_not_keep_its_run_alive_e72_e48(mode: str) -> None:
    seen: list[weakref.ref[ParentRun]] = []

    def note_run() -> None:  # apart, since the variables of the function that fails stay alive
        run = find_parent_run()
        assert run is not None
        seen.append(weakref.ref(run))

    async def fail(_given: TaskInput) -> str:
        note_run()
        try:
            raise LookupError("there is no such thing")
        except LookupError as error:
            raise ValueError("this can't be") from error

    failing = Task(name="fail", description="Fail", expected_output="it", handler=fail)
    result = Ensemble(tasks=[failing], capture_mode=mode).map([{}, {}])
    assert [each() for each in seen] == [None, None]
    error = result[0].error
    assert error is not None
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if mode == "off":
        assert isinstance(root, LookupError)
        assert [frame.name for frame in traceback.extract_tb(root.__traceback__)] == ["fail"]
    assert "in fail" in result.frame["error"].iloc[0]


@pytest.mark.usefixtures("no_collector")
def test_a_run_with_phases_is_freed_without_the_garbage_collector() -> None:
    async def run() -> weakref.ref[Driver]:
        one = Task(name="one", description="Do", expected_output="it", handler=works(0))
        two = Task(name="two", description="Do", expected_output="it", handler=works(0))
        phases = (Phase(name="first", tasks=[one]), Phase(name="then", tasks=[two], after=["first"]))
        driver, _ = driver_of(EnsembleDefinition(phases=phases), SystemClock())
        assert (await driver.run()).error is None
        return weakref.ref(driver)

    assert asyncio.run(run())() is None


@pytest.mark.parametrize("mode", ["metadata", "off"])
def test_rows_share_a_plan_where_no_text_of_it_is_told_e72_t6a(mode: str) -> None:
    result = Ensemble(tasks=chain(handler=nap), capture_mode=mode).map([{"number": 1}, {"number": 2}])
    first, second = (row.output for row in result)
    assert first is not None
    assert second is not None
    assert (first.plan is second.plan) is (mode == "metadata")
    assert [each["first"].raw for each in (first, second)] == ["Take 1", "Take 2"]
    told = [each.plan.tasks[0].description for each in (first, second)]
    assert told == (["", ""] if mode == "metadata" else ["Take 1", "Take 2"])
