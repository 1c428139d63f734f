"""What views call the parts of a map: rows, variants or runs, and never tasks of an agent called Handler (E72)."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ensemble_notebook import Budget, CaptureMode, Ensemble, MapResult, ScriptedChatModel, Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROWS = [{"topic": "tea"}, {"topic": "bad"}]


def answer(given: TaskInput) -> str:
    if given.inputs["topic"] == "bad":
        raise ValueError("broken")
    return "ok"


def make() -> Ensemble:
    return Ensemble(tasks=[Task.of("On {topic}", name="say", handler=answer)])


def picture(result: MapResult) -> str:
    assert result.output is not None
    return str(make_output_bundle(result.output)["text/plain"])


def test_map_speaks_of_its_rows_and_of_what_each_is_about() -> None:
    result = make().map(ROWS)
    assert result.describe().startswith("2 rows: 1 completed, 1 failed")
    assert "completed_with_warnings: 1/2 rows in" in repr(result.output)
    assert "2 rows" in repr(result.trace)
    said = picture(result)
    assert "· 1/2 rows ·" in said
    assert "= 1 of 2 rows in" in said
    assert said.splitlines()[1].split()[:2] == ["row", "about"]
    lines = [line.split()[1:5] for line in said.splitlines() if line.split()[1:2] == ["row"]]
    assert lines == [["row", "0", "topic:", "tea"], ["row", "1", "topic:", "bad"], ["row", "or", "handler"]]


def test_variants_and_rows_under_variants_are_called_so() -> None:
    variants = make().variants({"short": {"task.say.description": "Shortly, {topic}"}, "long": {}})
    once, many = variants.run(topic="tea"), variants.map(ROWS * 2)
    assert once.describe().startswith("2 variants: 2 completed")
    assert "= 2 variants in" in picture(once)
    assert many.describe().startswith("4 rows under 2 variants: 4 completed, 4 failed")
    assert "= 4 of 8 runs in" in picture(many)


def test_other_runs_speak_of_tasks_as_before() -> None:
    said = str(make_output_bundle(make().run(topic="tea"))["text/plain"])
    assert "= 1 task in" in said
    assert "Handler" in said


def test_a_view_and_a_file_know_it_too(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.INFO, "ensemble_notebook.run"):
        result = make().map(ROWS)
    assert "started: 2 rows, parallel" in caplog.text
    assert result.trace is not None
    result.trace.save(path := tmp_path / "map.trace.json")
    assert TimelineMessages(ExecutionTrace.load(path)._fold).make_saved_view()["run"]["task_noun"] == "row"


def test_rows_that_were_skipped_for_the_same_reason_tell_it_once() -> None:
    poor = replace(
        make(), tasks=[Task.of("On {topic}")], llm=ScriptedChatModel(default="ok"), budget=Budget(max_tokens=1)
    )
    said = picture(poor.map(ROWS * 6, concurrency=2))
    assert len(re.findall(r"skipped: 1 token is left; the next call may need \d+$", said, re.MULTILINE)) == 1
    assert said.count("↷ row") == 12


def test_tasks_reused_in_the_runs_of_a_map_are_told(store_path: Path) -> None:
    model = ScriptedChatModel(default="ok")
    asking = Ensemble(tasks=[Task.of("On {topic}"), Task.of("Again")], llm=model)
    assert "reused" not in picture(asking.map(ROWS))
    said = picture(asking.map([*ROWS, {"topic": "new"}], reuse=True))
    assert "; 4 of 6 tasks reused" in said  # each serves one row


def test_without_texts_a_row_says_nothing_of_what_it_is_about() -> None:
    quiet = Ensemble(tasks=[Task.of("On {topic}", name="say", handler=answer)], capture_mode=CaptureMode.METADATA)
    said = picture(quiet.map(ROWS))
    assert "1/2 rows" in said
    assert "topic" not in said
