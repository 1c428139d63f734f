"""The lesson on traces."""

from __future__ import annotations

import re

import pytest

from tests.support.lessons import Lesson, LessonTests

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("06-reading-traces.ipynb")


class TestReadingTraces(LessonTests):
    lesson = LESSON


CHART = "application/vnd.vegalite.v5+json"


def test_it_asks_ten_questions() -> None:
    text = "\n".join(cell.source for cell in LESSON.saved.cells if cell.cell_type == "markdown")
    asked = re.findall(r"^(?:## |\*\*)(\d+)\. .*\?", text, re.MULTILINE)
    assert asked[:10] == [str(number) for number in range(1, 11)]


def test_the_longest_task_is_not_on_the_critical_path() -> None:
    shown = LESSON.below("all tasks together")
    summed = float(re.search(r"together: (\d+) ms", shown)[1])  # type: ignore[index]
    wall, _, _, work, _ = map(float, next(line for line in shown.splitlines() if line.count(".") >= 5).split()[1:])
    assert summed > work > wall
    shares = [line.split()[0] for line in shown.splitlines() if line.endswith("%")]
    assert shares[0] == "check"
    assert "wrecks" not in shares


def test_the_answers_are_those_of_the_script() -> None:
    shown = LESSON.below("tool_tokens").splitlines()
    counts = {line.split()[0]: line.split()[1:] for line in shown if len(line.split()) == 4}
    assert [counts["Archivist"][0], counts["Pilot"][0]] == ["4", "4"]
    assert int(counts["Archivist"][1]) > 3 * int(counts["Pilot"][1])
    assert [counts[tool][:2] for tool in ("search_log", "tide_table")] == [["4", "1"], ["4", "0"]]
    refused = next(line.split() for line in LESSON.below("backoff_ms").splitlines() if " 429 " in line)
    assert (refused[1], float(refused[-1])) == ("check", 0)
    assert float(refused[-2]) > 1000


def test_a_diff_shows_the_two_tasks_whose_inputs_differ() -> None:
    shown = LESSON.below("first.diff(second)")
    assert "since [-1911-]{+1912+}" in shown
    changed = {line.split()[0]: line.split()[2:] for line in shown.splitlines() if " changed " in line}
    assert [*changed] == ["wrecks", "almanac"]
    assert int(changed["wrecks"][0]) > 0 > int(changed["wrecks"][1])
    assert int(changed["almanac"][1]) > 0 > int(changed["almanac"][0])


def test_a_model_twice_as_fast_saves_less_than_a_quarter_and_than_a_refused_request() -> None:
    lines = LESSON.below("a model twice as fast").splitlines()
    saved = [float(each[1]) for line in lines if (each := re.search(r"([\d.]+) s of", line))]
    (whole,) = {float(each[1]) for line in lines if (each := re.search(r"of ([\d.]+) s", line))}
    faster, _, unrefused, archivist = saved
    assert archivist > 0
    assert 0 < faster < whole / 4
    assert faster < unrefused


def test_the_figures_are_charts_with_a_picture_beside_them() -> None:
    charts = [output.data for cell in LESSON.code_cells for output in cell.outputs if CHART in output.get("data", {})]
    assert [each["image/svg+xml"].startswith("<svg") for each in charts] == [True] * 3
    assert all("text/html" not in each for each in charts)
