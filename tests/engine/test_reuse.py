"""The engine's part of reuse under virtual time: what it asks and keeps, and that nothing reused takes time (C34)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import Event, TaskCompleted, TaskReused, TaskStarted
from ensemble_notebook.domain.fingerprints.task_keys import TaskKeys
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.only_selection import take_part
from ensemble_notebook.domain.seams.kept_tasks import DoneTask, KeptTask, TaskKey
from ensemble_notebook.engine.run.run_result import RunResult
from tests.support.drive import PARALLEL, drive


class Kept:
    """Keeps the tasks of runs in this process."""

    def __init__(self) -> None:
        self.by_key: dict[str, KeptTask] = {}
        self.obstacles: dict[str, str | None] = {}

    def find(
        self, path: str, key: TaskKey, *, attempt: int = 1, is_asked_for: bool = False
    ) -> tuple[KeptTask | None, str]:
        whole = key.with_reads(frozenset())
        found = None if key.obstacle or is_asked_for else self.by_key.get(whole.key)
        return found, key.obstacle or ("unchanged" if found else "changed")

    def is_given(self, path: str) -> bool:
        return False

    def keep(self, done: DoneTask) -> None:
        made = done.key.get()
        self.obstacles[done.path] = made.obstacle or done.obstacle
        if self.obstacles[done.path] is None:
            duration_ms = done.output.duration.total_seconds() * 1000
            self.by_key[made.key] = KeptTask(
                run_id="r0",
                path=done.path,
                output=done.output,
                delegated=done.delegated,
                duration_ms=duration_ms,
                approvals=done.approvals,
            )


def work(name: str, seconds: float, says: str = "done", **fields: Any) -> Task:
    """A task that works so long under virtual time."""

    async def handler(given: TaskInput) -> str:
        await asyncio.sleep(seconds)
        return says

    return Task.of(f"Do {name}", name=name, handler=handler, **fields)


def run(
    kept: Kept, *tasks: Task, only: str | None = None, places: int | None = None, **order: Any
) -> tuple[RunResult, list[Event]]:
    strategy = ErrorStrategy.CONTINUE_ON_ERROR
    made = EnsembleDefinition(tasks=tasks, workflow=PARALLEL, error_strategy=strategy, max_concurrency=places)
    graph, _ = check_ensemble(made)
    if only is not None:
        order["only"] = take_part(graph, next(node for node in graph.tasks if node.name == only))
    return drive(made, graph=graph, task_keys=TaskKeys(graph), is_reusing=True, kept_tasks=kept, **order)


def list_of(events: Sequence[Event], kind: type[Event]) -> list[str | None]:
    return [each.task for each in events if type(each) is kind]


def diamond(says: str = "done") -> list[Task]:
    top = work("top", 5, says)
    sides = [work("left", 7, context=[top]), work("right", 2, context=[top])]
    return [top, *sides, work("end", 3, context=sides)]


def test_nothing_that_is_reused_takes_time():
    kept = Kept()
    _, first = run(kept, *diamond())
    result, events = run(kept, *diamond())
    assert first[-1].offset_s == 15
    assert events[-1].offset_s == 0
    assert list_of(events, TaskReused) == ["top", "left", "right", "end"]
    assert [each.saving.duration.total_seconds() for each in result.completed if each.saving] == [5, 7, 2, 3]


def test_an_edit_costs_its_own_path_alone():
    kept = Kept()
    run(kept, *diamond())
    tasks = diamond()
    tasks[2] = work("right", 2, "otherwise", context=[tasks[0]])
    tasks[3] = work("end", 3, context=tasks[1:3])
    _, events = run(kept, *tasks)
    assert list_of(events, TaskReused) == ["top", "left"]
    assert events[-1].offset_s == 5


def test_what_ends_in_an_identical_output_ends_the_work_there():
    kept = Kept()
    run(kept, *diamond())
    tasks = diamond()
    tasks[0] = work("top", 4)
    sides = [work("left", 7, context=tasks[:1]), work("right", 2, context=tasks[:1])]
    _, events = run(kept, tasks[0], *sides, work("end", 3, context=sides))
    assert list_of(events, TaskCompleted) == ["top"]
    assert events[-1].offset_s == 4


def test_what_a_stopped_run_had_finished_is_kept_and_nothing_else():
    kept = Kept()
    run(kept, *diamond(), stop_after=8)
    assert set(kept.obstacles) == {"top", "right"}
    _, events = run(kept, *diamond())
    assert list_of(events, TaskReused) == ["top", "right"]


def test_only_one_task_runs_and_the_places_are_for_what_it_needs():
    kept = Kept()
    result, events = run(kept, *diamond(), only="right", places=1)
    assert list_of(events, TaskStarted) == ["top", "right"]
    assert [each.name for each in result.skipped] == ["left", "end"]
    _, again = run(kept, *diamond(), only="right")
    assert (list_of(again, TaskReused), again[-1].offset_s) == (["top"], 2)
