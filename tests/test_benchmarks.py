"""That the benchmarks run: every measurement, tiny. How long anything takes is not judged here."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

ROWS = [
    "%load_ext ensemble_notebook, CPU",
    "a trivial cell during the warm-up, p95",
    "first call, 10 s after %load_ext",
    "first sign of life of a cell, wall",
    "updates of its live view",
    "4 streams that are watched live, wall",
    "20 tasks, flow mappings, to the first",
    "20 tasks, block mappings, to the first",
    "wide of no-op async handlers, a task, 10",
    "wide of no-op async handlers, a task, 100",
    "chain of no-op async handlers, a task, 10",
    "chain of no-op async handlers, a task, 100",
    "wide of no-op sync handlers, a task, 10",
    "wide of no-op sync handlers, a task, 100",
    "chain of no-op sync handlers, a task, 10",
    "chain of no-op sync handlers, a task, 100",
    "memory of a finished no-op task, 100",
    "plan of 100 tasks in a chain",
    "plan of 100 tasks that read 10 each",
    "a model call, CPU",
    "a model call, wall",
    "a model call of 3 with a tool, CPU",
    "two chains of 20/200 ms and a join, wall",
    "4 calls of 50 ms and a join, wall",
]


@pytest.mark.slow
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
