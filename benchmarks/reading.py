"""How long a large cell takes from its text to its first task, beside the YAML parser's own time for the same text."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML

from benchmarks.row import Row
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Event, RunHandle, RunInterrupted, TaskStarted
from ensemble_notebook.cell.cell_reader import read_cell


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (20, 1) if quick else (2_000, 5)
    rows = [(f"t{number}", f"Write part {number}", f"t{number - 1}" if number % 10 else "") for number in range(count)]
    flow = [f"  {name}: {{description: {text}, handler: work, context: [{before}]}}" for name, text, before in rows]
    block = [
        f"  - name: {name}\n    description: {text}\n    handler: work\n    context: [{before}]"
        for name, text, before in rows
    ]
    texts = {
        "flow mappings": "workflow: parallel\ntasks:\n" + "\n".join(flow),
        "block mappings": "workflow: parallel\ntasks:\n" + "\n".join(block),
        "bare texts": "\n".join(f"- {text}" for _, text, _ in rows),
        "in phases of two": "phases:\n" + "\n".join(_write_phase(number) for number in range(count // 2)),
    }
    pairs = [(Work(lambda text=text: _start(text)), Work(lambda text=text: _compose(text))) for text in texts.values()]
    return [
        comparison.row(f"{count:,} tasks, {shape}, to the first", "wall", "ms", "ruamel.yaml's compose", most_ratio=2.5)
        for shape, comparison in zip(texts, compare(pairs, rounds), strict=True)
    ]


def _write_phase(number: int) -> str:
    """Two tasks of bare text, in a phase that comes after the one before it."""
    after = f"\n    after: [p{number - 1}]" if number else ""
    return f"  p{number}:{after}\n    tasks:\n      - Write part {number}\n      - Improve part {number}"


def _start(text: str) -> None:
    """From the text to the first task, which ends the run."""
    names = {"work": _work}
    started: list[RunHandle] = []

    def stop_at_first(event: Event) -> None:
        if isinstance(event, TaskStarted) and started:
            started[0].cancel()

    ensemble = read_cell(text, names).build(names)
    started.append(ensemble.start(listeners=[stop_at_first]))
    try:
        started[0].result()
    except RunInterrupted:
        return


async def _work(_task: Any) -> str:
    return "done"


def _compose(text: str) -> None:
    YAML(typ="safe", pure=True).compose(text)
