"""What a task is declared with in a cell shows, as it is, in plan, trace and timeline."""

import pytest

from ensemble_notebook import Ensemble, InMemoryStore
from ensemble_notebook.cell.vocabulary import ValueKind, Word
from ensemble_notebook.domain.definitions.definition import read_settings
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import to_row
from tests.support.cell import read

CELL = """
- description: Count the words
  name: count
  handler: count
  timeout: 90
  memory: [notes, facts]
- description: Say the count
  handler: count
"""
SETTINGS = {"timeout": "90 s", "memory": "notes, facts"}


@pytest.fixture(scope="module")
def output():
    return read("memory: true\ntasks:" + CELL, {"count": lambda _: "3"}).build().run()


def test_settings_of_a_cell_show_in_the_plan(output):
    assert [task["settings"] for task in output.plan.to_dict()["tasks"]] == [SETTINGS, {}]


def test_settings_of_a_cell_show_in_the_trace(output):
    first, second = output.trace.to_dict()["taskTraces"]
    assert first["metadata"]["settings"] == SETTINGS
    assert "settings" not in second["metadata"]


def test_settings_of_a_cell_show_in_the_rows_of_the_timeline(output):
    fold = TraceFold.from_events(output.trace.events)
    rows = {span.name: to_row(span) for span in fold.spans.values()}
    assert rows["count"]["settings"] == SETTINGS
    assert not any("settings" in row for name, row in rows.items() if name != "count")


def test_settings_are_told_in_plain_values():
    task = Task.of(
        "Judge it",
        output_type={"type": "object", "title": "Verdict", "properties": {}},
        max_output_retries=0,
        review=[Review("before"), Review("after")],
        rate_limit=RateLimit(6, 60),
        output_guardrails=[len],
    )
    assert read_settings(task) == {
        "output_type": "Verdict",
        "max_output_retries": 0,
        "output_guardrails": "len",
        "review": "before, after",
        "rate_limit": "6 per 60 s",
    }


def test_settings_in_a_trace_hold_no_secret():
    task = Task.of("Count", handler=lambda _: "3", memory="sk-" + "a1" * 12)
    assert read_settings(task)["memory"].startswith("sk-")
    trace = Ensemble(tasks=[task], memory=InMemoryStore()).run().trace
    assert trace.to_dict()["taskTraces"][0]["metadata"]["settings"] == {"memory": "***"}


def test_word_for_a_function_without_its_label_is_refused_when_the_vocabulary_is_written():
    with pytest.raises(ValueError, match="needs a label: 'who is asked'"):
        Word(ValueKind.OBJECTS, "who is asked")
