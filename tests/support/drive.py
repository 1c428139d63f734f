"""Drives runs of tasks with handlers, mostly under virtual time: no model, no thread, nothing that takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ExitReason, Workflow
from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.execution_plan import make_plan
from ensemble_notebook.domain.seams.chat_port import ChatPort, ChatSource
from ensemble_notebook.domain.seams.kept_tasks import KeptTasks
from ensemble_notebook.engine.events.event_stream import Clock, EventStream, Sink, SystemClock
from ensemble_notebook.engine.events.nested_events import NestedEvents, find_calling_span
from ensemble_notebook.engine.run.driver import Driver
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.engine.run_services import find_parent_run
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.testing.virtual_clock import LoopClock, VirtualLoop, run_virtual

AFTERMATH_S = 60
PARALLEL = Workflow.PARALLEL


def no_extra() -> float:
    """The random part of waits: none, so that tests know when things happen."""
    return 0.0


class NoModels:
    """A source of models that never has one ready."""

    def check(self, llm: Any) -> None: ...

    warnings = ()
    has_reviews = False

    async def review(self, request: ReviewRequest, ask: Callable[[], Awaitable[ReviewAnswer]]) -> ReviewAnswer:
        return await ask()

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> ChatPort:
        notice(f"Fetching {llm}.")
        await asyncio.sleep(1000)
        raise OSError("the weights are gone")


def driver_of(
    made: EnsembleDefinition,
    clock: Clock,
    sinks: Sequence[Sink] = (),
    source: ChatSource | None = None,
    nested: NestedEvents | None = None,
    run_id: str = "r",
    kept_tasks: KeptTasks | None = None,
    **order: Any,
) -> tuple[Driver, list[Event]]:
    """The driver of a run on the current loop, and its events; `order` says more than the definition does."""
    graph, warnings = check_ensemble(made)
    whole = {
        "definition": made,
        "graph": graph,
        "plan": make_plan(graph, made.inputs),
        "inputs": made.inputs,
        "warnings": warnings,
        "streams": False,
        "budget": made.budget,
        "review_handler": made.review_handler,
        "constraints": made.hierarchical_constraints,
    }
    stream = EventStream(run_id, clock, sinks)
    parent, around = (None, None) if nested is None else (find_parent_run(), nested.connect(stream))
    spec = RunSpec(**whole | order)
    return Driver(spec, source or NoModels(), stream, clock, no_extra, parent, around, kept_tasks), stream.events


WORDS = {
    ExitReason.USER_EXIT_EARLY: "somebody chose to leave the run",
    ExitReason.BUDGET_EXCEEDED: "the budget is used up",
}


async def drive_nested(made: EnsembleDefinition, run_id: str, **order: Any) -> RunResult:
    """Run inside a function that a driven run has called under virtual time, as a nested run of it (E52)."""
    parent, place, loop = find_parent_run(), find_calling_span(), asyncio.get_running_loop()
    assert parent is not None
    assert place is not None
    assert isinstance(loop, VirtualLoop)
    nested = NestedEvents(place)
    driver, _ = driver_of(made, LoopClock(loop), [nested.put], parent.source, nested, run_id, **order)
    return await driver.run()


def drive(
    made: EnsembleDefinition,
    stop_after: float | None = None,
    close_after: float | None = None,
    why: ExitReason = ExitReason.USER_EXIT_EARLY,
    source: ChatSource | None = None,
    **order: Any,
) -> tuple[RunResult, list[Event]]:
    """Run under virtual time, closed or stopped after so many seconds; what outlives the run is given time to end."""
    loop = VirtualLoop()

    async def main() -> tuple[RunResult, list[Event]]:
        driver, events = driver_of(made, LoopClock(loop), source=source, **order)
        if close_after is not None:
            loop.call_later(close_after, driver.close, why, WORDS[why])
        if stop_after is not None:
            loop.call_later(stop_after, driver.stop, ExitReason.INTERRUPTED)
        result = await driver.run()
        await asyncio.sleep(AFTERMATH_S)
        return result, events

    return run_virtual(main(), loop)


def drive_for_real(made: EnsembleDefinition, meanwhile: Callable[[Driver], Awaitable[None]] | None = None) -> Any:
    """Run on an ordinary loop, as threads need one."""

    async def main() -> tuple[RunResult, list[Event]]:
        driver, events = driver_of(made, SystemClock())
        run = asyncio.ensure_future(driver.run())
        if meanwhile is not None:
            await meanwhile(driver)
        return await asyncio.wait_for(run, 30), events

    return asyncio.run(main())


def works(seconds: float) -> Callable[[TaskInput], Awaitable[str]]:
    async def handler(given: TaskInput) -> str:
        await asyncio.sleep(seconds)
        return f"{given.name} done"

    return handler


def fails(seconds: float, error: BaseException | None = None) -> Callable[[TaskInput], Awaitable[str]]:
    async def handler(given: TaskInput) -> str:
        await asyncio.sleep(seconds)
        raise ValueError(f"{given.name} is broken") if error is None else error

    return handler


def task(name: str, *context: str, handler: Any = None, **fields: Any) -> Task:
    return Task.of(name, name=name, context=context, handler=handler or works(1), **fields)


def parallel(*tasks: Task, **fields: Any) -> EnsembleDefinition:
    return EnsembleDefinition(tasks=tasks, workflow=PARALLEL, **fields)


def only(events: list[Event], kind: type[Any]) -> Any:
    (event,) = (each for each in events if isinstance(each, kind))
    return event


def times(events: list[Event], kind: type[Event]) -> dict[str, float]:
    """When each task had its event of this kind, at last."""
    return {each.task: each.offset_s for each in events if isinstance(each, kind) and each.task is not None}
