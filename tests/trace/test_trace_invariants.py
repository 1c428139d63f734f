"""What every trace holds, and that what is broken is noticed (T25)."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain import events as ev
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams
from tests.trace.test_operation_fold import managed, phase_done_twice


@given(streams())
def test_every_run_holds_the_invariants(events):
    assert find_violations(ExecutionTrace.from_events(events)) == []


@given(streams(), st.data())
def test_every_live_prefix_holds_them_as_far_as_it_goes(events, data):
    prefix = events[: data.draw(st.integers(0, len(events)))]
    assert find_violations(ExecutionTrace.from_events(prefix)) == []


@given(streams())
def test_every_run_that_was_written_and_loaded_holds_them(events):
    with TemporaryDirectory() as folder:
        loaded = ExecutionTrace.load(ExecutionTrace.from_events(events).save(Path(folder) / "a.trace.json"))
    assert find_violations(loaded, is_loaded=True) == []


@given(streams())
def test_a_fold_that_is_read_while_it_goes_on_ends_up_like_one_that_is_not(events):
    live = TraceFold()
    messages = TimelineMessages(live)
    for event in events:
        live.add(event)
        messages.make_delta(max(0, live.count - 2))
        messages.make_details(event.span_id)
    assert live.spans == TraceFold.from_events(events).spans
    assert live.metrics == TraceFold.from_events(events).metrics


@given(streams(), st.data())
def test_a_lost_event_is_noticed(events, data):
    place = data.draw(st.integers(0, len(events) - 2))
    assert find_violations(ExecutionTrace.from_events(events[:place] + events[place + 1 :]))


@given(streams(), st.data())
def test_a_lost_end_of_an_attempt_breaks_the_sums_even_when_the_numbers_hide_it(events, data):
    ends = [event.seq for event in events if isinstance(event, ev.LlmAttemptEnded) and event.usage.input_tokens]
    if not ends:
        return
    place = data.draw(st.sampled_from(ends))
    rest = events[:place] + tuple(replace(event, seq=event.seq - 1) for event in events[place + 1 :])
    assert any("tokens" in found for found in find_violations(ExecutionTrace.from_events(rest)))


def test_a_lost_row_breaks_the_sums():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=7, retries=[("429", 1.0)])
    trace = ExecutionTrace.from_events(build.finish())
    leaves = [span for span in trace.spans if span.usage_leaf]
    assert len(leaves) == 2
    for leaf in leaves:
        found = find_violations(trace, [span for span in trace.spans if span is not leaf])
        assert any("its leaves" in each for each in found)


def test_a_child_that_outlives_its_parent_is_noticed():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x")
    trace = ExecutionTrace.from_events(build.finish())
    attempt = next(span for span in trace.spans if span.usage_leaf)
    attempt.end_ms += 10
    assert any("not inside its parent" in each for each in find_violations(trace))


def test_an_error_without_a_type_is_noticed():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a"):
        build.fail(ValueError("no"))
    trace = ExecutionTrace.from_events(build.finish())
    trace.task("a").span.error_type = None
    assert any("with an error of type None" in each for each in find_violations(trace))


def test_an_answer_under_the_id_of_another_request_is_noticed():
    events = list(managed())
    place = next(each.seq for each in events if isinstance(each, ev.DelegationCompleted))
    answer = replace(events[place].response, task_id="another")
    events[place] = replace(events[place], response=answer)
    assert any("answered under the id another" in each for each in find_violations(ExecutionTrace.from_events(events)))


def test_a_task_that_starts_again_though_nobody_sent_its_phase_back_is_noticed():
    events = [event for event in phase_done_twice() if not isinstance(event, ev.PhaseRetried)]
    found = find_violations(ExecutionTrace.from_events([replace(each, seq=seq) for seq, each in enumerate(events)]))
    assert any("starts 2 times" in each for each in found)


def test_work_outside_the_delegation_it_belongs_to_is_noticed():
    trace = ExecutionTrace.from_events(managed())
    trace.task("researcher_1").span.delegation_id = None
    assert any("not of the delegation around it" in each for each in find_violations(trace))


def test_a_critical_path_that_is_longer_than_the_run_is_noticed():
    trace = ExecutionTrace.from_events(managed())
    trace._fold.chain.append(trace._fold.chain[0])
    found = find_violations(trace)
    assert any("longer than the run" in each for each in found)
    assert any("overlap" in each for each in found)
