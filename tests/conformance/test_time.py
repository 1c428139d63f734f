"""How long things took, and what a log tells of them (E49, E50)."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

from ensemble_notebook import (
    Agent,
    Budget,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    Fail,
    MapResult,
    Phase,
    Reply,
    Review,
    ReviewDecision,
    ReviewRequest,
    Task,
    TaskCompleted,
    TaskFailed,
    TaskInput,
    ToolUse,
    load_traces,
    scorers,
)
from ensemble_notebook.engine.function_caller import EAGER_THREADS, GROWTH_INTERVAL_S
from tests.conformance.scene import agent, done, lost, of, run, run_cell, scripted
from tests.support.store import wait_for_store

WORK_S = 0.02
REVIEW_S = 0.5


def cook(given: TaskInput) -> str:
    """Take a while."""
    time.sleep(WORK_S)
    return "Steak."


def send_back_once() -> Any:
    """A reviewer that takes its time, and is content with the second attempt."""
    answers = [ReviewDecision.retry("hotter"), ReviewDecision.approve()]

    def decide(request: ReviewRequest) -> ReviewDecision:
        time.sleep(REVIEW_S)
        return answers.pop(0)

    return decide


def run_in_python() -> EnsembleOutput:
    """A phase that is sent back, declared in Python."""
    return Ensemble(phases=[Phase.of("cooking", done("steak", handler=cook), review=send_back_once())]).run()


def run_in_a_cell() -> EnsembleOutput:
    """The same in a cell."""
    text = "phases:\n  cooking:\n    tasks: [{name: steak, description: Cook, handler: cook}]\n    review: decide"
    return run_cell(text, cook=cook, decide=send_back_once())


@pytest.mark.parametrize("make", [run_in_python, run_in_a_cell])
def test_e50_a_task_that_was_sent_back_took_as_long_as_it_worked_whoever_tells(make: Any) -> None:
    output = make()
    took = output["steak"].duration
    assert took.total_seconds() >= 2 * WORK_S
    assert of(output, TaskCompleted)[-1].duration == took
    assert output["steak"].trace.duration == took
    assert output.frames.tasks.duration_ms.tolist() == pytest.approx([took.total_seconds() * 1000])
    assert output.frames.tasks.attempt_count.tolist() == [2]
    spans = output.frames.spans
    # The first review, and nothing else that a machine may take long for, lies between the two attempts.
    assert spans[spans.kind == "task"].duration_ms.item() >= (took.total_seconds() + REVIEW_S) * 1000
    (task,) = output.trace.to_dict()["taskTraces"]
    assert task["duration"] == f"PT{took.total_seconds():g}S"
    events = [each["duration"] for each in output.trace.to_dict()["events"] if each["type"] == "TaskCompleted"]
    assert events[-1] == task["duration"]


def test_e50_a_failed_task_has_a_duration_and_one_that_never_ran_has_none() -> None:
    def burn(given: TaskInput) -> str:
        time.sleep(WORK_S)
        raise ValueError("burnt")

    with pytest.raises(Exception, match="burnt") as caught:
        run(done("lost", handler=burn), done("next", context=["lost"]))
    output = caught.value.output  # type: ignore[attr-defined]
    (failed,) = of(output, TaskFailed)
    assert failed.duration is not None
    tasks = output.frames.tasks
    assert tasks.duration_ms.tolist()[0] == pytest.approx(failed.duration.total_seconds() * 1000)
    assert tasks.duration_ms.isna().tolist() == [False, True]
    assert tasks.attempt_count.tolist() == [1, 0]


def test_e50_a_saved_trace_says_the_same(tmp_path: Any) -> None:
    output = run_in_python()
    output.trace.save(tmp_path / "run.trace.json")
    loaded = ExecutionTrace.load(tmp_path / "run.trace.json")
    assert loaded.frames.tasks.duration_ms.tolist() == output.frames.tasks.duration_ms.tolist()


PARTS = ["active_ms", "human_wait_ms", "idle_ms"]


def assert_told_apart(result: MapResult) -> None:
    """The parts of the time of each row are its duration, in both tables."""
    assert result.frames is not None
    for table in (result.frame, result.frames.rows):
        assert table[PARTS].sum(axis=1).tolist() == pytest.approx(table.duration_ms.tolist())


def test_e50_a_row_that_waits_for_a_rate_limit_is_idle_meanwhile(store_path: Path) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}")], llm="scripted", rate_limit="20/s", name="limited")
    result = ensemble.map([{"word": str(number)} for number in range(5)], score={"long": lambda run: True})
    assert_told_apart(result)
    assert result.frame.idle_ms.max() >= 150
    assert result.frame.active_ms.max() < result.frame.idle_ms.max()
    assert result.summary().active_ms.item() == pytest.approx(result.frame.active_ms.mean())
    assert isinstance(result.run_id, str)
    wait_for_store()
    loaded = load_traces().load_map(result.run_id)
    assert_frame_equal(loaded.frame[["duration_ms", *PARTS]], result.frame[["duration_ms", *PARTS]])
    more = ensemble.map([{"word": str(number)} for number in range(5)], resume=loaded)
    assert_frame_equal(more.frame[["duration_ms", *PARTS]], result.frame[["duration_ms", *PARTS]])


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_e50_a_row_is_active_while_its_handler_is_at_work_wherever_it_runs(*, is_elsewhere: bool) -> None:
    ensemble = Ensemble(tasks=[done("steak", handler=cook)])
    with ThreadPoolExecutor(1) as pool:
        result = ensemble.map([{"row": number} for number in range(3)], executor=pool if is_elsewhere else None)
    assert_told_apart(result)
    assert result.frame.active_ms.min() >= WORK_S * 1000
    assert result.frames is not None
    runs = result.frames.runs  # rows that wait for their turn are not at work
    assert runs.work_ms.item() == pytest.approx(result.frame.active_ms.sum())


def test_e50_a_handler_that_waits_for_a_thread_is_not_at_work() -> None:
    """More of them than threads begin at once, and all stay until the last one has come."""
    barrier = threading.Barrier(EAGER_THREADS + 1)

    def meet(given: TaskInput) -> str:
        barrier.wait(timeout=60)
        return given.name

    output = run(*(done(f"guest {number}", handler=meet) for number in range(barrier.parties)), workflow="parallel")
    waits = {each.task: sum(last - first for first, last in each.handler_waits) for each in of(output, TaskCompleted)}
    last = max(waits, key=lambda name: waits[name])
    assert waits[last] >= GROWTH_INTERVAL_S / 2
    took = sum(each.duration.total_seconds() for each in output.task_outputs)
    work_ms = output.frames.runs.work_ms.item()
    assert work_ms == pytest.approx((took - sum(waits.values())) * 1000, rel=0.1)


def test_e50_a_handler_is_not_at_work_until_its_next_attempt(tmp_path: Path) -> None:
    attempts = iter([ValueError("burnt"), "Steak."])

    def fry(given: TaskInput) -> str:
        if isinstance(made := next(attempts), Exception):
            raise made
        return made

    output = run(done("steak", handler=fry, max_retries=1))
    loaded = ExecutionTrace.load(output.trace.save(tmp_path / "run.trace.json"))
    for frames in (output.frames, loaded.frames):
        assert frames.runs.active_ms.item() < frames.runs.idle_ms.item()
    scored = output.score(scorers.seconds_at_most(output.frames.runs.idle_ms.item() / 1000))
    assert scored.frames.scores.passed.tolist() == [True]


KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def search(query: str) -> str:
    """Look it up."""
    if query == "nothing":
        raise LookupError("empty shelf")
    return f"{query}: {KEY} " + "blah " * 100


def read_log(caplog: pytest.LogCaptureFixture, make: Any) -> list[tuple[str, str]]:
    """What a run leaves in the log at INFO and above: levels and messages."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "ensemble_notebook"):
        make()
    return [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "ensemble_notebook.run"]


