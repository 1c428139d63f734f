"""What loading the extension adds to IPython, and what a first cell does, beside an import that widgets need."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from benchmarks.row import Row
from benchmarks.stopwatch import Comparison, Cost

_BARE_SHELL: Final = """
import sys, time
from contextlib import redirect_stdout
from io import StringIO
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config(HistoryManager={{"enabled": False}}))
wall, cpu = time.perf_counter(), time.process_time()
with redirect_stdout(StringIO()):
    {statement}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(cpu, wall, sum(name.partition(".")[0] == "ensemble_notebook" for name in sys.modules))
"""
_LOAD: Final = "shell.run_line_magic('load_ext', 'ensemble_notebook')"
_FIRST_CELL: Final = f"{_LOAD}; shell.run_cell('%%ensemble --llm scripted\\n- Say hello').raise_error()"
_FLOOR: Final = "import anywidget"
_MOST_OF_ANYWIDGET: Final = 19.0
"""1.2 times what 0.1.0 took, which imported 173 modules: 15.7 times as long as the floor."""


def measure(*, quick: bool) -> list[Row]:
    rounds = 1 if quick else 9
    _, modules = _run(_FIRST_CELL)  # writes byte code
    taken = [tuple(_run(each)[0] for each in (_LOAD, _FIRST_CELL, _FLOOR)) for _ in range(rounds)]
    loads, cells, floors = zip(*taken, strict=True)
    what = "%load_ext and a first scripted cell"
    return [
        Comparison(loads, floors).row("%load_ext ensemble_notebook, CPU", "cpu", "ms", _FLOOR, most=300),
        Comparison(cells, floors).row(f"{what}, CPU", "cpu", "ms", _FLOOR, most_ratio=_MOST_OF_ANYWIDGET),
        Row(
            what="modules of ours in it",
            ours=modules,
            floor=173,
            beside="in 0.1.0",
            unit="",
            ratio=modules / 173,
            most=200,
        ),
    ]


def _run(statement: str) -> tuple[Cost, int]:
    """What a statement costs in a new process with a bare shell, and how many modules of ours are there then."""
    command = [sys.executable, "-c", _BARE_SHELL.format(statement=statement)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    cpu, wall, modules = output.split()[-3:]
    return Cost(float(cpu), float(wall)), int(modules)
