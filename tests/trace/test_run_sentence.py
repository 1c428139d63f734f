"""What happened in a run, in one sentence, and that cancelled tasks are counted (W20)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ErrorStrategy
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import Event
from ensemble_notebook.models.langchain.scripted_model import Reply, ToolUse
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.notebook.picture.static_picture import render_chart_html, render_chart_text
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.run_sentence import describe_run
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.drive import drive, fails, parallel, task, works
from tests.support.recorded_messages import make_agent


def describe(events: Iterable[Event]) -> str | None:
    return describe_run(TraceFold.from_events(events))


def run(made: EnsembleDefinition, **how: Any) -> list[Event]:
    return drive(made, **how)[1]


def test_w20_a_run_says_how_much_was_done_side_by_side_and_what_took_the_time() -> None:
    events = run(
        parallel(
            task("short", handler=works(1)), task("nap", "short", handler=works(5)), task("walk", handler=works(4))
        )
    )
    assert describe(events) == "3 tasks in 6.0 s (10 s of work, 1.7x parallel); longest: nap, 83% of the critical path"


def test_tasks_one_after_the_other_are_not_side_by_side() -> None:
    events = run(EnsembleDefinition(tasks=(task("one", handler=works(1)), task("two", handler=works(3)))))
    assert describe(events) == "2 tasks in 4.0 s; longest: two, 75% of the critical path"


def test_where_nothing_stands_out_nothing_is_named() -> None:
    events = run(EnsembleDefinition(tasks=tuple(task(f"t{number}", handler=works(1)) for number in range(10))))
    assert describe(events) == "10 tasks in 10 s"


def test_of_one_task_its_calls_are_told_apart() -> None:
    async def look(query: str) -> str:
        """Look."""
        return query

    replies = Reply(calls=[ToolUse("look", {"query": "sea"})], delay=3), Reply("Done.", delay=1)
    only = Task.of("Look", agent=make_agent("Scout", *replies, tools=[look]))
    assert (
        describe(run(EnsembleDefinition(tasks=(only,)), source=ModelSource(), streams=True))
        == "1 task in 4.0 s; longest: model calls, 100% of the time"
    )


class SlowSource(ModelSource):
    """Takes eight seconds to have a model ready."""

    def __init__(self, words: str = "Loading the model ...") -> None:
        super().__init__()
        self._words = words

    async def prepare(self, llm: Any, notice: Any) -> Any:
        notice(self._words)
        await asyncio.sleep(8)
        return await super().prepare(llm, notice)


def test_e57_the_time_of_a_startup_is_that_of_no_task_or_call() -> None:
    def write() -> Task:
        return Task.of("Write", name="write", agent=make_agent("Poet", Reply("An ode.", delay=1)))

    only = run(EnsembleDefinition(tasks=(write(),)), source=SlowSource())
    assert describe(only) == "1 task in 9.0 s (8.0 s startup of a model); longest: model calls, 100% of the rest"
    beside = run(parallel(write(), task("nap", handler=works(12))), source=SlowSource())
    assert describe(beside) == "2 tasks in 12 s (13 s of work, 1.1x parallel); longest: nap, 100% of the critical path"
    two = run(EnsembleDefinition(tasks=(task("cook", handler=works(1)), write())), source=SlowSource())
    assert describe(two) == "2 tasks in 10 s (8.0 s startup of a model); longest: cook, 50% of the critical path"
    server = run(EnsembleDefinition(tasks=(write(),)), source=SlowSource("Starting the MCP server 'x' ..."))
    assert (
        describe(server) == "1 task in 9.0 s (8.0 s startup of an MCP server); longest: model calls, 100% of the rest"
    )


def test_a_run_that_failed_says_where() -> None:
    made = EnsembleDefinition(
        tasks=(task("cook", handler=works(1)), task("burn", handler=fails(2)), task("eat", "burn"))
    )
    sentence = describe(run(made))
    assert sentence == "Failed after 3.0 s in burn (ValueError); 1 of 3 tasks done, 1 failed, 1 skipped"


def test_fault_12_a_run_that_was_stopped_counts_what_was_cancelled_everywhere() -> None:
    made = EnsembleDefinition(tasks=(task("cook", handler=works(1)), task("nap", handler=works(9)), task("eat", "nap")))
    fold = TraceFold.from_events(run(made, stop_after=3.0))
    said = describe_run(fold)
    assert said is not None
    assert said.startswith("Stopped after 3.0 s in nap; 1 of 3 tasks done, 1 cancelled")
    snapshot = TimelineMessages(fold).make_snapshot()
    assert snapshot["run"]["tasks_cancelled"] == 1
    assert snapshot["run"]["sentence"] == said
    chart = make_chart(snapshot)
    assert "1 cancelled" in chart.facts
    assert said in render_chart_text(chart)
    assert f"<div>{said}</div>" in render_chart_html(chart)


def test_before_the_end_nothing_is_said() -> None:
    events = run(EnsembleDefinition(tasks=(task("nap", handler=works(4)),)))
    fold = TraceFold.from_events(events[:3])
    assert describe_run(fold) is None
    assert TimelineMessages(fold).make_snapshot()["run"]["sentence"] is None


def test_w22_a_run_has_its_own_name_else_its_variable_else_its_cell() -> None:
    named, plain = (
        TraceFold.from_events(run(EnsembleDefinition(name=name, tasks=(task("one"),)))) for name in ("own", None)
    )

    def name(fold: TraceFold, **known: Any) -> Any:
        return TimelineMessages(fold, **known).make_snapshot()["run"]["name"]

    assert name(named, variable="report", cell="In[3]") == "own"
    assert name(plain, variable="report", cell="In[3]") == "report"
    assert name(plain, variable="_ensemble", cell="In[3]") == "In[3]"
    assert name(plain) is None


def test_large_counts_are_grouped_in_all_their_parts() -> None:
    made = EnsembleDefinition(
        tasks=(*(task(f"work_{number}", handler=works(1)) for number in range(1000)), task("burn", handler=fails(2))),
        error_strategy=ErrorStrategy.PARTIAL,
    )
    assert describe(run(made)).startswith("1,000 of 1,001 tasks in ")
