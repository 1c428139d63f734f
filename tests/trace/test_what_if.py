"""How long a run would have taken otherwise (T23)."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook import Agent, Ensemble, Reply, Review, ReviewDecision, ScriptedChatModel, Task, TaskInput
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams

TOLERANCE_MS = 1e-3
KINDS = ["task", "llm", "attempt", "tool", "guardrail", "memory", "score", "review", "wait"]
FACTORS = st.sampled_from([1, 1.5, 2, 10, float("inf")])


@st.composite
def queued_runs(draw: Callable) -> ExecutionTrace:
    """A run of tasks that share few places, as the engine gives them out: to what has been ready for longest."""
    names = [f"t{number}" for number in range(draw(st.integers(1, 9)))]
    reads = {
        name: draw(st.sets(st.sampled_from(names[:at]), max_size=2)) if at else () for at, name in enumerate(names)
    }
    lengths = {name: draw(st.integers(0, 9)) for name in names}
    places = draw(st.integers(1, 3))
    build = EventBuilder({name: sorted(before) for name, before in reads.items()}, max_concurrency=places)
    free, ends = [0.0] * places, {}
    while len(ends) < len(names):
        ready = {
            name: max((ends[each] for each in reads[name]), default=0.0)
            for name in names
            if name not in ends and all(each in ends for each in reads[name])
        }
        name = min(ready, key=lambda each: (ready[each], names.index(each)))
        at = free.index(min(free))
        build.now_s = max(ready[name], free[at])
        with build.task(name, queued_s=build.now_s - ready[name]), build.turn():
            build.llm("x", seconds=lengths[name])
        free[at] = ends[name] = build.now_s
    build.now_s = max(ends.values())
    return ExecutionTrace.from_events(build.finish())


def chain(**options: object) -> EventBuilder:
    """Two tasks side by side, 4 s and 2 s, and one of 3 s that reads both."""
    build = EventBuilder({"long": (), "short": (), "last": ["long", "short"]}, **options)
    for name, seconds in build.beside([("long", 4), ("short", 2)]):
        with build.task(name), build.turn():
            build.llm("x", seconds=seconds)
    with build.task("last"), build.turn():
        build.llm("x", seconds=3)
    return build


@given(streams())
@settings(max_examples=15)
def test_with_nothing_changed_the_prediction_is_what_was(events):
    trace = ExecutionTrace.from_events(events)
    prediction = trace.what_if()
    assert prediction.wall_ms == pytest.approx(trace._fold.run.end_ms, abs=TOLERANCE_MS)
    for row in prediction.frame.itertuples():
        assert row.predicted_start_ms == pytest.approx(row.start_ms, abs=TOLERANCE_MS)
        assert row.predicted_duration_ms == pytest.approx(row.duration_ms, abs=TOLERANCE_MS)


@given(queued_runs())
@settings(max_examples=15)
def test_with_nothing_changed_a_run_that_queued_is_what_was(trace):
    assert trace.what_if().wall_ms == pytest.approx(trace._fold.run.end_ms, abs=TOLERANCE_MS)
    assert trace.what_if(max_concurrency=trace._fold.max_concurrency).wall_ms == pytest.approx(trace._fold.run.end_ms)


@given(streams(), st.sampled_from(KINDS), FACTORS, FACTORS, st.integers(1, 5), st.booleans())
@settings(max_examples=15)
def test_no_speed_up_and_no_place_makes_any_run_longer(events, kind, factor, more, places, drops):
    trace = ExecutionTrace.from_events(events)
    slow = trace.what_if(speedup={kind: factor}, max_concurrency=places)
    fast = trace.what_if(speedup={kind: factor * more}, max_concurrency=places + 1, drop_waits=drops)
    assert fast.wall_ms <= slow.wall_ms + TOLERANCE_MS
    assert trace.what_if(speedup={kind: factor}, drop_waits=drops).wall_ms <= trace._fold.run.end_ms + TOLERANCE_MS


@given(queued_runs(), st.data())
@settings(max_examples=60)
def test_no_speed_up_and_no_place_makes_a_run_longer_that_queued(trace, data):
    names = [task.name for task in trace.tasks]
    speedup = data.draw(st.dictionaries(st.sampled_from(names), FACTORS, max_size=3))
    more = {name: factor * data.draw(FACTORS) for name, factor in speedup.items()}
    places = data.draw(st.integers(1, 5))
    slow = trace.what_if(speedup=speedup, max_concurrency=places)
    fast = trace.what_if(speedup=more, max_concurrency=places + data.draw(st.integers(0, 2)))
    assert fast.wall_ms <= slow.wall_ms + TOLERANCE_MS
    assert trace.what_if(speedup=speedup).wall_ms <= trace._fold.run.end_ms + TOLERANCE_MS


@given(queued_runs(), st.integers(1, 5))
@settings(max_examples=15)
def test_no_schedule_is_shorter_than_its_longest_chain_or_its_work_divided_among_the_places(trace, places):
    prediction = trace.what_if(max_concurrency=places)
    frame = prediction.frame
    assert prediction.wall_ms >= frame.predicted_duration_ms.sum() / places - TOLERANCE_MS
    assert prediction.wall_ms >= trace.what_if(max_concurrency=100).wall_ms - TOLERANCE_MS
    ends = dict(zip(frame.task, frame.predicted_start_ms + frame.predicted_duration_ms, strict=True))
    starts = dict(zip(frame.task, frame.predicted_start_ms, strict=True))
    for planned in trace.plan.tasks:
        assert all(ends[name] <= starts[planned.name] + TOLERANCE_MS for name in planned.depends_on)


@given(queued_runs())
@settings(max_examples=15)
def test_the_critical_path_of_an_unchanged_run_takes_as_long_as_the_run(trace):
    prediction = trace.what_if()
    lengths = dict(zip(prediction.frame.task, prediction.frame.duration_ms, strict=True))
    assert sum(lengths[name] for name in prediction.critical_path) == pytest.approx(
        prediction.wall_ms, abs=TOLERANCE_MS
    )


def test_a_quicker_task_moves_what_waits_for_it_and_the_critical_path():
    trace = ExecutionTrace.from_events(chain().finish())
    assert trace.what_if().critical_path == ("long", "last")
    prediction = trace.what_if(speedup={"long": 4})
    assert (prediction.wall_ms, prediction.critical_path) == (5_000, ("short", "last"))
    assert prediction.saved_ms == 2_000
    assert repr(prediction) == "5.0 s instead of 7.0 s, 29% less; critical path: short → last"
    assert trace.what_if(speedup={"long": 0.5}).wall_ms == 11_000


def test_a_factor_for_a_kind_divides_the_own_time_of_its_spans():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", seconds=4, asks=["search"])
        build.tool("search", seconds=6)
    trace = ExecutionTrace.from_events(build.finish())
    assert trace.what_if(speedup={"llm": 2}).wall_ms == 8_000
    assert trace.what_if(speedup={"tool": 2}).wall_ms == 7_000
    assert trace.what_if(speedup={"tool": 2, "llm": 2}).wall_ms == 5_000
    assert trace.what_if(speedup={"a": 10}).wall_ms == 1_000
    assert trace.what_if(speedup={"task": 10}).wall_ms == 1_000


def test_a_tool_that_hands_work_on_is_not_quicker_by_what_it_waits_for():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", seconds=1, asks=["delegate"])
        with build.delegate("Helper", tool="delegate"), build.turn():
            build.llm("y", seconds=8)
    trace = ExecutionTrace.from_events(build.finish())
    assert trace.what_if(speedup={"tool": 100}).wall_ms == pytest.approx(9_000)
    assert trace.what_if(speedup={"llm": 2}).wall_ms == pytest.approx(4_500)


def test_waits_can_be_dropped_by_their_cause():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        with build.turn():
            build.llm("x", seconds=1, retries=[("429", 10.0)], waits=[("rate_limit", 100.0)])
        build.review(ReviewDecision.approve(), seconds=1000)
    trace = ExecutionTrace.from_events(build.finish())
    wall_ms = trace.what_if().wall_ms
    assert trace.what_if(drop_waits="rate_limit").wall_ms == pytest.approx(wall_ms - 100_000)
    assert trace.what_if(drop_waits=["backoff"]).wall_ms == pytest.approx(wall_ms - 10_000)
    assert trace.what_if(drop_waits=("review", "budget")).wall_ms == pytest.approx(wall_ms - 1_000_000)
    assert trace.what_if(drop_waits=True).wall_ms == pytest.approx(wall_ms - 1_110_000)


def test_places_that_were_missing_are_found_and_fewer_take_longer():
    build = EventBuilder({"a": (), "b": (), "c": ()}, max_concurrency=1)
    for number, name in enumerate("abc"):
        with build.task(name, queued_s=10.0 * number), build.turn():
            build.llm("x", seconds=10)
    trace = ExecutionTrace.from_events(build.finish())
    walls = [trace.what_if(max_concurrency=places).wall_ms for places in (1, 2, 3, 99)]
    assert walls == [30_000, 20_000, 10_000, 10_000]
    side_by_side = ExecutionTrace.from_events(chain().finish())
    assert side_by_side.what_if(max_concurrency=1).wall_ms == 9_000


def test_a_place_that_is_free_sooner_is_used_by_what_is_ready():
    """Work of 10 s at both places, each followed by work of its own: one of the first is ten times as fast."""
    build = EventBuilder({"a": (), "b": (), "c": ["a"], "d": ["b"]}, max_concurrency=2)
    for name in build.beside("ab"):
        with build.task(name), build.turn():
            build.llm("x", seconds=10)
    for name in build.beside("cd"):
        with build.task(name), build.turn():
            build.llm("x", seconds=10)
    frame = ExecutionTrace.from_events(build.finish()).what_if(speedup={"b": 10}).frame
    assert dict(zip(frame.task, frame.predicted_start_ms, strict=True)) == {"a": 0, "b": 0, "d": 1_000, "c": 10_000}


def test_more_places_never_take_longer_where_the_engine_would_fall_into_the_anomaly_of_graham():
    """Graham's example: nine tasks take 12 s at three places, and 15 s at four."""
    lengths = {"t1": 3, "t2": 2, "t3": 2, "t4": 2, "t9": 9, "t5": 4, "t6": 4, "t7": 4, "t8": 4}
    reads = {"t9": ["t1"], **{key: ["t4"] for key in ("t5", "t6", "t7", "t8")}}
    build = EventBuilder({name: reads.get(name, ()) for name in lengths}, max_concurrency=3)
    starts = {"t1": 0, "t2": 0, "t3": 0, "t4": 2, "t9": 3, "t5": 4, "t6": 4, "t7": 8, "t8": 8}
    ready = {"t9": 3, "t5": 4, "t6": 4, "t7": 4, "t8": 4}
    for name, start_s in starts.items():
        build.now_s = float(start_s)
        with build.task(name, queued_s=float(start_s - ready.get(name, 0))), build.turn():
            build.llm("x", seconds=lengths[name])
    build.now_s = 12.0
    trace = ExecutionTrace.from_events(build.finish())
    assert [trace.what_if(max_concurrency=places).wall_ms for places in (3, 4, 5)] == [12_000, 12_000, 12_000]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"speedup": {"lnog": 2}}, "speedup names 'lnog': .* Did you mean 'long'?"),
        ({"speedup": {"phase": 2}}, "no kind that takes time"),
        ({"speedup": {"llm": 0}}, "must be a number above 0"),
        ({"speedup": {"llm": float("nan")}}, "must be a number above 0"),
        ({"drop_waits": "revew"}, "Did you mean 'review'?"),
        ({"max_concurrency": 0}, "whole number from 1"),
        ({"max_concurrency": True}, "whole number from 1"),
    ],
)
def test_what_there_is_not_is_refused_with_what_is_nearest(change, message):
    with pytest.raises(ValidationError, match=message):
        ExecutionTrace.from_events(chain().finish()).what_if(**change)


