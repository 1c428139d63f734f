"""A model that has to be loaded or started first: a span of the run, on no task's clock (E57)."""

import asyncio

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ExitReason, SpanStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import TaskCompleted, TaskFailed, WaitEnded, WaitStarted
from ensemble_notebook.errors import DeadlineExceededError
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel, ToolUse
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.drive import drive, drive_nested, parallel, task, works


class SlowSource(ModelSource):
    """Takes five seconds for every model that is not ready yet, and says so twice."""

    def __init__(self) -> None:
        super().__init__()
        self._ready = set()

    warnings = ()

    async def prepare(self, llm, notice):
        if id(llm) not in self._ready:
            notice("Loading the model ...")
            await asyncio.sleep(2)
            notice("Half of the model is here.")
            await asyncio.sleep(3)
            self._ready.add(id(llm))
        return await super().prepare(llm, notice)


def model():
    return ScriptedChatModel(default="ok")


def startups(events):
    return [span for span in TraceFold.from_events(events).spans.values() if span.wait_kind == "startup"]


def test_startup_is_a_wait_of_the_run_and_ends_before_the_first_call_e57():
    _, events = drive(parallel(Task.of("Write", name="write", llm=model(), timeout=3)), source=SlowSource())
    (span,) = startups(events)
    assert (span.kind, span.parent_id, span.task, span.status) == (SpanKind.WAIT, "r", None, SpanStatus.OK)
    assert (span.name, span.start_ms, span.end_ms) == ("Loading the model", 0, 5000)
    fold = TraceFold.from_events(events)
    (call,) = (each for each in fold.spans.values() if each.kind is SpanKind.LLM)
    assert call.start_ms == 5000
    assert not span.critical


def test_startup_of_one_model_holds_up_nobody_else_e57():
    _, events = drive(
        parallel(Task.of("Write", name="write", llm=model()), task("count", handler=works(9))), source=SlowSource()
    )
    fold = TraceFold.from_events(events)
    assert fold.run.status is SpanStatus.OK
    during = TraceFold.from_events(
        events[: next(i for i, each in enumerate(events) if isinstance(each, WaitStarted)) + 1]
    )
    assert during.run.status is SpanStatus.RUNNING
    assert fold.run.totals.wait_ms == 0


def test_two_tasks_with_one_model_wait_for_one_startup_and_a_ready_model_has_none_e57():
    llm, source = model(), SlowSource()
    made = parallel(Task.of("Write", llm=llm), Task.of("Edit", llm=llm))
    assert len(startups(drive(made, source=source)[1])) == 1
    assert startups(drive(made, source=source)[1]) == []


def test_startup_that_fails_or_is_stopped_says_so_e57():
    _, events = drive(parallel(Task.of("Write", llm="local")))
    (span,) = startups(events)
    assert (span.status, span.error_type, span.error_message) == (SpanStatus.ERROR, "OSError", "the weights are gone")
    _, events = drive(parallel(Task.of("Write", llm="local")), stop_after=2)
    (span,) = startups(events)
    assert (span.status, span.end_ms) == (SpanStatus.CANCELLED, 2000)


def test_stopped_startup_is_over_with_the_run_e57():
    result, events = drive(parallel(Task.of("Write", llm="local")), stop_after=2)
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert events[-1].offset_s == 2
    assert sum(isinstance(each, WaitEnded) for each in events) <= 1


def test_startup_that_goes_on_when_the_run_is_stopped_ends_with_it_e57():
    _, events = drive(parallel(Task.of("Write", name="write", llm=model())), stop_after=1, source=SlowSource())
    (ended,) = (each for each in events if isinstance(each, WaitEnded))
    assert (ended.status, ended.waited_s, ended.offset_s) == (SpanStatus.CANCELLED, 1, 1)


def nesting(*inner, **fields):
    """A task whose handler begins these runs, side by side."""

    async def handle(given):
        await asyncio.gather(*(drive_nested(each, f"inner-{number}") for number, each in enumerate(inner)))
        return "ok"

    return task("outer", handler=handle, **fields)


def writing():
    return parallel(Task.of("Write", name="write", llm=model()))


def end_of(events, name):
    return next(each for each in events if isinstance(each, TaskCompleted | TaskFailed) and each.task == name)


def test_startup_in_a_nested_run_is_a_row_of_the_outer_run_and_on_no_clock_of_its_tasks_e57_e52():
    _, events = drive(parallel(nesting(writing(), timeout=3), task("count")), source=SlowSource())
    (span,) = startups(events)
    assert (span.parent_id, span.task, span.nested_in, span.end_ms) == ("r", None, None, 5000)
    end = end_of(events, "outer")
    assert (type(end), end.offset_s, end.duration.total_seconds()) == (TaskCompleted, 5, 0)


