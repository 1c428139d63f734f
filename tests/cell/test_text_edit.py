"""Single values of a cell's text are changed, and all else stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook.cell.writing.text_edit import Path, TextEdit
from ensemble_notebook.errors import ValidationError

TEXT = """# all
a:
  plain: Judge the draft   # why
  single: 'it''s so'
  double: "say \\"so\\""
  literal: |
    One line.

    Another one.
  folded: >-
    Long words
    over lines.
  flow: {goal: Write it, 'x': 1}   # f
  items:
    - first # one
    - key: value
"""
PATHS: list[Path] = [("a", name) for name in ("plain", "single", "double", "literal", "folded")]
PATHS += [("a", "flow", "goal"), ("a", "items", 0), ("a", "items", 1, "key"), ("a", "new"), ("a", "flow", "new")]


@settings(max_examples=30)
@given(st.sampled_from(PATHS), st.text(st.sampled_from("ab :#-{}'\"\\\n|>\t,é"), min_size=1, max_size=30))
def test_any_text_is_written_so_that_it_alone_is_another_one(path: Path, value: str) -> None:
    edit = TextEdit(TEXT)
    rest = _without(TextEdit(TEXT), path)
    try:
        edit.set(path, value)
    except ValidationError:
        assert not value.isprintable() or value != value.strip()
        return
    assert edit.get_data(path) == value
    assert _without(edit, path) == rest
    assert edit.text.startswith("# all\n")
    assert "# why" in edit.text
    assert "# one" in edit.text


def _without(edit: TextEdit, path: Path) -> object:
    edit = TextEdit(edit.text)
    edit.set(path, "?")
    return edit.get_data(())


@pytest.mark.parametrize(
    "path, value, lines",
    [
        (("a", "plain"), "Judge the long draft", "  plain: Judge the long draft   # why"),
        (("a", "single"), "it's all so", "  single: 'it''s all so'"),
        (("a", "double"), 'say "no"', '  double: "say \\"no\\""'),
        (("a", "folded"), "Short words over lines.", "    Short words\n    over lines."),
        (("a", "literal"), "One line.\n\nNo other one.", "    One line.\n\n    No other one.\n  folded"),
        (("a", "flow", "new"), 2, "  flow: {goal: Write it, 'x': 1, new: 2}   # f"),
    ],
)
def test_a_value_keeps_the_form_that_it_has(path: Path, value: object, lines: str) -> None:
    edit = TextEdit(TEXT)
    edit.set(path, value)
    assert lines in edit.text
    assert len(edit.text.split("\n")) == len(TEXT.split("\n"))
