"""A task has one duration, told alike by output, event, frames, file and timeline (E50)."""

import asyncio
import json
from datetime import timedelta
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import ReviewDecision
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import TaskCompleted, TaskFailed, TaskSkipped
from ensemble_notebook.engine.task_timer import TaskTimer
from ensemble_notebook.models.langchain.scripted_model import Fail, Reply, ScriptedChatModel, ToolUse
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.codec.records import read_value
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.engine.test_startup import SlowSource
from tests.support.drive import drive, fails, parallel, task, works
from tests.support.stream import streams

SECONDS = st.sampled_from((0.1, 0.25, 1.0, 3.5))


def agree_on_durations(events):
    """The durations of the tasks of the plan in seconds, by name, told the same by everybody."""
    trace = ExecutionTrace.from_events(events)
    assert find_violations(trace) == []
    ended = {each.task: each for each in events if isinstance(each, TaskCompleted | TaskFailed | TaskSkipped)}
    rows = {each["span_id"]: each for each in TimelineMessages(trace._fold).make_snapshot()["rows"]}
    frame = trace.frames.tasks
    files = {each["metadata"]["spanId"]: each for each in json.loads(json.dumps(trace.to_dict()))["taskTraces"]}
    found = {}
    for each in trace.tasks:
        span_id, duration = each.span.span_id, each.duration
        assert frame.index.tolist().count(span_id) == 1
        if duration is None:
            assert frame.duration_ms.isna()[span_id]
            assert "duration_ms" not in rows[span_id]
            assert files.get(span_id, {}).get("duration") is None
            continue
        in_ms = duration / timedelta(milliseconds=1)
        assert abs(frame.duration_ms[span_id] - in_ms) < 1e-3
        assert abs(rows[span_id]["duration_ms"] - in_ms) < 1e-2
        assert abs(read_value(files[span_id]["duration"], timedelta) - duration) <= timedelta(microseconds=1)
        said = ended[each.name].duration
        if said is not None:
            assert abs(said - duration) <= timedelta(microseconds=1)
        found[each.name] = round(duration.total_seconds(), 6)
    return found


@given(streams())
def test_random_stream_has_one_duration_for_each_task_e50(events):
    agree_on_durations(events)


@st.composite
def runs(draw):
    """An ensemble with phases that are sent back, retries, waits, delegations and models that are slow to be ready."""

    def make_task(name):
        match draw(st.sampled_from(("works", "fails", "asks", "delegates"))):
            case "works":
                return task(name, handler=works(draw(SECONDS)))
            case "fails":
                return task(name, handler=fails(draw(SECONDS)))
            case "asks":
                replies = [Fail(429, retry_after=draw(SECONDS)), Reply("Done.")]
                llm = ScriptedChatModel(replies=replies * 4, default=Reply("ok", delay=draw(SECONDS)))
                team.append(Agent(role=name, goal="G", llm=llm))
                return Task.of(name, name=name, agent=team[-1])
            case _:
                mate = Agent(
                    role=f"Mate of {name}", goal="G", llm=ScriptedChatModel(default=Reply("ok", delay=draw(SECONDS)))
                )
                asked = ToolUse("delegate", {"agent_role": mate.role, "task_description": "Help"})
                llm = ScriptedChatModel(replies=[Reply(calls=[asked] * draw(st.integers(1, 2)))], default="ok")
                agent = Agent(role=name, goal="G", llm=llm, allow_delegation=True)
                team.extend((agent, mate))
                return Task.of(name, name=name, agent=agent)

    def make_review():
        often = count(draw(st.integers(0, 2)), -1)

        async def answer(request):
            await asyncio.sleep(seconds)
            return ReviewDecision.retry("again") if next(often) > 0 else ReviewDecision.approve()

        seconds = draw(SECONDS)
        return PhaseReview(answer, max_retries=3)

    team: list[Agent] = []
    numbers = count()
    phases = tuple(
        Phase(
            name=f"p{place}",
            tasks=tuple(make_task(f"t{next(numbers)}") for _ in range(draw(st.integers(1, 3)))),
            review=make_review() if draw(st.booleans()) else None,
        )
        for place in range(draw(st.integers(1, 2)))
    )
    return EnsembleDefinition(
        phases=phases,
        agents=tuple(team),
        max_concurrency=draw(st.sampled_from([None, 1, 2])),
        error_strategy=draw(st.sampled_from(["fail_fast", "continue_on_error", "partial"])),
    )


