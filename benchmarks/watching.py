"""What it costs a run that somebody watches it, beside the same run alone: many spans, a long reply, a map as a table.

What a cell with a timeline does is done here without a kernel: replies are streamed, events are folded and painted, and
each message becomes JSON as for a page that has said hello. The end is what comes between the last event of a run and
the end of its cell.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from queue import SimpleQueue
from statistics import median
from threading import Thread
from typing import Any

from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Comparison, Cost, Work, compare, cost
from ensemble_notebook import Ensemble, Task, TaskInput, TaskOutput
from ensemble_notebook.ensemble.many_runs.map_run import MapHandle, start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from ensemble_notebook.ensemble.person import Person
from ensemble_notebook.notebook.live.run_display import RunPainter, make_answer_bundle
from ensemble_notebook.notebook.live.run_feed import RunFeed, keep_feed
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle

_AT_ONCE = 32
_ROWS_AT_ONCE = 100
_SPANS_OF_TASK = 4
_LINES = 20
"""Of a table, that a page shows."""


def measure(*, quick: bool) -> list[Row]:
    spans, rounds = (40, 1) if quick else (10_000, 7)
    words = 100 if quick else 10_000
    rows, map_rounds = (20, 1) if quick else (10_000, 1)
    with serving() as url:
        many = _make(spans // _SPANS_OF_TASK, f"openai:instant@{url}")
        long = _make(1, f"openai:words-{words}-letters-99@{url}")
        runs, ends = _compare(many, rounds)
        cells, _ = _compare(long, rounds, has_end=True)
    grid = _compare_maps(rows, map_rounds)
    alone = "the same, not watched"
    return [
        runs.row(f"a watched run of {spans:,} spans, wall", "wall", "s", alone, most_ratio=1.1),
        runs.row(f"a watched run of {spans:,} spans, CPU", "cpu", "s", alone),
        _end(spans, ends, runs),
        _reply(words, cells),
        grid.row(f"a map of {rows:,} rows watched in the grid, wall", "wall", "s", alone, most_ratio=1.1),
        grid.row(f"a map of {rows:,} rows watched in the grid, CPU", "cpu", "s", alone),
    ]


def _end(spans: int, ends: Sequence[float], runs: Comparison) -> Row:
    whole = median(each.wall for each in runs.ours)
    end = median(ends)
    what = f"its end with {spans:,} spans, wall"
    return Row(what=what, ours=end * 1e3, floor=whole * 1e3, beside="the run", unit="ms", ratio=end / whole, most=1000)


def _reply(words: int, runs: Comparison) -> Row:
    """What a long reply takes longer."""
    more = [ours.wall - floor.wall for ours, floor in zip(runs.ours, runs.floor, strict=True)]
    floor = median(each.wall for each in runs.floor)
    return Row(
        what=f"more for a watched reply of {words / 10:,.0f} kB, wall",
        ours=median(more),
        floor=floor,
        beside="the cell, not watched",
        unit="s",
        ratio=median(more) / floor,
    )


def _make(count: int, llm: str) -> Ensemble:
    tasks = [Task(description=f"Work on part {number}.", expected_output="A part.") for number in range(count)]
    return Ensemble(tasks=tasks, workflow="parallel", llm=llm, max_concurrency=_AT_ONCE)


def _compare(ensemble: Ensemble, rounds: int, *, has_end: bool = False) -> tuple[Comparison, list[float]]:
    """Runs that are watched and others, in turns, and how long the end of each watched one took, in seconds.

    With `has_end`, the ends count to the runs.
    """
    taken: list[tuple[Cost, Cost, Cost]] = []
    for _ in range(rounds + 1):
        watched = _Watched(ensemble)
        run, end = cost(Work(watched.run)), cost(Work(watched.end))
        whole = Cost(run.cpu + end.cpu, run.wall + end.wall) if has_end else run
        del watched  # what it keeps would cost the other run's garbage collection
        taken.append((whole, cost(Work(lambda: _run(ensemble))), end))
    ours, floor, ends = zip(*taken[1:], strict=True)  # the first was to warm up
    return Comparison(ours, floor), [each.wall for each in ends]


def _compare_maps(count: int, rounds: int) -> Comparison:
    """A map whose rows wait 200 ms and are scored, 100 at once, and the same map while a page shows its table."""
    ensemble = Ensemble(tasks=[Task.of("Work on part {number}.", name="work", handler=_wait)])
    rows = [{"number": number} for number in range(count)]
    ours, floor = Work(lambda: _watch_map(ensemble, rows)), Work(lambda: _end_map(_start_map(ensemble, rows)))
    (comparison,) = compare([(ours, floor)], rounds)
    return comparison


async def _wait(task: TaskInput) -> str:
    await asyncio.sleep(0.2)
    return f"{task.name} is done, as far as anybody can tell."


def _start_map(ensemble: Ensemble, rows: Sequence[dict[str, int]]) -> MapHandle:
    handle = start_map(ensemble, read_map(rows, concurrency=_ROWS_AT_ONCE, score=_is_answered))
    handle._begin()
    return handle


def _end_map(handle: MapHandle) -> None:
    """Wait for it, and make what stands below its cell."""
    result = handle.result()
    make_answer_bundle(None if handle.run is None else handle.run.output, result, "output")


def _is_answered(output: TaskOutput) -> bool:
    return bool(output.raw)


def _watch_map(ensemble: Ensemble, rows: Sequence[dict[str, int]]) -> None:
    painter = RunPainter(ensemble.cost, "output")
    handle = _start_map(ensemble.replace(listeners=[painter]), rows)
    feed = RunFeed(painter.messages, handle.cancel)
    page = _GridPage(feed)
    feed.subscribe(page)
    feed.receive(page, {"kind": "hello"})
    painter.show(feed)
    handle.result()
    painter.close()
    assert handle.run is not None
    assert handle.run.output is not None
    keep_feed(handle.run.output, feed)
    _end_map(handle)
    page.close()


def _run(ensemble: Ensemble) -> None:
    make_answer_bundle(ensemble.start().result(), None, "output")


class _Watched:
    """A run with its view."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    def run(self) -> None:
        """Up to its last event."""
        ensemble = self._ensemble
        self._painter = painter = RunPainter(ensemble.cost, "output")
        person = Person(has_timeline=True, has_console=False)
        handle = ensemble.start(listeners=(painter, person), review_handler=person.reviewer)
        feed, page = RunFeed(painter.messages, handle.cancel, person), _Page()
        feed.subscribe(page)
        feed.receive(page, {"kind": "hello"})
        painter.show(feed)
        self._output = handle.result()

    def end(self) -> None:
        """What the cell then shows."""
        self._painter.close()
        json.dumps(make_output_bundle(self._output, "output", self._painter.messages))
        json.dumps(make_answer_bundle(self._output, None, "output"))


class _Page:
    """A subscriber whose messages go nowhere, but become what is sent."""

    def send(self, message: dict[str, Any], _buffers: object) -> None:
        json.dumps(message)


class _GridPage(_Page):
    """A page whose table a person goes through: with each message it asks for the cells of other lines."""

    def __init__(self, feed: RunFeed) -> None:
        self._feed, self._first = feed, 0
        self._told = SimpleQueue[bool]()
        self._asker = Thread(target=self._ask)
        self._asker.start()

    def send(self, message: dict[str, Any], _buffers: object) -> None:
        super().send(message, _buffers)
        if message["kind"] != "cells":
            self._told.put(True)

    def close(self) -> None:
        """Ask no more."""
        self._told.put(False)
        self._asker.join()

    def _ask(self) -> None:
        ids: Sequence[str] = ()
        while self._told.get():
            ids = ids or [*self._feed.messages.find_tasks().values()]
            self._first = (self._first + _LINES) % max(1, len(ids))
            self._feed.receive(self, {"kind": "cells", "span_ids": ids[self._first : self._first + _LINES]})
