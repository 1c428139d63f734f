"""What made a run as long as it was. Handlers only, where times matter: a task takes just as long as it is told to.

Holds what T20 says of `critical` and `slack_ms`.
"""

from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.event_builder import EventBuilder


def run(tasks, seconds):
    """Every task starts when the last of what it reads has ended."""
    build = EventBuilder(tasks, agents=dict.fromkeys(tasks, "Handler"))
    ends_s = {}
    for name, reads in tasks.items():
        build.now_s = max((ends_s[each] for each in reads), default=0.0)
        with build.task(name):
            build.wait(seconds[name])
        ends_s[name] = build.now_s
    build.now_s = max(ends_s.values())
    return ExecutionTrace.from_events(build.finish())


def slack(trace):
    return {task.name: task.span.slack_ms for task in trace.tasks}


def critical(trace):
    return [task.name for task in trace.tasks if task.span.critical]


def test_slack_of_a_diamond():
    tasks = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    trace = run(tasks, {"a": 1, "b": 2, "c": 5, "d": 1})
    assert slack(trace) == {"a": 0.0, "b": 3000.0, "c": 0.0, "d": 0.0}
    assert critical(trace) == ["a", "c", "d"]


def test_slack_is_shared_along_a_side_chain():
    tasks = {"a": [], "b": [], "c": ["b"], "d": ["c"]}
    trace = run(tasks, {"a": 10, "b": 1, "c": 2, "d": 3})
    assert slack(trace) == {"a": 0.0, "b": 4000.0, "c": 4000.0, "d": 4000.0}
    assert critical(trace) == ["a"]


def test_of_two_equal_chains_one_is_critical_and_both_have_no_slack():
    trace = run({"a": [], "b": []}, {"a": 3, "b": 3})
    assert slack(trace) == {"a": 0.0, "b": 0.0}
    assert len(critical(trace)) == 1


@st.composite
def graphs(draw):
    names = [f"t{number}" for number in range(draw(st.integers(1, 7)))]
    tasks = {name: [each for each in names[:place] if draw(st.booleans())] for place, name in enumerate(names)}
    seconds = {name: draw(st.integers(0, 8)) for name in names}
    return tasks, seconds, draw(st.sampled_from(names))


@given(graphs())
def test_a_task_may_take_its_slack_longer_and_not_a_moment_more(graph):
    tasks, seconds, name = graph
    trace = run(tasks, seconds)
    spare_s = trace.task(name).span.slack_ms / 1000
    assert run(tasks, {**seconds, name: seconds[name] + spare_s}).duration == trace.duration
    assert run(tasks, {**seconds, name: seconds[name] + spare_s + 1}).duration > trace.duration


@given(graphs())
def test_the_critical_tasks_fill_the_run(graph):
    tasks, seconds, _ = graph
    trace = run(tasks, seconds)
    assert sum(seconds[name] for name in critical(trace)) == trace.duration.total_seconds()


@given(graphs())
def test_the_critical_path_of_handlers_is_the_run_and_no_longer(graph):
    """T25: its segments follow each other from start to end, and name the handlers that made the run wait."""
    tasks, seconds, _ = graph
    trace = run(tasks, seconds)
    path = Frames(trace._fold).critical_path
    wall_ms = trace.duration.total_seconds() * 1000
    assert path.duration_ms.sum() <= wall_ms + 1e-6
    assert path.duration_ms.sum() >= wall_ms - 1e-6
    ends = path.start_ms + path.duration_ms
    assert (path.start_ms[1:].to_numpy() >= ends[:-1].to_numpy() - 1e-6).all()
    named = [*path.task.dropna()]
    assert named == [name for name in critical(trace) if seconds[name]]


def test_who_freed_the_place_of_a_queued_task_is_critical():
    build = EventBuilder({"a": [], "b": []}, agents={"a": "Handler", "b": "Handler"}, max_concurrency=1)
    with build.task("a"):
        build.wait(2)
    with build.task("b", queued_s=2.0):
        build.wait(1)
    trace = ExecutionTrace.from_events(build.finish())
    assert critical(trace) == ["a", "b"]
    assert slack(trace) == {"a": 0.0, "b": 0.0}


