"""How long things took (E50)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    Phase,
    ReviewDecision,
    ReviewRequest,
    TaskCompleted,
    TaskFailed,
    TaskInput,
)
from tests.conformance.scene import done, of, run, run_cell

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
    assert 2 * WORK_S <= took.total_seconds() < REVIEW_S
    assert of(output, TaskCompleted)[-1].duration == took
    assert output["steak"].trace.duration == took
    assert output.frames.tasks.duration_ms.tolist() == pytest.approx([took.total_seconds() * 1000])
    assert output.frames.tasks.attempt_count.tolist() == [2]
    spans = output.frames.spans
    assert spans[spans.kind == "task"].duration_ms.item() > took.total_seconds() * 1000 + REVIEW_S * 500
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