def find_line(lines: list[tuple[str, str]], beginning: str) -> tuple[str, str]:
    """The one line that begins like this."""
    (line,) = (each for each in lines if each[1].startswith(beginning))
    return line


def test_e49_a_log_tells_the_run_from_start_to_end(caplog: pytest.LogCaptureFixture) -> None:
    cook = agent(Fail(401), role="Cook")
    phases = [
        Phase.of("first", Task.of("Cook it", name="steak", agent=cook, fallback=agent("Steak.", role="Net"))),
        Phase.of("second", lost("burn"), after=["first"]),
        Phase.of("third", done("plate"), after=["second"]),
    ]
    made = Ensemble(name="dinner", phases=phases, error_strategy="partial")
    lines = read_log(caplog, made.run)
    assert lines[0] == ("INFO", "Run dinner started: 3 tasks, sequential")
    assert ("INFO", "Phase first started") in lines
    assert ("INFO", "Phase first completed") in lines
    assert ("WARNING", "Phase second failed") in lines
    assert find_line(lines, "Phase third skipped: ")[0] == "INFO"
    level, fallback = find_line(lines, "Task steak: fallback Net takes over for Cook: ")
    assert level == "WARNING"
    assert "401" in fallback
    level, end = lines[-1]
    assert (level, end.partition(" after ")[0]) == ("INFO", "Run dinner completed with warnings")
    assert ": 1 of 3 tasks completed, 1 failed, 1 skipped, 2 model requests with " in end
    by_task = [each for each in caplog.records if getattr(each, "task", None) == "steak"]
    assert {getattr(each, "task_description", None) for each in by_task} == {"Cook it"}
    assert [getattr(each, "agent_role", None) for each in by_task][-1] == "Net"


