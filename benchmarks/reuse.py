"""What it costs to find that 1,000 tasks are unchanged, beside bare lookups in the same file; and such a run."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.row import Row
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Agent, Ensemble, Task, TaskInput, config
from ensemble_notebook.domain.fingerprints.task_keys import TaskKeys, TaskStart
from ensemble_notebook.domain.planning.graph import Graph, build_graph
from ensemble_notebook.trace.store.run_store import RunStore

_LIMIT = 5


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (10, 1) if quick else (1_000, 9)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        config.store = path = Path(folder) / "runs.db"
        agent = Agent(role="Writer", goal="Write.", tools=[_search], llm="scripted")
        tasks = [Task(description=f"Part {n}", expected_output="A part.", agent=agent) for n in range(count)]
        ensemble = Ensemble(tasks=tasks, workflow="parallel")
        handlers = [Task(description=f"Part {n}", expected_output="A part.", handler=_answer) for n in range(count)]
        plain = Ensemble(tasks=handlers, workflow="parallel")
        runner.run(ensemble.arun())
        graph = build_graph(ensemble)
        check = Work(lambda: _check(graph, path))
        reused, handled = Work(lambda: runner.run(ensemble.arun(reuse=True))), Work(lambda: runner.run(plain.arun()))
        lookups, runs = compare([(check, Work(lambda: _look_up(path, count))), (reused, handled)], rounds)
        config.store = None
    return [
        lookups.row(f"a reuse check of {count:,} unchanged tasks", "cpu", "ms", "sqlite3, as many lookups"),
        runs.row(f"a run of {count:,} unchanged tasks", "cpu", "ms", "as many no-op handlers"),
    ]


def _check(graph: Graph, path: Path) -> None:
    """All that a run does to find out that nothing is to be done."""
    keys, results = TaskKeys(graph), RunStore.open(path).open_results()
    with closing(results):
        for node in graph.tasks:
            task = node.task
            start = TaskStart(node=node, description=task.description, expected_output=task.expected_output)
            found = results.find(keys.make_key(start).key, node.name)
            assert found is not None, f"{node.name} is not kept"


def _look_up(path: Path, count: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for number in range(count):
            connection.execute("SELECT * FROM results WHERE number = ?", (number,)).fetchone()


def _search(query: str, count: int = 3) -> str:
    """Find it."""
    return _clean(query) * count


def _clean(text: str) -> str:
    return text.strip()[:_LIMIT]


def _answer(task: TaskInput) -> str:
    return str(task.description)
