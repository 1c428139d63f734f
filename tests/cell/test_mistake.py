"""How mistakes are shown (C10), on a page, too (C14)."""

import pickle

import pytest

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cell.vocabulary import TASK
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.notebook.live.mistake_page import make_html
from tests.support.cell import mistakes_of

CELL = """\
llm: local
agents:
  Researcher:
    gaol: Find facts
tasks:
  gather: {description: Gather, agent: Reseacher}
"""


def error_of(text):
    with pytest.raises(CellError) as caught:
        read_cell(text, {})
    return caught.value


def test_all_mistakes_show_at_once_with_line_caret_nearest_name_and_help():
    assert error_of(CELL)._render_lines() == [
        "CellError: 2 mistakes in this cell",
        "  line 4: unknown key 'gaol' in agent 'Researcher'. Did you mean 'goal'?",
        "    4 |     gaol: Find facts",
        "      |     ^^^^",
        "    An agent has: role, goal, llm, background, tools, allow_delegation, verbose, max_iterations,",
        "    response_format, system_prompt, history, rate_limit, max_retries, max_retry_wait, llm_timeout.",
        "  line 6: there is no agent 'Reseacher' in this cell. Did you mean 'Researcher'?",
        "    6 |   gather: {description: Gather, agent: Reseacher}",
        "      |                                        ^^^^^^^^^",
        "    Agents here: Researcher.",
    ]


def test_error_is_a_validation_error_with_the_places_in_its_text():
    error = error_of(CELL)
    assert isinstance(error, ValidationError)
    assert str(error).splitlines()[1].startswith("- line 4: unknown key 'gaol'")


def test_ipython_shows_the_short_form_first_and_the_traceback_after():
    error = error_of(CELL)
    assert error._render_traceback_()[0] == "CellError: 2 mistakes in this cell"
    again = error._render_traceback_()
    assert sum("2 mistakes in this cell" in line for line in again) == 1
    assert again[-2:] == ["      |                                        ^^^^^^^^^", "    Agents here: Researcher."]


def test_error_pickles_with_its_mistakes_and_frames():
    error = error_of(CELL)
    again = pickle.loads(pickle.dumps(error))
    assert again.mistakes == error.mistakes
    assert again._render_lines() == error._render_lines()


def test_mistakes_stand_in_the_order_of_the_text():
    lines = [
        each.line for each in mistakes_of("tasks: [{description: x, agent: A}]\nfoo: 1\nllm: nope\nverbose: maybe\n")
    ]
    assert lines == [1, 2, 3, 4]


def test_mistakes_in_the_yaml_and_in_the_words_show_together():
    text = "agents:\n  A:\n    goal: Find: it\n    gole: x\ntasks:\n  - @home\n  - {description: y, agent: B}\n"
    assert [each.line for each in mistakes_of(text)] == [3, 4, 6, 7]


def test_long_line_is_cut_around_the_place():
    (_, _, frame, caret, *_) = error_of("- description: " + "word " * 100 + ": " + "word " * 100)._render_lines()
    assert len(frame) < 130
    assert frame[caret.index("^")] == ":"


def test_caret_counts_wide_characters():
    (_, _, frame, caret, *_) = error_of("tasks: [{description: 日本, agnt: x}]")._render_lines()
    assert caret.index("^") == frame.index("agnt") + 2


def test_controls_never_reach_the_screen():
    shown = "\n".join(error_of("- \x1b[31mred\x07")._render_lines())
    assert shown.isprintable() or all(each.isprintable() or each == "\n" for each in shown)


def test_many_mistakes_are_cut_in_the_short_form():
    lines = error_of("\n".join(f"k{number}: x" for number in range(50)))._render_lines()
    assert lines[0].startswith("CellError: 50 mistakes")
    assert lines[-1] == "  ... and 30 more"


def test_windows_line_ends_count_as_one_line():
    assert mistakes_of("tasks: [a]\r\nfoo: x\r\n")[0].line == 2


def test_text_wraps_between_words():
    shown = error_of("tasks: [{description: x, agnt: y}]").draw()
    assert max(map(len, shown)) <= 100
    assert {word.strip(",.") for line in shown[4:] for word in line.split()} >= set(TASK.keys)


def test_error_that_a_page_shows_already_is_one_line():
    error = error_of(CELL)
    error.is_displayed = True
    assert error._render_traceback_() == ["CellError: 2 mistakes in this cell, shown above"]
    assert error.draw() == error._render_traceback_()[-10:]


def test_page_shows_the_text_of_a_cell_as_text():
    made = make_html(error_of("tasks:\n  a: {<script>: '<img src=x>', agnt: \"&\"}"))
    assert "<script" not in made
    assert "<img" not in made
    assert "&lt;script&gt;" in made
    assert made.count("<pre ") == 2
    assert "white-space:pre;overflow-x:auto" in made


def test_page_says_how_many_mistakes_it_leaves_out():
    assert "... and 30 more" in make_html(error_of("\n".join(f"k{number}: x" for number in range(50))))
