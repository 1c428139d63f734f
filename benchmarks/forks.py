"""A fork of a run of 1,000 tasks, beside resuming it with one task changed, and beside running it anew.

Ten tasks depend on the one that forks, or is changed. How soon the first request of the fork is sent is what a person
waits for after the press.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from statistics import median
from typing import Any

from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Agent, Ensemble, EnsembleOutput, LlmAttemptStarted, Task

_DEPENDENT = 10
_CHANGE = "Say it shortly."


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (20, 1) if quick else (1_000, 5)
    with serving() as url, asyncio.Runner() as runner:
        ensemble = _make_team(count, url, "Find the first fact.")
        changed = _make_team(count, url, _CHANGE)
        output = runner.run(ensemble.arun())
        span = next(each.span_id for each in output.trace.spans if each.kind == "llm" and each.task == "first")
        runs: dict[str, EnsembleOutput] = {}
        waits: dict[str, list[float]] = {"live": [], "stored": []}

        def fork(where: str) -> None:
            run = output if where == "live" else output.run_id
            began = datetime.now(UTC)
            made = runner.run(ensemble.afork(run, span, user_prompt=_CHANGE))
            # As they are: `events` masks all of them, which would count as a part of the fork.
            sent = next(each.time for each in made._events if isinstance(each, LlmAttemptStarted))
            waits[where].append((sent - began).total_seconds() * 1e3)
            runs[where] = made

        def resume() -> None:
            runs["resumed"] = runner.run(changed.arun(resume=output.run_id))

        resumed = Work(resume)
        live, stored, whole = compare(
            [
                (Work(lambda: fork("live")), resumed),
                (Work(lambda: fork("stored")), resumed),
                (Work(lambda: fork("live")), Work(lambda: runner.run(ensemble.arun()))),
            ],
            rounds,
        )
    asked = {name: _count_requests(each) for name, each in runs.items()}
    return [
        live.row(
            f"a fork of a live run of {count:,} tasks, CPU", "cpu", "ms", "resume=, one task changed", most_ratio=1.2
        ),
        stored.row(
            f"a fork of a stored run of {count:,} tasks, CPU", "cpu", "ms", "resume=, one task changed", most_ratio=1.2
        ),
        whole.row(f"a fork of a run of {count:,} tasks, wall", "wall", "ms", "running it anew"),
        _tell("its requests", asked["live"], asked["resumed"], "those of resume=", most=_DEPENDENT),
        _tell("its first request, after the press", median(waits["live"]), 1_000, "the limit", unit="ms", most=1_000),
        _tell("the same of a stored run", median(waits["stored"]), 1_000, "the limit", unit="ms", most=1_000),
    ]


def _tell(what: str, ours: float, floor: float, beside: str, *, unit: str = "", most: float) -> Row:
    return Row(what=what, ours=ours, floor=floor, beside=beside, unit=unit, ratio=ours / floor, most=most)


def _count_requests(output: EnsembleOutput) -> int:
    return output.metrics.llm_call_count


def _make_team(count: int, url: str, first: str) -> Ensemble:
    """Tasks side by side, of which a few read the first."""
    agent: Any = Agent(role="Writer", goal="Write.")
    one = Task(description=first, expected_output="A fact.", agent=agent, name="first")
    tasks = [one]
    for number in range(1, count):
        context = [one] if number < _DEPENDENT else []
        tasks.append(Task(description=f"Part {number}", expected_output="A part.", agent=agent, context=context))
    return Ensemble(tasks=tasks, llm=f"openai:instant@{url}", workflow="parallel")
