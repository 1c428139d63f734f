"""The doors of a run and of a map: one list of settings, seen at each of them (E4, E72)."""

from __future__ import annotations

import asyncio
import inspect
import operator
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    Event,
    Review,
    ReviewDecision,
    ReviewRequest,
    RunContext,
    RunStarted,
    Task,
    ValidationError,
)
from ensemble_notebook.cell.reading.options import parse_options
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_settings import MapSettings, read_map
from ensemble_notebook.ensemble.many_runs.variants import Variants
from ensemble_notebook.ensemble.run_settings import RunSettings, read_run

get_name = operator.attrgetter("__qualname__")
RUN_DOORS = [Ensemble.run, Ensemble.arun, Ensemble.start, Ensemble.stream, Ensemble.astream, RunnableEnsemble.run]
MAP_DOORS = [Ensemble.map, Variants.map]


def list_keywords(door: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(door).parameters.values()
    return {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}


@pytest.mark.parametrize("door", RUN_DOORS, ids=get_name)
def test_a_door_of_a_run_shows_all_settings(door: Callable[..., Any]) -> None:
    names = [*inspect.signature(door).parameters]
    assert (names[:2], names[-1]) == (["self", "inputs"], "variables")
    assert list_keywords(read_run).items() <= list_keywords(door).items()


@pytest.mark.parametrize("door", MAP_DOORS, ids=get_name)
def test_a_door_of_a_map_shows_all_settings(door: Callable[..., Any]) -> None:
    assert list_keywords(door) == list_keywords(read_map)


@pytest.mark.parametrize("read", [read_run, read_map])
def test_keywords_have_the_defaults_of_the_settings(read: Callable[..., Any]) -> None:
    settings = {each.name: each.default for kind in (MapSettings, RunSettings) for each in fields(kind)}
    assert {name: each.default for name, each in list_keywords(read).items()}.items() <= settings.items()


def test_options_of_a_cell_are_settings_of_its_run() -> None:
    line = "--timeout 5 --reuse --only a --history '2 turns' --replay a.yaml --replay-tools live --pace recorded"
    found = parse_options(line).run_settings
    assert found.keys() < list_keywords(read_run).keys()
    assert all(value is not None for name, value in found.items() if name != "record")


def test_a_run_and_a_map_take_listeners_a_reviewer_and_deps() -> None:
    seen: list[Any] = []

    def work(_: TaskInput, context: RunContext) -> str:
        return str(context.deps)

    def approve(_: ReviewRequest) -> ReviewDecision:
        seen.append("asked")
        return ReviewDecision.approve()

    def hear(event: Event) -> None:
        if isinstance(event, RunStarted):
            seen.append("heard")

    ensemble = Ensemble(tasks=[Task.of("Work on {x}", handler=work, review=Review())])
    keywords: dict[str, Any] = {"listeners": [hear], "review_handler": approve, "deps": "db"}

    async def stream() -> str:
        async with ensemble.stream(x=1, **keywords) as run:
            async for _ in run:
                pass
        assert run.output is not None
        return run.output.raw

    variants = ensemble.variants({"one": {"x": "1"}})
    doors: list[Callable[[], str]] = [
        lambda: ensemble.run(x=1, **keywords).raw,
        lambda: ensemble.start(x=1, **keywords).result().raw,
        lambda: asyncio.run(ensemble.arun(x=1, **keywords)).raw,
        lambda: asyncio.run(stream()),
        lambda: ensemble.run(x=1, repeat=1, **keywords).frame["raw"].iloc[0],
        lambda: ensemble.map([{"x": 1}], **keywords).frame["raw"].iloc[0],
        lambda: variants.run(**keywords).frame["raw"].iloc[0],
        lambda: variants.map([{}], **keywords).frame["raw"].iloc[0],
    ]
    for door in doors:
        assert door() == "db"
        assert {"asked", "heard"} == set(seen)
        seen.clear()


@pytest.mark.parametrize("keywords", [{"continue_from": -1}, {"history": "2 turns"}])
def test_many_runs_go_on_with_no_conversation(keywords: dict[str, Any]) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {x}")], llm="scripted")
    name = next(iter(keywords))
    with pytest.raises(ValidationError, match=f"{name} goes on with one run, and this makes many: leave it out"):
        ensemble.run(x=1, repeat=2, **keywords)
    with pytest.raises(ValidationError, match=f"{name} goes on with one run, and this makes many: leave it out"):
        ensemble.variants({"one": {"x": "1"}}).run(**keywords)


def test_origin_is_a_name_for_a_variable() -> None:
    ensemble = Ensemble(tasks=[Task.of("From {origin}", handler=lambda task: task.description)])
    assert ensemble.run(origin="x").raw == "From x"
