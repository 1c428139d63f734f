"""What it costs a run that somebody watches it, beside the same run alone: with very many spans, and with a long reply.

What a cell with a timeline does is done here without a kernel: replies are streamed, events are folded and painted, and
each message becomes JSON as for a page that has said hello. The end is what comes between the last event of a run and
the end of its cell.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Comparison, Cost, Work, cost
from ensemble_notebook import Ensemble, Task
from ensemble_notebook.ensemble.person import Person
from ensemble_notebook.notebook.live.run_display import RunPainter, make_answer_bundle
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle

_AT_ONCE = 32
_SPANS_OF_TASK = 4


def measure(*, quick: bool) -> list[Row]:
    spans, rounds = (40, 1) if quick else (10_000, 7)
    words = 100 if quick else 10_000
    with serving() as url:
        many = _make(spans // _SPANS_OF_TASK, f"openai:instant@{url}")
        long = _make(1, f"openai:words-{words}-letters-99@{url}")
        runs, ends = _compare(many, rounds)
        cells, _ = _compare(long, rounds, has_end=True)
    alone = "the same, not watched"
    return [
        runs.row(f"a watched run of {spans:,} spans, wall", "wall", "s", alone, most_ratio=1.1),
        runs.row(f"a watched run of {spans:,} spans, CPU", "cpu", "s", alone),
        _end(spans, ends, runs),
        _reply(words, cells),
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