def test_startup_two_runs_deep_is_a_row_of_the_outermost_run_e57_e52():
    _, events = drive(parallel(nesting(parallel(nesting_deeper(writing())))), source=SlowSource())
    assert [(each.parent_id, each.end_ms) for each in startups(events)] == [("r", 5000)]
    assert end_of(events, "outer").duration.total_seconds() == 0


def nesting_deeper(inner):
    async def handle(given):
        await drive_nested(inner, "deeper")
        return "ok"

    return task("middle", handler=handle)


def test_startup_counts_while_something_else_is_done_for_the_task_e57_e52():
    """Either in the same nested run, or in another one beside it."""
    mixed = parallel(Task.of("Write", name="write", llm=model()), task("count", handler=works(2)))
    for inner in ([mixed], [writing(), parallel(task("count", handler=works(2)))]):
        _, events = drive(parallel(nesting(*inner, timeout=3)), source=SlowSource())
        end = end_of(events, "outer")
        assert (end.offset_s, end.duration.total_seconds()) == (5, 2)


def test_the_deadline_goes_on_after_a_startup_in_a_nested_run_e57_e38():
    _, events = drive(
        parallel(nesting(writing(), parallel(task("count", handler=works(9))), timeout=6)), source=SlowSource()
    )
    assert end_of(events, "outer").offset_s == 6  # all of it is counted, since the other run works

    late = parallel(Task.of("Write", name="write", llm=model()), task("count", "write", handler=works(9)))
    _, events = drive(parallel(nesting(late, timeout=3)), source=SlowSource())
    end = end_of(events, "outer")
    assert (type(end.error), end.offset_s, end.duration.total_seconds()) == (DeadlineExceededError, 8, 3)


def test_startup_for_a_worker_is_not_on_the_clock_of_who_delegated_e57_e38():
    ask = ToolUse("delegate", {"agent_role": "Mate", "task_description": "Peel"})
    lead = Agent(role="Lead", goal="Lead", llm=ScriptedChatModel(replies=[ask, "Done."]), allow_delegation=True)
    made = EnsembleDefinition(
        tasks=(Task.of("Cook", name="outer", agent=lead, timeout=3),),
        agents=(lead, Agent(role="Mate", goal="Help", llm=model())),
    )
    _, events = drive(made, source=SlowSource())
    end = end_of(events, "outer")
    assert (type(end), end.offset_s, end.duration.total_seconds()) == (TaskCompleted, 10, 0)


def test_startup_of_a_nested_run_that_nobody_waits_for_ends_with_it_e57_e52():
    async def begin(given):
        given_up = asyncio.ensure_future(drive_nested(writing(), "inner"))
        await asyncio.sleep(1)
        left.append(given_up)
        return "left it"

    left = []
    _, events = drive(parallel(task("outer", handler=begin), task("count", handler=works(9))), source=SlowSource())
    (span,) = startups(events)
    assert (span.status, span.end_ms) == (SpanStatus.CANCELLED, 1000)


def test_a_startup_that_several_nested_runs_wait_for_is_told_once_e57_e52():
    """As the rows of a map do. Each has a model object of its own, and the source makes the same ready."""
    _, events = drive(parallel(nesting(writing(), writing(), writing(), timeout=3)), source=SlowSource())
    (span,) = startups(events)
    assert (span.parent_id, span.status, span.end_ms) == ("r", SpanStatus.OK, 5000)
    (ended,) = (each for each in events if isinstance(each, WaitEnded))
    assert (ended.span_id, ended.waited_s) == (span.span_id, 5)
    assert end_of(events, "outer").duration.total_seconds() == 0


def test_a_startup_goes_on_for_those_who_still_wait_for_it_e57_e52():
    async def begin(given):
        given_up = asyncio.ensure_future(drive_nested(writing(), given.name))
        await asyncio.sleep(1)
        left.append(given_up)
        return "left it"

    async def begin_late(given):
        await asyncio.sleep(0.5)
        await drive_nested(writing(), given.name)
        return "stayed"

    left = []
    both = parallel(task("early", handler=begin), task("late", handler=begin_late))
    _, events = drive(both, source=SlowSource())
    (span,) = startups(events)
    assert (span.status, span.start_ms, span.end_ms) == (SpanStatus.OK, 0, 5500)


def test_waiting_for_a_model_is_no_part_of_making_prompts():
    _, events = drive(parallel(Task.of("Write", name="write", llm=model())), source=SlowSource())
    assert TraceFold.from_events(events).metrics.prompt_build_time.total_seconds() == 0


def test_a_task_that_keeps_the_loop_busy_is_no_part_of_making_the_prompts_of_others():
    async def keep_busy(given):
        asyncio.get_running_loop()._virtual.now += 5  # as if it had computed for so long
        return "ok"

    llm = model()
    tasks = [task("busy", handler=keep_busy), Task.of("Write", name="write", llm=llm), Task.of("Edit", llm=llm)]
    _, events = drive(parallel(*tasks), source=ModelSource())
    assert events[-1].offset_s == 5
    assert TraceFold.from_events(events).metrics.prompt_build_time.total_seconds() == 0
