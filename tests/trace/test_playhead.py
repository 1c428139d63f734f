"""A run as it was at a time (W35): Python and TypeScript are held to one table, and both to what the run once told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given

from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.tables.timeline_columns import KNOWN_AT_START, ROWS, RUN, SERIES
from ensemble_notebook.trace.timeline.playhead import MOST_POINTS, NOTHING, make_series, pack_series, row_at, run_at
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.recorded_messages import drive_runs
from tests.support.stream import streams

CASES = json.loads((Path(__file__).parent.parent / "playhead_cases.json").read_text())
POINTS = [{**NOTHING, **point} for point in CASES["series"]["points"]]

_SUMS = ("tasks_done", "tasks_failed", "tasks_skipped", "tasks_cancelled", "llm_call_count", "tool_call_count")
_PARTLY_KNOWN = {"error_count": 0, "retry_count": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0}


@pytest.mark.parametrize(
    "row, ms, expected",
    [
        pytest.param(case["row"], *state, id=f"{case['name']} at {state[0]}")
        for case in CASES["rows"]
        for state in case["states"]
    ],
)
def test_a_row_at_a_time_is_as_in_the_table_w35(row: Any, ms: float, expected: Any) -> None:
    assert row_at(row, ms) == expected


def test_the_table_of_rows_has_columns_alone_w35() -> None:
    names = {each.name for each in ROWS.all_columns}
    assert all(case["row"].keys() <= names for case in CASES["rows"])
    assert names.issuperset(KNOWN_AT_START)


@pytest.mark.parametrize("ms, changed", CASES["runs"])
def test_a_run_at_a_time_is_as_in_the_table_w35(ms: float, changed: Any) -> None:
    assert run_at(CASES["run"], POINTS, ms) == {**CASES["run"], **changed}


def test_what_is_not_known_of_a_run_was_not_known_before_w35() -> None:
    was = run_at({**CASES["run"], **CASES["unpriced"]}, POINTS, 25)
    assert {name: was[name] for name in CASES["unpriced"]} == CASES["unpriced"]


def test_a_series_is_written_as_in_the_table_w35() -> None:
    assert pack_series(POINTS) == CASES["series"]["packed"]
    assert [each.name for each in SERIES.all_columns] == list(CASES["series"]["points"][0])


@pytest.mark.parametrize("name", ["report", "flat", "nested"])
def test_a_run_looked_back_at_is_as_it_was_told_w35(name: str) -> None:
    check_against_what_was_told(drive_runs()[name])


@given(streams())
def test_any_run_looked_back_at_is_as_it_was_told_w35(events: tuple[Event, ...]) -> None:
    # What had completed, and was then skipped in the next round of its phase, does not say when.
    spans = TraceFold.from_events(events).spans.values()
    assume(all(span.status != "skipped" or span.start_ms is None for span in spans))
    check_against_what_was_told(events)


def check_against_what_was_told(events: Sequence[Event]) -> None:
    """After each event but the last ones, what views were told by then is what is said of that time in the end."""
    fold = TraceFold.from_events(events)
    final = TimelineMessages(fold).make_snapshot()
    points = make_series(fold)
    by_now = TraceFold()
    messages = TimelineMessages(by_now)
    for event, following in pairwise(events):
        by_now.add(event)
        ms = event.offset_s * 1000
        # Of one moment all is told together; offsets of events are seconds, and what is an instant apart is one moment.
        if following.offset_s * 1000 - ms < 1e-3 or by_now.status != "running":
            continue
        ms = round(ms, 3)
        told = messages.make_snapshot()
        live = {row["span_id"]: row for row in told["rows"]}
        for row in final["rows"]:
            was, then = row_at(row, ms), live.get(row["span_id"])
            if then is None:
                assert was is None or was["status"] == "pending"
                continue
            assert was is not None
            assert (was.get("start_ms"), was.get("end_ms")) == (then.get("start_ms"), then.get("end_ms"))
            assert was.get("rounds") == then.get("rounds") or was["status"] == "ok"
            # Between two attempts a call waits; nobody says so later.
            assert was["status"] == then["status"] or (row["kind"] == "llm" and then["status"] == "waiting")
        past = run_at(final["run"], points, ms)
        assert past.keys() == {each.name for each in RUN.all_columns}
        for name in _SUMS:
            assert past[name] == told["run"][name], name
        for name, unknown in _PARTLY_KNOWN.items():
            if past[name] is not None:
                assert float(past[name]) == pytest.approx(float(told["run"][name] or unknown)), name


def test_a_series_has_at_most_so_many_steps_and_ends_as_the_run_did_w35() -> None:
    fold = TraceFold.from_events(drive_runs()["report"])
    points = make_series(fold)
    assert [point["at_ms"] for point in points] == sorted({point["at_ms"] for point in points})
    run = TimelineMessages(fold).make_snapshot()["run"]
    last = points[-1]
    assert (last["done"], last["failed"], last["running"]) == (run["tasks_done"], run["tasks_failed"], 0)
    assert (last["input_tokens"], last["output_tokens"]) == (run["input_tokens"], run["output_tokens"])
    many = [*fold.spans.values()]
    for number in range(2_000):
        span = fold.tree.spans[f"more.{number}"] = type(many[0])(
            span_id=f"more.{number}", run_id="r", parent_id=None, kind=many[0].kind, name="x", position=0, seq=0
        )
        span.is_planned, span.start_ms, span.end_ms = True, float(number), float(number) + 0.5
    thinned = make_series(fold)
    assert len(thinned) == MOST_POINTS
    assert thinned[0]["at_ms"] == points[0]["at_ms"]
    assert thinned[-1]["done"] == points[-1]["done"]
