"""The lessons, run from top to bottom in a real kernel without anybody watching."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

LESSONS = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.name for path in LESSONS.glob("*.ipynb"))
TRACE = "application/vnd.ensemble.trace+json"


@cache
def executed(name: str) -> nbformat.NotebookNode:
    """A lesson with its outputs; run once for all tests."""
    notebook = nbformat.read(LESSONS / name, as_version=4)
    NotebookClient(notebook, timeout=300, extra_arguments=["--log-level=ERROR"]).execute()
    return notebook


def code_cells(name: str) -> list[Any]:
    return [cell for cell in executed(name).cells if cell.cell_type == "code"]


def text_of(output: Any) -> str:
    return output.get("text") or "\n".join(output.get("traceback", ())) or output.get("data", {}).get("text/plain", "")


def texts(name: str) -> list[str]:
    """What each code cell shows, as text."""
    return ["\n".join(map(text_of, cell.outputs)) for cell in code_cells(name)]


def traces(name: str) -> list[dict[str, Any]]:
    """The saved timelines, in order."""
    outputs = [output for cell in code_cells(name) for output in cell.outputs]
    return [output["data"][TRACE] for output in outputs if TRACE in output.get("data", {})]


def test_there_are_the_two_lessons() -> None:
    assert NAMES == ["01-first-ensemble.ipynb", "02-kitchen.ipynb"]


@pytest.mark.parametrize("name", NAMES)
def test_only_the_cells_that_are_wrong_on_purpose_fail(name: str) -> None:
    for cell in code_cells(name):
        has_failed = any(output.output_type == "error" for output in cell.outputs)
        assert has_failed == ("raises-exception" in cell.metadata.get("tags", ())), cell.source


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_saved_small_and_without_widgets(name: str) -> None:
    notebook = executed(name)
    assert "widgets" not in notebook.metadata
    assert "widget-view" not in json.dumps(notebook)
    assert len(json.dumps(notebook)) < 300_000


def test_the_first_lesson_runs_a_chain_and_a_graph_on_the_local_model() -> None:
    chain, graph = traces("01-first-ensemble.ipynb")
    assert [row["name"] for row in chain["rows"] if row["kind"] == "task"] == ["writer_1", "writer_2"]
    rows = {row["name"]: row for row in graph["rows"] if row["kind"] == "task"}
    assert list(rows) == ["gather", "risks", "brief"]
    assert rows["brief"]["start_ms"] >= max(rows["gather"]["end_ms"], rows["risks"]["end_ms"])
    assert rows["risks"]["start_ms"] < rows["gather"]["end_ms"]
    calls = [row for row in graph["rows"] if row["kind"] == "llm"]
    assert {row["provider"] for row in calls} == {"local"}
    assert all(row["output_tokens"] > 0 for row in calls)


def test_the_first_lesson_s_mistakes_are_named_at_their_place() -> None:
    shown = "\n".join(texts("01-first-ensemble.ipynb"))
    assert "3 mistakes in this cell" in shown
    for word in ("'goal'", "'Poet'", "'haiku'"):
        assert f"Did you mean {word}?" in shown


def test_the_kitchen_cooks_three_dishes_at_once_and_serves_last() -> None:
    dinner, _ = traces("02-kitchen.ipynb")
    rows = {row["name"]: row for row in dinner["rows"] if row["kind"] == "phase"}
    dishes = [rows[name] for name in ("steak", "salmon", "pasta")]
    assert max(row["start_ms"] for row in dishes) < min(row["end_ms"] for row in dishes)
    assert rows["serve"]["start_ms"] >= max(row["end_ms"] for row in dishes)
    assert dinner["run"]["is_scripted"]


def test_a_burnt_steak_skips_what_depends_on_it_and_spares_the_salmon() -> None:
    _, burnt = traces("02-kitchen.ipynb")
    status = {row["name"]: row["status"] for row in burnt["rows"] if row["kind"] == "phase"}
    assert status == {"steak": "error", "salmon": "ok", "serve": "skipped", "clear": "skipped"}
    error = next(text for text in texts("02-kitchen.ipynb") if "PhaseExecutionError" in text)
    assert "the steak is charcoal" in error
    assert "Traceback" not in error
