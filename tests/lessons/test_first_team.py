"""The first lesson."""

from __future__ import annotations

import pytest

from tests.support.lessons import Lesson, NotebookTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("01-first-team.ipynb")


class TestFirstTeam(NotebookTests):
    lesson = LESSON


def test_the_first_lesson_runs_a_chain_and_a_graph_on_the_local_model() -> None:
    chain, graph = LESSON.traces
    assert [row["name"] for row in rows_of(chain, "task")] == ["writer_1", "writer_2"]
    rows = {row["name"]: row for row in rows_of(graph, "task")}
    assert list(rows) == ["gather", "risks", "brief"]
    assert rows["brief"]["start_ms"] >= max(rows["gather"]["end_ms"], rows["risks"]["end_ms"])
    assert rows["risks"]["start_ms"] < rows["gather"]["end_ms"]
    calls = rows_of(graph, "llm")
    assert {row["provider"] for row in calls} == {"local"}
    assert all(row["output_tokens"] > 0 for row in calls)


def test_the_first_lesson_selects_no_rows_where_nobody_selects() -> None:
    assert LESSON.below("report.timeline.selection]").startswith("Empty DataFrame\nColumns: [kind, name")


def test_the_first_lesson_s_mistakes_are_named_at_their_place() -> None:
    shown = "\n".join(LESSON.texts)
    assert "3 mistakes in this cell" in shown
    for word in ("'goal'", "'Poet'", "'haiku'"):
        assert f"Did you mean {word}?" in shown
