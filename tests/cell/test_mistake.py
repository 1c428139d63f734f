"""How mistakes are shown (C10)."""

import pickle

import pytest

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.language.cell_schema import AGENT
from ensemble_notebook.cell.text.mistakes import CellError
from ensemble_notebook.errors import ValidationError
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
        f"    An agent has: {', '.join(AGENT.keys)}.",
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
    assert any("CellError" in line for line in error._render_traceback_()[-5:])


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
