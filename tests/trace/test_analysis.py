"""The frames of a run as a whole: runs, agents, links, the critical path, its course, its events (T21)."""

from datetime import timedelta

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.review import ReviewDecision
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams
from tests.trace.test_operation_fold import managed, phase_done_twice


def frames_of(events):
    return ExecutionTrace.from_events(events).frames


@given(streams())
def test_time_is_active_or_waits_for_a_person_or_is_idle(events):
    run = frames_of(events).runs.iloc[0]
    assert run.active_ms + run.human_wait_ms + run.idle_ms == pytest.approx(run.wall_ms)
    assert min(run.active_ms, run.human_wait_ms, run.idle_ms) >= -1e-6
    assert run.work_ms >= run.active_ms - 1e-6


def test_two_at_once_are_a_parallelism_of_two_and_waits_do_not_count():
    build = EventBuilder({"a": (), "b": (), "c": ["a", "b"]}, agents={"c": "Handler"})
    for name in build.beside(["a", "b"]):
        with build.task(name), build.turn():
            build.llm("x", seconds=2, retries=[("429", 4.0)])
    with build.task("c", output="x"):
        build.review(ReviewDecision.approve(), seconds=10)
        build.wait(1)
    run = frames_of(build.finish()).runs.loc["run"]
    assert (run.wall_ms, run.active_ms, run.human_wait_ms, run.idle_ms) == (19_000, 5000, 10_000, 4000)
    assert (run.work_ms, run.parallelism) == (9000, 1.8)


def test_work_that_goes_on_during_a_review_is_active_time():
    build = EventBuilder({"a": (), "b": ()}, agents={"a": "Handler", "b": "Handler"})
    for name in build.beside(["a", "b"]):
        with build.task(name, output="x"):
            if name == "a":
                build.review(ReviewDecision.approve(), seconds=10)
            build.wait(3)
    run = frames_of(build.finish()).runs.loc["run"]
    assert (run.wall_ms, run.active_ms, run.human_wait_ms, run.work_ms) == (13_000, 6000, 7000, 6000)


def test_the_agent_that_spent_the_most_tokens_waiting_for_tools_is_one_line():
    frames = frames_of(managed())
    assert frames.agents.tool_tokens.idxmax() == "Researcher"
    assert frames.agents.loc["Researcher", "tool_tokens"] == 120
    assert frames.agents.tool_wait_ms.to_dict() == {"Manager": 3000.0, "Researcher": 1000.0}


def known_sum(column):
    """The sum of what is known, 0 where there is nothing to know, None where nothing is known (E64)."""
    return None if len(column) and column.isna().all() else column.sum()


@given(streams())
def test_agents_add_up_to_the_run(events):
    trace = ExecutionTrace.from_events(events)
    agents = trace.frames.agents
    assert known_sum(agents.input_tokens[agents.llm_count > 0]) == trace.metrics.input_tokens
    assert known_sum(agents.total_tokens[agents.llm_count > 0]) == trace.metrics.total_tokens
    assert agents.attempt_count.sum() == trace.metrics.llm_attempt_count
    assert agents.delegation_count.sum() == trace.metrics.delegation_count == len(trace.frames.delegations)
    assert float(agents.cost.sum()) == pytest.approx(float(trace.metrics.cost or 0))


@pytest.mark.parametrize("tokens, total", [((70, 30), 100), ((70, None), 70), ((None, 30), 30), ((None, None), None)])
def test_all_tokens_of_an_agent_are_its_input_and_output_as_far_as_known(tokens, total):
    build = EventBuilder({"a": (), "b": ()}, agents={"b": "Handler"})
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=tokens[0], output_tokens=tokens[1])
    with build.task("b"):
        build.wait(1)
    found = frames_of(build.finish()).agents.total_tokens
    assert [None if pd.isna(each) else each for each in found] == [total, 0]


def test_agents_have_percentiles_and_rates():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        for seconds in range(1, 11):
            build.llm("x", seconds=seconds, retries=[("429", 0.0)] if seconds == 10 else ())
    agent = frames_of(build.finish()).agents.loc["Writer"]
    assert (agent.llm_p50_ms, agent.llm_p90_ms, agent.llm_max_ms) == (5000, 9000, 20_000)
    assert (agent.llm_error_rate, agent.retry_rate, agent.task_error_rate) == (0.0, pytest.approx(1 / 11), 0.0)