def test_a_run_that_goes_on_is_refused():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        trace = ExecutionTrace.from_events(build.events)
    with pytest.raises(ValidationError, match="a run that has ended"):
        trace.what_if()


def test_a_run_of_the_engine_with_few_places_is_predicted_as_it_was():
    llm = ScriptedChatModel(replies=[Reply("x", delay=0.002 * (number % 4)) for number in range(12)])
    worker = Agent(role="Worker", goal="Work", llm=llm)
    tasks = [Task.of(f"Do {number}", name=f"t{number}", agent=worker) for number in range(9)]
    tasks += [
        Task.of(f"Sum {number}", name=f"s{number}", agent=worker, context=tasks[number : number + 3])
        for number in (0, 3, 6)
    ]
    output = Ensemble(tasks=tasks, workflow="parallel", max_concurrency=2).run()
    wall_ms = output.total_duration.total_seconds() * 1000
    assert output.what_if().wall_ms == pytest.approx(wall_ms, abs=TOLERANCE_MS)
    assert output.what_if(max_concurrency=4).wall_ms < wall_ms
    assert output.what_if(max_concurrency=1).wall_ms > wall_ms


def nap(given: TaskInput) -> str:
    """Takes the time that its item says, in hundredths of a second."""
    time.sleep(0.01 * given.item)
    return str(given.item)