@given(runs(), st.sampled_from([None, None, 2.0]))
def test_random_run_has_one_duration_for_each_task_e50(made, stop_after):
    result, events = drive(made, stop_after=stop_after, source=SlowSource())
    durations = agree_on_durations(events)
    for output in result.outputs.values():
        assert abs(output.duration.total_seconds() - durations[output.name]) < 1e-5


def sent_back(*tasks, wait_s=60, **fields):
    """A phase that is sent back once, after a minute."""
    answers = iter((ReviewDecision.retry("again"), ReviewDecision.approve()))

    async def answer(request):
        await asyncio.sleep(wait_s)
        return next(answers)

    return EnsembleDefinition(phases=(Phase(name="p", tasks=tasks, review=PhaseReview(answer)),), **fields)


def test_attempts_of_a_phase_that_was_sent_back_add_up_and_the_time_between_does_not_e50():
    result, events = drive(sent_back(task("a", handler=works(2))))
    assert agree_on_durations(events) == {"a": 4.0}
    trace = ExecutionTrace.from_events(events)
    (row,) = trace.frames.tasks.itertuples()
    (span,) = trace.frames.spans[trace.frames.spans.kind == "task"].itertuples()
    assert (row.duration_ms, row.attempt_count, span.duration_ms) == (4000, 2, 64_000)
    completed = [each for each in events if isinstance(each, TaskCompleted)]
    assert [each.duration.total_seconds() for each in completed] == [2, 4]
    assert [each.duration for each in result.outputs.values()] == [timedelta(seconds=4)]


def test_failed_and_stopped_tasks_have_a_duration_too_e50():
    _, events = drive(parallel(task("lost", handler=fails(2)), task("cut", handler=works(9))), stop_after=5)
    assert agree_on_durations(events) == {"lost": 2.0, "cut": 5.0}


def test_queue_is_not_its_own_e50():
    _, events = drive(parallel(task("a", handler=works(2)), task("b", handler=works(3)), max_concurrency=1))
    assert agree_on_durations(events) == {"a": 2.0, "b": 3.0}


def test_startup_is_not_its_own_e50():
    llm = ScriptedChatModel(default=Reply("ok", delay=1.0))
    _, events = drive(parallel(Task.of("Write", name="write", llm=llm)), source=SlowSource())
    assert agree_on_durations(events) == {"write": 1.0}


def test_startup_of_a_worker_is_not_the_delegating_tasks_own_unless_it_does_something_else_meanwhile_e50():
    async def look() -> str:
        """Look."""
        await asyncio.sleep(2)
        return "seen"

    mate = Agent(role="Mate", goal="G", llm=ScriptedChatModel(default=Reply("ok", delay=1.0)))
    asked = ToolUse("delegate", {"agent_role": "Mate", "task_description": "Help"})
    for calls, expected in (([asked], 1.0), ([asked, ToolUse("look", {})], 3.0)):
        llm = ScriptedChatModel(replies=[Reply(calls=calls)], default="ok")
        lead = Agent(role="Lead", goal="G", llm=llm, allow_delegation=True, tools=[look])
        made = parallel(Task.of("Lead", name="lead", agent=lead), agents=(lead, mate))
        _, events = drive(made, source=SlowSource())
        assert agree_on_durations(events) == {"lead": expected}


def test_timer_counts_every_moment_once_e50():
    now = [0.0]
    timer = TaskTimer(lambda: now[0])
    workers = [TaskTimer(lambda: now[0], timer) for _ in range(2)]
    timer.start()
    with timer.tool_call(), timer.tool_call():
        workers[0].start()
        workers[1].start()
        now[0] = 1.0
        with workers[0].starting_up():
            now[0] = 3.0  # the other one works
            with workers[1].starting_up():
                now[0] = 10.0  # nobody does
            now[0] = 11.0
        assert workers[1].stop() == timedelta(seconds=4)
        now[0] = 12.0
        assert workers[0].stop() == timedelta(seconds=2)
    now[0] = 13.0
    assert timer.stop() == timedelta(seconds=6)


def test_worker_that_is_stopped_while_its_model_starts_no_longer_holds_up_the_task_around_e50():
    now = [0.0]
    timer = TaskTimer(lambda: now[0])
    worker = TaskTimer(lambda: now[0], timer)
    timer.start()
    with timer.tool_call():
        worker.start()
        with worker.starting_up():
            now[0] = 5.0
            assert worker.stop() == timedelta(0)
        now[0] = 6.0
    assert timer.stop() == timedelta(seconds=1)
