"""A night at the storm desk: stations that are busy, silent or confused, and the models that write warnings of it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from course import Expectation, named
from ensemble_notebook import Ensemble, EnsembleError, EnsembleOutput, Fail, Reply, Score, ScriptedChatModel, TaskInput

WIND = "Wind 9 from the north-west, gusts of 11, sea very rough."


async def report(task: TaskInput) -> str:
    """A station that reports; takes its time without holding up anybody else."""
    await asyncio.sleep(0.3)
    return f"{task.name}: wind 9, rising"


async def crackle(task: TaskInput) -> str:
    """A station whose first call is lost in noise."""
    await asyncio.sleep(0.1)
    if task.attempt == 1:
        raise ConnectionError("nothing but noise")
    return f"{task.name}: wind 9, rising"


async def silence(task: TaskInput) -> str:
    """A station that does not answer."""
    await asyncio.sleep(0.1)
    raise ConnectionError("no signal")


def forecast(messages: list[Any]) -> Reply:
    """Goes by what was reported, and says what is missing."""
    prompt = messages[-1].content
    heard = sorted(set(re.findall(r"(\w+): wind 9", prompt)))
    missing = sorted(set(re.findall(r"from (\w+) \w+\nNot available", prompt)))
    told = f"Storm, wind 9 ({', '.join(heard)})." if heard else "No forecast without reports."
    return Reply(f"{told} Nothing heard from the {' and '.join(missing)}." if missing else told, delay=0.3)


def judge(messages: list[Any]) -> Reply:
    """Talks first, and keeps to the format when that is sent back."""
    if len(messages) > 2:
        return Reply('Sorry, here it is: {"beaufort": 9}', delay=0.3)
    return Reply("It is blowing hard tonight, and I would not like to be out there.", delay=0.3)


def warn(messages: list[Any]) -> Reply:
    """A warning in capitals; a calm one where a guardrail has objected."""
    if "## Revision" in messages[-1].content:
        return Reply("Wind 9 from the north-west tonight. Stay in port.", delay=0.3)
    return Reply("RUN FOR YOUR LIVES!!!", delay=0.3)


def station(max_tokens: int | None = None) -> ScriptedChatModel:
    """A station that writes one line, and at most so many tokens of it."""
    return ScriptedChatModel(default=Reply(WIND, delay=0.2), model_name="station", max_tokens=max_tokens)


busy = ScriptedChatModel.match(
    {
        "North": [Fail(429), Reply(WIND, delay=0.4)],
        "South": Reply("Wind 6 from the west, steady.", delay=0.4),
        "warning": Reply("Storm in the north, wind 9. Ships stay in port.", delay=0.3),
    },
    model_name="busy server",
)
forecaster = ScriptedChatModel(default=forecast, model_name="forecaster")
observer = ScriptedChatModel(default=judge, model_name="observer")
herald = ScriptedChatModel(default=warn, model_name="herald")
stations = station()


def end_of(ensemble: Ensemble) -> EnsembleOutput:
    """The output of a run, also of one that fails."""
    try:
        return ensemble.run()
    except EnsembleError as error:
        return error.output


@named
def typed(task: str, **fields: object) -> Expectation:
    """Pass where the output of a task is a value with these fields."""

    def has_the_fields(run: EnsembleOutput) -> Score:
        output = run.get(task)
        value = None if output is None else output.parsed_output
        if value is None:
            return Score(value=False, reason=f"{task} has no typed output")
        found = value if isinstance(value, dict) else vars(value)
        return Score(value=fields.items() <= found.items(), reason=f"{task} is {found}")

    return has_the_fields


@named
def fell_back(first: str, then: str) -> Expectation:
    """Pass where an agent was asked first, and another one took over from it."""

    def took_over(run: EnsembleOutput) -> Score:
        asked = list(dict.fromkeys(run.frames.llm_calls.sort_values("start_ms").agent))
        return Score(value=asked == [first, then], reason=f"asked: {', '.join(asked) or 'nobody'}")

    return took_over


@named
def whole_reports(count: int) -> Expectation:
    """Pass where so many reports came, none of them cut off."""

    def came_whole(run: EnsembleOutput) -> Score:
        whole = sum(output.raw == WIND for output in run.task_outputs)
        return Score(value=whole == count, reason=f"{len(run.task_outputs)} reports, {whole} of them whole")

    return came_whole


@named
def promised(cost: float) -> Expectation:
    """Pass where the run had a budget of no more money than this."""

    def had_the_budget(run: EnsembleOutput) -> Score:
        budget = run.ensemble.budget
        limit = None if budget is None else budget.max_cost
        return Score(value=limit is not None and limit <= cost, reason=f"its budget: {limit}")

    return had_the_budget