def test_links_say_what_led_to_what_and_how_much_was_handed_over():
    build = EventBuilder({"a": (), "b": ["a"]})
    with build.task("a"), build.turn():
        build.llm("Twelve chars", output_tokens=4, retries=[("429", 1.0)])
    with build.task("b"):
        with build.turn():
            build.llm(error=ConnectionError("gone"))
        build.fall_back("Substitute")
        with build.turn():
            build.llm("Done.")
    frames = frames_of(build.finish())
    found = {(row.kind, row.src_name, row.dst_name): (row.characters, row.tokens) for row in frames.links.itertuples()}
    assert found["context", "a", "b"] == (12, 4)
    assert ("retry", "attempt 1", "attempt 2") in found
    assert ("fallback", "turn 1", "turn 1") in found
    assert "dependency" not in set(frames.links.kind)


def test_delegations_are_linked_there_and_back():
    links = frames_of(managed()).links.set_index("kind")
    there, back = links.loc["delegation"], links.loc["delegation_return"]
    assert (there.dst_name, there.characters) == ("researcher_1", len("Find out."))
    assert (back.src, back.dst, back.tokens) == (there.dst, there.src, 30)


@given(streams())
def test_both_ends_of_every_link_exist(events):
    frames = frames_of(events)
    assert frames.links.src.isin(frames.spans.index).all()
    assert frames.links.dst.isin(frames.spans.index).all()


@given(streams())
def test_the_critical_path_is_the_run_from_start_to_end(events):
    frames = frames_of(events)
    path, wall_ms = frames.critical_path, frames.runs.wall_ms.iloc[0]
    assert path.duration_ms.sum() == pytest.approx(wall_ms)
    if wall_ms:
        assert path.share.sum() == pytest.approx(1.0)
        ends = (path.start_ms + path.duration_ms).tolist()
        assert path.start_ms.tolist()[1:] == pytest.approx(ends[:-1])
    assert frames.spans.loc[path.span_id, "critical"].all()


def test_the_critical_path_names_what_made_the_run_wait():
    path = frames_of(phase_done_twice()).critical_path
    assert (
        list(zip(path.kind, path.duration_ms, strict=True))
        == [
            ("task", 1000.0),
            ("attempt", 2000.0),
            ("review", 4000.0),
        ]
        * 2
    )
    assert path.groupby("kind").share.sum()["review"] == pytest.approx(8 / 14)


@given(streams(), st.sampled_from([None, 0.3, timedelta(seconds=1), 100.0]))
def test_the_course_adds_up_to_the_run(events, dt):
    trace = ExecutionTrace.from_events(events)
    course, metrics = trace.frames.timeseries(dt), trace.metrics
    # What nobody knows is None in the sums of a run, and takes no place in its course (E64).
    assert course.input_tokens.sum() == pytest.approx(metrics.input_tokens or 0)
    assert course.output_tokens.sum() == pytest.approx(metrics.output_tokens or 0)
    assert course.cumulative_cost.iloc[-1] == pytest.approx(float(metrics.cost or 0))


def test_the_course_is_an_average_over_each_bin():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", seconds=3, input_tokens=30)
    course = frames_of(build.finish()).timeseries(2)
    assert course.llm_requests.tolist() == [1.0, 0.5]
    assert course.input_tokens.tolist() == [20.0, 10.0]


def test_what_hands_on_work_is_not_in_flight_beside_it():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(asks=["delegate_task", "web"], seconds=2)
        with build.delegate("Helper", seconds=1), build.turn():
            build.llm("Helped.", seconds=2)
        build.tool("web", seconds=1)
    course = frames_of(build.finish()).timeseries(1)
    assert course.llm_requests.tolist() == [1, 1, 0, 1, 1, 0]
    assert course.tools.tolist() == [0, 0, 0, 0, 0, 1]
    assert course.tasks.tolist() == [1] * 6


@pytest.mark.parametrize("dt", [0, -1, float("nan"), 1e-9, "1s"])
def test_a_bin_that_is_no_time_is_refused(dt):
    with pytest.raises(ValueError, match="length of a bin"):
        frames_of(managed()).timeseries(dt)


def test_events_are_listed_without_the_pieces_of_streamed_text():
    build = EventBuilder({"a": (), "b": ()})
    with build.task("a"), build.turn():
        build.llm(stream=["one ", "two"])
    build.skip("b", "not needed")
    events = frames_of(build.finish()).events
    assert "LlmToken" not in set(events.type)
    assert events[events.type == "TaskSkipped"].message.tolist() == ["not needed"]
    assert events.index.name == "seq"


def test_a_run_that_never_started_has_empty_frames():
    frames = frames_of(())
    assert frames.runs.empty
    assert frames.critical_path.empty
    assert frames.timeseries().empty
    assert frames.agents.empty
    assert frames.links.empty
