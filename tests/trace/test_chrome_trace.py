"""A run in the trace event format keeps that format's own rules."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import Ensemble, Task, ValidationError
from ensemble_notebook.trace.execution_trace import ExecutionTrace

DEMOS = Path(__file__).parents[2] / "demos"


@pytest.fixture(params=["report", "manager", "map"])
def demo(request: pytest.FixtureRequest) -> ExecutionTrace:
    return ExecutionTrace.load(DEMOS / f"{request.param}.trace.json.gz")


def read_events(trace: ExecutionTrace, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What a viewer reads, by the letter of its kind."""
    content = json.loads(trace.export(folder / "run.chrome.json").read_text())
    events = defaultdict(list)
    for event in content["traceEvents"]:
        assert {"ph", "pid", "name"} <= event.keys()
        assert event["ph"] in "MXsfC"
        assert event["ph"] == "M" or (type(event["ts"]) is int and event["ts"] >= 0)
        events[event["ph"]].append(event)
    return events


def test_slices_of_a_thread_lie_in_one_another_and_each_thread_has_one_name_t99(demo, tmp_path):
    events = read_events(demo, tmp_path)
    spans = demo.frames.spans
    assert {each["args"]["span_id"] for each in events["X"]} == set(spans.index[spans.start_ms.notna()])
    threads = defaultdict(list)
    for each in events["X"]:
        assert each["dur"] > 0
        threads[each["tid"]].append((each["ts"], -each["dur"], each["ts"] + each["dur"]))
    for slices in threads.values():
        around: list[int] = []
        for start, _, end in sorted(slices):
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)
    named = [each["tid"] for each in events["M"] if each["name"] == "thread_name"]
    assert sorted(named) == sorted(threads)


def test_each_task_has_a_thread_of_its_own_named_after_it_t99(demo, tmp_path):
    events = read_events(demo, tmp_path)
    names = {each["tid"]: each["args"]["name"] for each in events["M"] if each["name"] == "thread_name"}
    tasks = [each for each in events["X"] if each["cat"] == "task"]
    assert all(names[each["tid"]] == each["name"] for each in tasks)
    assert len({each["tid"] for each in tasks}) == len(tasks)


def test_each_arrow_leaves_one_slice_and_reaches_another_and_never_goes_back_t99(demo, tmp_path):
    events = read_events(demo, tmp_path)
    ran = set(demo.frames.spans.index[demo.frames.spans.start_ms.notna()])
    links = demo.frames.links
    assert len(events["s"]) == len(events["f"]) == (links.src.isin(ran) & links.dst.isin(ran)).sum()
    ends = {each["id"]: each for each in events["f"]}
    for start in events["s"]:
        assert start["ts"] <= ends[start["id"]]["ts"]
        for end in (start, ends[start["id"]]):
            of_thread = [each for each in events["X"] if each["tid"] == end["tid"]]
            assert any(each["ts"] <= end["ts"] < each["ts"] + each["dur"] for each in of_thread)


def test_counters_grow_to_the_sums_of_the_run_t99(demo, tmp_path):
    counted = defaultdict(list)
    for each in read_events(demo, tmp_path)["C"]:
        counted[each["name"]].append(each)
    for steps in counted.values():
        assert all(one["ts"] <= other["ts"] for one, other in pairwise(steps))
        assert all(one["args"][key] <= other["args"][key] for one, other in pairwise(steps) for key in one["args"])
    run = demo.frames.runs.iloc[0]
    assert counted["tokens"][-1]["args"] == {"input_tokens": run.input_tokens, "output_tokens": run.output_tokens}
    assert counted["cost (USD)"][-1]["args"]["cost"] == pytest.approx(run.cost)


def test_a_run_that_was_cut_off_has_slices_to_its_last_moment_and_none_of_what_never_ran_t99(tmp_path):
    whole = ExecutionTrace.load(DEMOS / "report.trace.json.gz")
    cut = ExecutionTrace.from_events(whole.events[: len(whole.events) // 2])
    slices = read_events(cut, tmp_path)["X"]
    assert len(slices) < len(whole.frames.spans)
    assert max(each["ts"] + each["dur"] for each in slices) == max(
        each["ts"] + each["dur"] for each in slices if each["cat"] == "run"
    )


def test_no_text_of_the_run_is_in_it_t99(tmp_path):
    says = Task.of("Say XYZZY", name="say", handler=lambda task: "PLUGH")
    content = Ensemble(tasks=[says], capture_mode="full").run().export(tmp_path / "run.chrome.json").read_text()
    assert "say" in content
    assert "XYZZY" not in content
    assert "PLUGH" not in content


@pytest.mark.parametrize("name", ["run.foo.json", "run.otel.json", "run.FOO.json.gz", "run.trace.foo.json"])
def test_an_ending_that_is_promised_nowhere_is_refused_t13(name, tmp_path):
    with pytest.raises(ValidationError, match=r"can't be exported.*\.chrome\.json"):
        ExecutionTrace.load(DEMOS / "report.trace.json.gz").export(tmp_path / name)


@pytest.mark.parametrize("name", ["run.json", "run-1.2.json", "run.trace.json", "run.v2.trace.json", "run.json.gz"])
def test_a_name_that_promises_nothing_else_holds_our_trace_t13(name, tmp_path):
    trace = ExecutionTrace.load(DEMOS / "report.trace.json.gz")
    assert ExecutionTrace.load(trace.export(tmp_path / name)).run_id == trace.run_id
