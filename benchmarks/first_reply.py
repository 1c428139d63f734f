"""What a fresh process takes to its first reply through a spec, imports included, beside the bare ``openai`` client."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Comparison, Cost

_TOLD: Final = """
import resource, sys, time
took = resource.getrusage(resource.RUSAGE_SELF)
unit = 1e6 if sys.platform == "darwin" else 1e3
print(took.ru_utime + took.ru_stime, time.perf_counter() - began, took.ru_maxrss / unit)
"""
_OURS: Final = """
import sys, time
began = time.perf_counter()
from ensemble_notebook import Ensemble, Task
Ensemble(tasks=[Task(description="Say hello")], llm=f"openai:m@{sys.argv[1]}").run()
"""
_BARE: Final = """
import asyncio, sys, time
began = time.perf_counter()
import openai
async def ask():
    async with openai.AsyncOpenAI(api_key="none", base_url=sys.argv[1]) as client:
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Say hello"}])
asyncio.run(ask())
"""


def measure(*, quick: bool) -> list[Row]:
    with serving() as url:
        _run(_OURS, url)  # writes byte code
        taken = [(_run(_OURS, url), _run(_BARE, url)) for _ in range(1 if quick else 9)]
    ours, floors = zip(*taken, strict=True)
    memory, floor_memory = (max(megabytes for _, megabytes in each) for each in (ours, floors))
    costs = Comparison(*([cost for cost, _ in each] for each in (ours, floors)))
    bare = "the bare client"
    return [
        costs.row("a fresh process to its first reply, CPU", "cpu", "ms", bare, most_ratio=1.5),
        Row(
            what="its peak memory",
            ours=memory,
            floor=floor_memory,
            beside=bare,
            unit="MB",
            ratio=memory / floor_memory,
            most=85,
        ),
    ]


def _run(program: str, url: str) -> tuple[Cost, float]:
    """What a program takes in a process of its own, and its peak memory in megabytes."""
    command = [sys.executable, "-c", program + _TOLD, url]
    cpu, wall, megabytes = map(
        float, subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    )
    return Cost(cpu, wall), megabytes
