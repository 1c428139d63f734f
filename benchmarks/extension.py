"""What ``%load_ext ensemble_notebook`` adds to IPython, beside one import that every widget needs."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.row import Row
from benchmarks.stopwatch import Comparison, Cost

_BARE_SHELL = """
import time
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config(HistoryManager={{"enabled": False}}))
wall, cpu = time.perf_counter(), time.process_time()
{statement}
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def measure(*, quick: bool) -> list[Row]:
    rounds = 1 if quick else 9
    ours, floor = "shell.run_line_magic('load_ext', 'ensemble_notebook')", "import anywidget"
    _cost(ours)  # writes byte code
    pairs = [(_cost(ours), _cost(floor)) for _ in range(rounds)]
    comparison = Comparison([mine for mine, _ in pairs], [other for _, other in pairs])
    return [comparison.row("%load_ext ensemble_notebook, CPU", "cpu", "ms", floor, most=300)]


def _cost(statement: str) -> Cost:
    """Of a statement in a new process with a bare shell."""
    command = [sys.executable, "-c", _BARE_SHELL.format(statement=statement)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    cpu, wall = map(float, output.split())
    return Cost(cpu, wall)
