"""That the benchmarks run: every measurement, tiny. How long anything takes is not judged here."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

ROWS = [
    "%load_ext ensemble_notebook, CPU",
    "%load_ext and a first scripted cell, CPU",
    "modules of ours in it",
    "a fresh process to its first reply, CPU",
    "its peak memory",
    "a trivial cell during the warm-up, p95",
    "first call, 10 s after %load_ext",
    "first sign of life of a cell, wall",
    "updates of its live view",
    "4 streams that are watched live, wall",
    "20 tasks, flow mappings, to the first",
    "20 tasks, block mappings, to the first",
    "20 tasks, bare texts, to the first",
    "20 tasks, in phases of two, to the first",
    "wide of no-op async handlers, a task, 10",
    "wide of no-op async handlers, a task, 100",
    "chain of no-op async handlers, a task, 10",
    "chain of no-op async handlers, a task, 100",
    "wide of no-op sync handlers, a task, 10",
    "wide of no-op sync handlers, a task, 100",
    "chain of no-op sync handlers, a task, 10",
    "chain of no-op sync handlers, a task, 100",
    "for each with a no-op async handler, an item",
    "memory of a finished no-op task, 100",
    "a picture in 20 rows, 10 at once, peak",
    "what its result keeps",
    "a map over 20 rows of 200 ms, wall, a row",
    "a map over 20 rows of 200 ms, CPU, a row",
    "memory of a finished row, 20",
    "speed-up of 4 rows by 2 workers, wall",
    "4 rows over 2 workers under 200/s",
    "longest silence of the heart, 10 busy rows",
    "plan of 100 tasks in a chain",
    "plan of 100 tasks that read 10 each",
    "a model call, CPU",
    "a model call, wall",
    "a model call that is not remembered, CPU",
    "a reply of a call made again, CPU",
    "a model call of 3 with a tool, CPU",
    "the same under a rule that never asks",
    "the same under a plain function, on a thread",
    "the same against itself",
    "a reuse check of 10 unchanged tasks",
    "a run of 10 unchanged tasks",
    "a fork of a live run of 20 tasks, CPU",
    "a fork of a stored run of 20 tasks, CPU",
    "a fork of a run of 20 tasks, wall",
    "its requests",
    "its first request, after the press",
    "the same of a stored run",
    "paid calls to the same score, 4 tasks",
    "paid calls to the same score, 1 task",
    "Run key to the rows of 20 runs, wall",
    "two chains of 20/200 ms and a join, wall",
    "4 calls of 50 ms and a join, wall",
    "stop of 8 calls, to the last socket",
    "a watched run of 40 spans, wall",
    "a watched run of 40 spans, CPU",
    "its end with 40 spans, wall",
    "more for a watched reply of 10 kB, wall",
    "a map of 20 rows watched in the grid, wall",
    "a map of 20 rows watched in the grid, CPU",
    "a watched LangGraph run of 2 calls, CPU",
    "a watched LangGraph run of 2 calls, wall",
    "bytes to the page for 40 foreign spans live",
    "a task whose spans are sent, CPU",
    "the same with texts",
    "the same with a listener that does nothing",
    "Run key to the view, 5 s after %load_ext",
    "first paint of 100 spans",
    "a frame, panning 200 spans, p50, CPU",
    "a frame, panning 200 spans, p95, CPU",
    "a frame, panning 100 spans by agent, p95, CP",
    "a frame, 100 spans grouped anew, p95, CPU",
    "a frame, dragging the playhead of 100 spans,",
    "a frame, 100 spans come live, p95, CPU",
    "the same with columns, lane and colours, pan",
    "the same, 100 spans come live",
    "a batch of 200 in 100, 5 tasks, CPU",
    "a batch of 200 in 200, one task, CPU",
    "grid of 20 cells, opened",
    "a frame, scrolling 20 rows of a map, p95, CP",
    "PageDown through 200 rows, p95, CPU",
    "the longest frame of a first pan of 100 span",
    "the longest frame of a first opening in 100,",
    "graph of 30 nodes, opened",
    "a frame, a graph of 30 nodes live, p95, CPU",
    "a frame, a graph of 8 nodes, 2 replies come,",
    "callbacks of a finished run at rest",
    "more for an event that is kept, CPU",
    "a remembered chain of 2 calls, wall",
    "the loop answers late in a run, p99",
    "tables of 3 runs made at the first load",
    "load 3 runs of 100 spans",
    "SQL of 3 columns of 3 runs, wall",
    "its peak memory, beyond what is imported",
    "tables of 40 spans made at first",
    "load 40 spans of one run",
    "bytes for each of 40 spans",
    "load a session of 20 turns, CPU",
    "load 200 spans of a file, CPU",
]


@pytest.mark.kernel
@pytest.mark.timeout(900)  # each of them starts processes: kernels, a browser, a cluster
def test_every_measurement_gives_its_rows() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["what", "ours", "floor", "ratio", "limit", "ok"]
    assert [row[:44].rstrip() for row in rows] == ROWS


def test_an_unknown_measurement_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks", "spead"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no measurement spead" in done.stderr