def run_items(items: list[int], **options: object) -> ExecutionTrace:
    each = Task.of("Nap {item}", name="each", for_each=items, handler=nap, **options)
    last = Task.of("Sum up", name="last", context=["each"], handler=lambda _: "done")
    return Ensemble(tasks=[each, last], workflow="parallel", max_concurrency=2).run().trace


def test_items_take_the_places_that_there_are():
    trace = run_items([4] * 6)
    wall_ms = trace._fold.run.end_ms
    walls = {places: trace.what_if(max_concurrency=places).wall_ms for places in (1, 2, 3, 6, 99)}
    assert walls[2] == trace.what_if().wall_ms == pytest.approx(wall_ms, abs=TOLERANCE_MS)
    frame = trace.what_if(max_concurrency=6).frame.set_index("task")
    items = frame.loc[[f"each[{number}]" for number in range(6)]]
    assert walls[1] >= items.duration_ms.sum()
    assert walls[1] > walls[2] > walls[6] == walls[99] >= items.duration_ms.max()
    assert walls[2] >= walls[3] >= walls[6]
    assert items.predicted_start_ms.max() < (items.predicted_start_ms + items.predicted_duration_ms).min()
    ends = frame.predicted_start_ms + frame.predicted_duration_ms
    assert frame.predicted_start_ms["last"] >= ends["each"] >= ends[items.index].max()


