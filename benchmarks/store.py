"""What it costs that runs are remembered, and what it takes to load them again.

Costs are those of a run beside the same run with the store switched off. What is loaded was written by the store, from
streams of events like those of runs with model calls.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Comparison, Work, compare, store_at, without_store
from ensemble_notebook import Ensemble, ExecutionTrace, Task, load_traces, store
from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_store import RunStore
from tests.support.event_builder import EventBuilder

_COLUMNS = ["kind", "duration_ms", "cost"]
_PEAK = """
import resource, sys
import duckdb, pandas, pyarrow
from ensemble_notebook import load_traces, store

def read_peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)

before = read_peak()
"""
_SPANS_OF_TASK = 4
_LIMIT_S = 600
_TICK_S = 0.001


def measure(*, quick: bool) -> list[Row]:
    tasks, links, rounds, runs, spans = (10, 2, 1, 3, 40) if quick else (1_000, 12, 7, 1_000, 100_000)
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        rows = [_cost_of_events(url, tasks, rounds), _cost_of_chain(url, links, rounds), _stalls(url, tasks, rounds)]
        rows += _loading(Path(folder), runs, spans, rounds)
    return rows


def _run_unkept(ensemble: Ensemble) -> None:
    with without_store():
        ensemble.run()


def _make(count: int, llm: str, workflow: str) -> Ensemble:
    tasks = [Task(description=f"Work on part {number}.", expected_output="A part.") for number in range(count)]
    return Ensemble(tasks=tasks, workflow=workflow, llm=llm, max_concurrency=32)


def _compare(ensemble: Ensemble, rounds: int) -> Comparison:
    (found,) = compare([(Work(ensemble.run), Work(lambda: _run_unkept(ensemble)))], rounds)
    return found


def _cost_of_events(url: str, tasks: int, rounds: int) -> Row:
    ensemble = _make(tasks, f"openai:instant@{url}", "parallel")
    with without_store():
        count = len(ensemble.run().events)
    found = _compare(ensemble, rounds)
    ours, floor = (min(each.cpu for each in costs) / count * 1e6 for costs in (found.ours, found.floor))
    return Row(
        what="more for an event that is kept, CPU",
        ours=ours - floor,
        floor=floor,
        beside="the run, for each event",
        unit="us",
        ratio=(ours - floor) / floor,
    )


def _cost_of_chain(url: str, links: int, rounds: int) -> Row:
    found = _compare(_make(links, f"openai:delay-20@{url}", "sequential"), rounds)
    what = f"a remembered chain of {links} calls, wall"
    return found.row(what, "wall", "ms", "the same, not remembered", most_ratio=1.05)


def _stalls(url: str, tasks: int, rounds: int) -> Row:
    """The medians of several rounds in turns: a round has few late timers, and what is late differs fourfold."""
    ensemble = _make(tasks, f"openai:instant@{url}", "parallel")
    found = [(_measure_stall(ensemble), _measure_unkept_stall(ensemble)) for _ in range(rounds)]
    ours, floor = (median(each) for each in zip(*found, strict=True))
    what = "the loop answers late in a run, p99"
    beside = "the same, not remembered"
    return Row(what=what, ours=ours - floor, floor=floor, beside=beside, unit="ms", ratio=ours / floor)


def _measure_unkept_stall(ensemble: Ensemble) -> float:
    with without_store():
        return _measure_stall(ensemble)


def _measure_stall(ensemble: Ensemble) -> float:
    """How late a timer of a millisecond is, in milliseconds, while the run goes on."""

    async def tick(late: list[float]) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            late.append(time.perf_counter() - began - _TICK_S)

    async def run() -> list[float]:
        late: list[float] = []
        ticking = asyncio.ensure_future(tick(late))
        await ensemble.arun()
        ticking.cancel()
        return late

    late = sorted(asyncio.run(run()))
    return late[int(len(late) * 0.99)] * 1e3


def _loading(folder: Path, runs: int, spans: int, rounds: int) -> list[Row]:
    many, large = folder / "many.db", folder / "large.db"
    for number in range(runs):
        _keep(many, _write_events(f"many{number}", 100 // _SPANS_OF_TASK))
    _keep(large, _write_events("large", spans // _SPANS_OF_TASK))
    return [
        _time_first(f"tables of {runs:,} runs made at the first load", many),
        _time(f"load {runs:,} runs of 100 spans", lambda: load_traces(many).spans, 2),
        *_ask(many, runs, rounds),
        _time_first(f"tables of {spans:,} spans made at first", large),
        _time(f"load {spans:,} spans of one run", lambda: load_traces(large).spans, 2),
        _size(large, spans),
    ]


def _ask(path: Path, runs: int, rounds: int) -> list[Row]:
    """Three columns by SQL, beside those of the frame that has all; peaks above what is imported by either."""
    query = f"select {', '.join(_COLUMNS)} from spans"
    with store_at(path):
        asked, loaded = Work(lambda: store.sql(query)), Work(lambda: load_traces().spans[_COLUMNS])
        (found,) = compare([(asked, loaded)], rounds)
        peaks = [
            (_measure_peak(f"store.sql({query!r})"), _measure_peak(f"load_traces().spans[{_COLUMNS}]"))
            for _ in range(min(rounds, 3))
        ]
    ours, floor = zip(*peaks, strict=True)
    beside = "the same of load_traces().spans"
    peak = Row(
        what="its peak memory, beyond what is imported",
        ours=max(ours),
        floor=max(floor),
        beside=beside,
        unit="MB",
        ratio=max(ours) / max(floor),
        most_ratio=0.5,
    )
    return [found.row(f"SQL of 3 columns of {runs:,} runs, wall", "wall", "ms", beside, most_ratio=0.5), peak]


def _measure_peak(line: str) -> float:
    """The peak memory of a line in a process of its own, in megabytes."""
    # Linux counts the peak of the process that begins another one as that of the other: a small one stands between.
    between = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"
    command = [sys.executable, "-c", between, f"{_PEAK}{line}\nprint(read_peak() - before)"]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _write_events(run_id: str, tasks: int) -> tuple[Event, ...]:
    """What a run with a model call for each task tells."""
    names = [f"task_{number}" for number in range(tasks)]
    build = EventBuilder(dict.fromkeys(names, ()), provider="openai", model="gpt-4o-mini", run_id=run_id)
    for name in names:
        with build.task(name), build.turn():
            build.llm(f"What there is to say about {name}.", seconds=0.5, input_tokens=120, output_tokens=30)
    return tuple(build.finish())


def _keep(path: Path, events: tuple[Event, ...]) -> None:
    writer = RunStore.open(path).begin(RunFacts(run_id=events[0].run_id, name="demo", started_at=datetime.now(UTC)))
    for event in events:
        writer.on_event(event)
    writer.close().result(_LIMIT_S)


def _time(what: str, load: Callable[[], object], most: float) -> Row:
    load()  # what is imported at first use
    taken = []
    for _ in range(3):
        gc.collect()
        began = time.perf_counter()
        load()
        taken.append(time.perf_counter() - began)
    return Row(
        what=what, ours=median(taken), floor=most, beside="the limit", unit="s", ratio=median(taken) / most, most=most
    )


def _time_first(what: str, path: Path) -> Row:
    """What it takes to make the tables of runs from their events, and to keep them."""
    began, cpu = time.perf_counter(), time.process_time()
    load_traces(path)
    taken, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Row(what=what, ours=taken, floor=cpu, beside="CPU of it", unit="s", ratio=taken / cpu, most=20)


def _size(path: Path, spans: int) -> Row:
    store = RunStore.open(path)
    trace = store.load_trace(store.find_run("-1"))
    size = path.stat().st_size / len(trace.spans)
    as_file = ExecutionTrace.save(trace, path.with_suffix(".trace.json")).stat().st_size / len(trace.spans)
    what = f"bytes for each of {spans:,} spans"
    return Row(what=what, ours=size, floor=as_file, beside="in a trace file", unit="B", ratio=size / as_file)