def test_e49_debug_tells_how_many_outputs_a_task_reads(caplog: pytest.LogCaptureFixture) -> None:
    first, second = done("first"), done("second")
    both = Task.of("Join", name="both", handler=lambda task: "Joined.", context=[first, second])
    with caplog.at_level(logging.DEBUG, "ensemble_notebook"):
        Ensemble(tasks=[first, second, both]).run()
    told = [each.getMessage() for each in caplog.records if " reads " in each.getMessage()]
    assert told == ["Task first reads 0 outputs", "Task second reads 0 outputs", "Task both reads 2 outputs"]


def test_e49_a_tool_call_is_one_line_with_input_and_output_cut_and_masked(caplog: pytest.LogCaptureFixture) -> None:
    replies = [Reply(calls=[ToolUse("search", {"query": KEY}), ToolUse("search", {"query": "nothing"})]), "Found."]
    cell = "llm: model\nagents: {cook: {goal: Cook, tools: [search]}}\ntasks: [{description: Look, agent: cook}]"

    def from_python() -> None:
        run(Task.of("Look", agent=Agent(role="Cook", goal="Cook", tools=[search], llm=scripted(*replies))))

    def from_a_cell() -> None:
        run_cell(cell, search=search, model=scripted(*replies))

    for make in (from_python, from_a_cell):
        lines = read_log(caplog, make)
        told = [each for each in lines if each[1].startswith("Tool in ")]
        found, missed = sorted(told, key=lambda each: "nothing" in each[1])  # they end in any order
        assert found[0] == "INFO"
        assert 'search({"query": "***"}) -> ***: *** blah' in found[1]
        assert found[1].endswith("...")
        assert len(found[1].partition(" -> ")[2]) == 203
        assert missed[0] == "WARNING"
        assert 'search({"query": "nothing"}) -> Tool error: LookupError: empty shelf (at ' in missed[1]


def test_e49_reviews_retries_and_the_budget_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    decisions = [ReviewDecision.retry("more salt"), ReviewDecision.approve()]
    task = Task.of("Cook", name="soup", agent=agent(Fail(429, retry_after=0), "Soup.", "Salty soup."), review=Review())
    budget = Budget(max_llm_calls=3, warn_at=0.5)
    lines = read_log(caplog, lambda: run(task, review_handler=lambda request: decisions.pop(0), budget=budget))
    assert find_line(lines, "Model request 1 of soup failed (429), again in ")[0] == "WARNING"
    assert lines.count(("INFO", "Review asked: output of soup")) == 2
    assert [each[1].partition(": output of soup: ")[2] for each in lines if each[1].startswith("Review answered")] == [
        "retry: more salt",
        "approve",
    ]
    assert ("INFO", "Task soup sent back by its review, attempt 2: more salt") in lines
    assert [each for each in lines if "budget" in each[1]]


def test_e49_a_run_that_its_budget_stopped_ends_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    tasks = [Task.of("Cook", name="cook", agent=agent("Soup.")), done("b", context=["cook"])]
    level, end = read_log(caplog, lambda: run(*tasks, budget=Budget(max_tokens=1)))[-1]
    assert level == "WARNING"
    assert "stopped by its budget" in end