def test_an_item_that_is_quicker_makes_room_and_a_quicker_task_has_quicker_items():
    trace = run_items([8, 2, 2, 2])
    quicker = trace.what_if(speedup={"each[0]": 100})
    assert quicker.wall_ms < trace._fold.run.end_ms
    assert quicker.critical_path == trace.what_if().critical_path == ("each", "last")
    for name in ("each", "task"):
        frame = trace.what_if(speedup={name: 2}).frame.set_index("task")
        halves = frame.duration_ms / 2
        assert frame.predicted_duration_ms["each[0]"] == pytest.approx(halves["each[0]"])
        assert halves["each"] <= frame.predicted_duration_ms["each"] + TOLERANCE_MS < 2 * halves["each"]


def test_items_that_a_review_sends_back_come_after_it_and_its_wait_can_be_dropped():
    decisions = [ReviewDecision.retry("again"), ReviewDecision.approve()]

    def decide(_: object) -> ReviewDecision:
        time.sleep(0.1)
        return decisions.pop(0)

    each = Task.of("Nap {item}", name="each", for_each=[1, 2, 3], handler=nap, review=Review(timing="after"))
    trace = Ensemble(tasks=[each], workflow="parallel", max_concurrency=2, review_handler=decide).run().trace
    wall_ms = trace._fold.run.end_ms
    assert trace.what_if().wall_ms == pytest.approx(wall_ms, abs=TOLERANCE_MS)
    assert trace.what_if(drop_waits="review").wall_ms < wall_ms - 190
    assert trace.what_if(speedup={"review": 2}).wall_ms <= wall_ms - 95
    frame = trace.what_if(max_concurrency=3).frame
    items = frame[frame.task != "each"].sort_values("predicted_start_ms")
    ends = items.predicted_start_ms + items.predicted_duration_ms
    assert sorted(items.task[:3]) == sorted(items.task[3:])
    assert items.predicted_start_ms.iloc[3:].min() >= ends.iloc[:3].max() + 100