def test_a_task_that_ended_before_the_wait_began_freed_nothing():
    build = EventBuilder({"a": [], "b": [], "c": ["b"]}, agents=dict.fromkeys("abc", "Handler"))
    for name, seconds in build.beside([("a", 1), ("b", 3)]):
        with build.task(name):
            build.wait(seconds)
    with build.task("c", queued_s=0.0):
        build.wait(1)
    trace = ExecutionTrace.from_events(build.finish())
    assert critical(trace) == ["b", "c"]
    assert slack(trace)["a"] == 3000.0


def test_phases_pass_slack_on():
    build = EventBuilder(
        {"a": [], "b": [], "c": [], "d": []},
        phases={"p": ["a", "b"], "q": ["c"], "r": ["d"]},
        after={"r": ["p", "q"]},
        agents=dict.fromkeys("abcd", "Handler"),
    )
    for phase in build.beside(["p", "q"]):
        with build.phase(phase):
            for name, seconds in build.beside([("a", 1), ("b", 2)] if phase == "p" else [("c", 6)]):
                with build.task(name):
                    build.wait(seconds)
    with build.phase("r"), build.task("d"):
        build.wait(1)
    trace = ExecutionTrace.from_events(build.finish())
    assert slack(trace) == {"a": 5000.0, "b": 4000.0, "c": 0.0, "d": 0.0}
    phases = {span.name: (span.slack_ms, span.critical) for span in trace.spans if span.kind is SpanKind.PHASE}
    assert phases == {"p": (4000.0, False), "q": (0.0, True), "r": (0.0, True)}


def test_the_chain_goes_on_through_what_was_skipped():
    """In a chain that goes on after errors, c starts because b was skipped, and b was because a failed."""
    build = EventBuilder({"a": [], "b": ["a"], "c": ["b"]}, agents=dict.fromkeys("abc", "Handler"))
    with build.task("a"):
        build.wait(2)
        build.fail(ValueError("no"))
    build.skip("b", "needs 'a', which failed")
    with build.task("c"):
        build.wait(1)
    trace = ExecutionTrace.from_events(build.finish())
    assert critical(trace) == ["a", "c"]
    assert slack(trace) == {"a": 0.0, "b": None, "c": 0.0}


def test_the_chain_goes_on_through_a_phase_whose_tasks_never_ran():
    build = EventBuilder(
        {"a": [], "b": []}, phases={"p": ["a"], "q": ["b"]}, after={"q": ["p"]}, agents=dict.fromkeys("ab", "Handler")
    )
    with build.phase("p"), build.task("a"):
        build.wait(2)
    with build.phase("q"):
        build.wait(1)
        build.skip("b", "not started: the run was stopped")
    trace = ExecutionTrace.from_events(build.interrupt())
    assert critical(trace) == ["a"]
    assert slack(trace) == {"a": 0.0, "b": None}


def test_inside_a_turn_the_longest_tool_is_critical_and_the_others_have_slack():
    build = EventBuilder({"a": []})
    with build.task("a"):
        with build.turn(1):
            build.llm(asks=["x", "y"])
            for name, seconds in build.beside([("x", 1), ("y", 3)]):
                build.tool(name, seconds=seconds)
        with build.turn(2):
            build.llm("done", retries=[("429", 1.0)])
    trace = ExecutionTrace.from_events(build.finish())
    found = {span.tool: (span.critical, span.slack_ms) for span in trace.spans if span.kind is SpanKind.TOOL}
    assert found == {"x": (False, 2000.0), "y": (True, 0.0)}
    rest = [span for span in trace.spans if span.kind is not SpanKind.TOOL]
    assert {(span.critical, span.slack_ms) for span in rest} == {(True, 0.0)}


def test_nothing_is_critical_while_the_run_goes_on():
    build = EventBuilder({"a": []})
    with build.task("a"), build.turn():
        build.llm("x")
    trace = ExecutionTrace.from_events(build.events)
    assert {(span.critical, span.slack_ms) for span in trace.spans} == {(None, None)}
