"""Two runs in one timeline (W17)."""

import json

from hypothesis import given, settings

from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.trace.analysis.joined_runs import JoinedRuns
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams

MINUS = "\N{MINUS SIGN}"


def write(seconds=1, *, has_check=False) -> ExecutionTrace:
    tasks = {"plan": (), "draft": (), **({"check": ["draft"]} if has_check else {})}
    phases = {"first": ["plan"], "last": [name for name in tasks if name != "plan"]}
    build = EventBuilder(tasks, phases=phases, after={"last": ["first"]}, name="report")
    for phase, names in phases.items():
        with build.phase(phase):
            for name in names:
                with build.task(name, prompt=f"Do {name}."), build.turn():
                    build.llm(name, seconds=seconds, input_tokens=10 * seconds, output_tokens=1)
    rates = CostConfiguration(input_rate="0.01", output_rate="0.01", currency="USD")
    return ExecutionTrace.from_events(build.finish(), rates)


def join(first: ExecutionTrace, second: ExecutionTrace) -> TimelineMessages:
    return TimelineMessages(JoinedRuns(first.diff(second)))


def test_each_task_of_the_first_run_stands_above_the_same_task_of_the_second():
    rows = join(write(), write(2, has_check=True)).make_snapshot()["rows"]
    shown = [(row["kind"], row["name"]) for row in rows if row["kind"] in ("phase", "task")]
    assert shown == [
        *(("phase", "first"), ("task", "A · plan"), ("task", "B · plan")),
        *(("phase", "last"), ("task", "A · draft"), ("task", "B · draft"), ("task", "B · check")),
    ]


def test_a_model_that_is_started_says_for_which_run():
    build = EventBuilder({"plan": ()})
    with build.task("plan"), build.startup("Starting the local model"):
        build.wait(2)
    started = ExecutionTrace.from_events(build.finish())
    rows = join(started, write()).make_snapshot()["rows"]
    assert [row["name"] for row in rows if row["kind"] == "wait"] == ["A · Starting the local model"]


def test_rows_of_the_second_run_say_how_much_more_they_took():
    rows = join(write(), write(2, has_check=True)).make_snapshot()["rows"]
    told = {row["name"]: row.get("delta") for row in rows if row["kind"] == "task"}
    assert told == {
        **dict.fromkeys(("A · plan", "A · draft")),
        **dict.fromkeys(("B · plan", "B · draft"), "+1.0 s · +10 tokens · +$0.100"),
        "B · check": "added",
    }
    back = join(write(2, has_check=True), write()).make_snapshot()["rows"]
    assert {row["name"]: row.get("delta") for row in back if row["kind"] == "task"}["A · check"] == "removed"


def test_a_phase_is_one_row_around_both_and_the_run_as_long_as_the_longer_one():
    snapshot = join(write(3), write(1)).make_snapshot()
    phases = {row["name"]: (row["start_ms"], row["end_ms"]) for row in snapshot["rows"] if row["kind"] == "phase"}
    assert phases == {"first": (0, 3_000), "last": (1_000, 6_000)}
    assert snapshot["run"]["elapsed_ms"] == 6_000
    assert snapshot["run"]["name"] == "report: A → B"
    assert snapshot["run"]["sentence"] == f"2 tasks: 2 same · time {MINUS}4.0 s · tokens {MINUS}40 · cost {MINUS}$0.400"


def test_a_row_of_either_run_has_its_conversation():
    messages = join(write(), write())
    calls = [row["span_id"] for row in messages.make_snapshot()["rows"] if row["kind"] == "task"]
    texts = [[each["text"] for each in messages.make_details(span_id)["messages"][1:]] for span_id in calls]
    assert texts == [["Do plan.", "plan"], ["Do plan.", "plan"], ["Do draft.", "draft"], ["Do draft.", "draft"]]


def test_the_runs_stay_as_they_were():
    first, second = write(), write(2)
    before = json.dumps(first.to_dict()), json.dumps(second.to_dict())
    join(first, second)
    assert (json.dumps(first.to_dict()), json.dumps(second.to_dict())) == before


@given(streams(), streams())
@settings(max_examples=15)
def test_any_two_runs_can_be_shown_together(first, second):
    live = first[: len(first) // 2]
    for one in (first, live):
        traces = ExecutionTrace.from_events(one), ExecutionTrace.from_events(second)
        messages = join(*traces)
        snapshot = messages.make_snapshot()
        ids = [row["span_id"] for row in snapshot["rows"]]
        known = {snapshot["run"]["run_id"], *ids}
        assert len(set(ids)) == len(ids)
        assert all(row.get("parent_id") in known for row in snapshot["rows"])
        assert messages.is_over
        assert not [row for row in snapshot["rows"] if row.get("start_ms") is not None and row.get("end_ms") is None]
        assert messages.pack_snapshot()[0]["count"] == len(ids)
        json.dumps([messages.make_saved_view(), *map(messages.make_details, ids)])
