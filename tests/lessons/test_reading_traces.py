"""The lesson on traces."""

from __future__ import annotations

import pytest

from tests.support.lessons import Lesson, NotebookTests

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("06-reading-traces.ipynb")


class TestReadingTraces(NotebookTests):
    lesson = LESSON


CHART = "application/vnd.vegalite.v5+json"


def test_ten_questions_about_a_trace_are_answered_in_at_most_two_lines_each() -> None:
    notebook = LESSON.executed
    asked = [cell.source.splitlines()[0] for cell in notebook.cells if cell.cell_type == "markdown"]
    assert [int(line.split()[1].rstrip(".")) for line in asked if line.startswith("## ") and line[3].isdigit()] == [
        *range(1, 11)
    ]
    begun = next(number for number, cell in enumerate(notebook.cells) if cell.source.startswith("## 1."))
    answers = [cell for cell in notebook.cells[begun:] if cell.cell_type == "code" and cell.source[0] != "%"]
    assert len(answers) == 14
    assert all(len(cell.source.splitlines()) <= 2 and cell.outputs for cell in answers)


def test_the_answers_about_a_trace_are_those_of_its_script() -> None:
    tools = LESSON.below("tool_tokens").splitlines()
    assert [line.split()[0] for line in tools[2:4]] == ["Archivist", "Pilot"]
    assert LESSON.below("backoff_ms").split()[-5:-3] == ["check", "429"]
    failed = {line.split()[0]: line.split()[1:3] for line in LESSON.below("agg(calls=").splitlines()[2:]}
    assert failed == {"tide_table": ["4", "0"], "search_log": ["3", "1"]}
    assert "north" in LESSON.below("nunique").splitlines()[2]
    assert LESSON.below("status != 'same'").split()[-4:-2] == ["almanac", "changed"]
    assert "Write the almanac of 2027{+, with a table of the tides+}" in LESSON.below("print(change.prompts)")


def test_the_figures_of_a_trace_are_charts_with_a_picture_beside_them() -> None:
    charts = [output.data for cell in LESSON.code_cells for output in cell.outputs if CHART in output.get("data", {})]
    assert [each["image/svg+xml"].startswith("<svg") for each in charts] == [True] * 3
    assert all("text/html" not in each for each in charts)
