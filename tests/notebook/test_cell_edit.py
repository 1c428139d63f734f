"""A change as pages show it before it is put into a cell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.notebook.live.cell_edit import describe_edit, diff_lines
from tests.conformance.test_changed_cell import CELL, call_of, prompts_of, run_cell
from tests.support.openai_server import OpenAIServer


def test_lines_that_change_are_shown_by_their_words_with_those_around_them() -> None:
    before = "a\nb\nc\nold words\nd\ne\nf\ng\nh\ni\nj\n"
    lines = list(diff_lines(before, before.replace("old", "new").replace("j", "j\nk")))
    assert lines == [
        ("…", [("", False)]),
        *((" ", [(each, False)]) for each in "bc"),
        ("-", [("old", True), (" words", False)]),
        ("+", [("new", True), (" words", False)]),
        *((" ", [(each, False)]) for each in "de"),
        ("…", [("", False)]),
        *((" ", [(each, False)]) for each in "ij"),
        ("+", [("k", False)]),
    ]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def test_a_new_cell_is_written_where_the_one_that_ran_is_not_known_or_there_is_none(server: OpenAIServer) -> None:
    llm = f"openai:test-model@{server.url}"
    output = run_cell(llm, CELL)
    wanted = prompts_of(server, "Write")[1].replace("short", "long")
    told = describe_edit(output.rerun(call_of(output, "draft"), user_prompt=wanted), {})
    assert told["change"] is None
    assert told["source"] == f"%%ensemble --llm {llm}\n{CELL.replace('short', 'long').rstrip()}"
    assert told["notes"] == ["Which cell it was is not known here, so a new one is written."]
    ran = Ensemble(tasks=[Task(description="Find tides", name="a")], llm=llm).run()
    wanted = prompts_of(server, "Find")[1].replace("Find", "Seek")
    told = describe_edit(ran.fork(call_of(ran, "a"), user_prompt=wanted), {})
    assert told["source"].startswith("%%ensemble\n")
    assert told["where"] == "description of task 'a'"
    assert describe_edit(ran.fork(call_of(ran, "a"), reply="x"), {}) == {
        "refusal": "reply= is what a model has said, and has no place in a cell, which says what is asked."
    }
