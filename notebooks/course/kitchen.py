"""The kitchen of the lesson on phases: cooks are functions that take their time, the head waiter is a script."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from course import Expectation, named
from ensemble_notebook import EnsembleOutput, Reply, Score, ScriptedChatModel, TaskInput

SECONDS = {
    "steak": {"prep": 0.2, "cook": 1.0, "plate": 0.2},
    "salmon": {"prep": 0.3, "cook": 0.5, "plate": 0.2},
    "pasta": {"prep": 0.6, "cook": 0.7, "plate": 0.4},
}


class BurntError(Exception):
    """Food that is past saving."""


async def cook(task: TaskInput) -> str:
    """One step of a dish; takes its time without holding up anybody else."""
    step, _, dish = task.name.partition("_")
    await asyncio.sleep(SECONDS.get(dish, {}).get(step, 0.2))
    return f"{task.description}: done"


async def burn(task: TaskInput) -> str:
    """A step that goes wrong."""
    await asyncio.sleep(0.6)
    raise BurntError("the steak is charcoal")


async def inspect(task: TaskInput) -> str:
    """What the chef says of a plate."""
    await asyncio.sleep(0.2)
    return {"fine": "fine: it can go out"}.get(task.inputs.get("plate", ""), "burnt: nobody can eat this")


def count_plates(messages: list[Any]) -> Reply:
    """The head waiter counts what the kitchen has handed over."""
    plates = len(re.findall("Plate .*: done", messages[-1].content))
    return Reply(f"{plates} plates, one moment. Enjoy your meal!" if plates else "Nothing to serve yet.", delay=0.4)


def season(messages: list[Any]) -> Reply:
    """Each round adds what the taster has asked for."""
    prompt = messages[-1].content
    added = [each for each in ("salt", "lemon") if f"more {each}" in prompt or f"and {each}" in prompt]
    return Reply(" and ".join(["A sauce of cream", *added]), delay=0.3)


def taste(messages: list[Any]) -> Reply:
    """Asks for one thing at a time."""
    sauce = messages[-1].content
    missing = next((each for each in ("salt", "lemon") if f"and {each}" not in sauce), None)
    return Reply(f"Not yet: it needs more {missing}." if missing else "Good. It can go out.", delay=0.3)


waiter = ScriptedChatModel(
    rules=[
        (lambda messages: "Taste" in messages[-1].content.rpartition("## Task")[2], taste),
        (lambda messages: "sauce" in messages[-1].content.rpartition("## Task")[2], season),
        (lambda _: True, count_plates),
    ],
    model_name="waiter",
)


@named
def at_once(*phases: str) -> Expectation:
    """Pass where there was a moment at which all of these phases were at work."""

    def were_at_work_at_once(run: EnsembleOutput) -> Score:
        rows = run.frames.phases.set_index("phase")
        if missing := [name for name in phases if name not in rows.index]:
            return Score(value=False, reason=f"the run has no phase {missing[0]}")
        rows = rows.loc[list(phases)]
        last, first_end = rows.start_ms.idxmax(), (rows.start_ms + rows.duration_ms).idxmin()
        if rows.start_ms[last] < rows.start_ms[first_end] + rows.duration_ms[first_end]:
            return Score(value=True)
        return Score(value=False, reason=f"{last} began when {first_end} had ended")

    return were_at_work_at_once


@named
def ran(phase: str) -> Expectation:
    """Pass where a phase was done."""
    return _has_status(phase, "completed")


@named
def skipped(phase: str) -> Expectation:
    """Pass where a phase was there, and was not needed."""
    return _has_status(phase, "skipped")


def _has_status(phase: str, wanted: str) -> Expectation:
    def has_this_status(run: EnsembleOutput) -> Score:
        status = run.frames.phases.set_index("phase").status.get(phase, "not in the run")
        return Score(value=status == wanted, reason=f"{phase}: {status}")

    return has_this_status


@named
def done_in(phase: str, *, rounds: int) -> Expectation:
    """Pass where a phase took this many rounds."""

    def took_the_rounds(run: EnsembleOutput) -> Score:
        found = [span for span in run.trace.spans if (span.kind, span.name) == ("phase", phase)]
        count = max(len(found[0].rounds), 1) if found else 0
        return Score(value=count == rounds, reason=f"rounds of {phase}: {count}")

    return took_the_rounds
