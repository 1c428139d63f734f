"""The one table of our pages: what is not a piece of ours is a text, in whatever place it stands (C30a)."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from ensemble_notebook.notebook.picture.html_table import Column, Line, faint, fold, join, tag, write_table
from tests.support.hostile_texts import KNOWN, PAYLOADS, Page

COLUMNS = (Column("name"), Column("cost", is_number=True), Column("note", is_faint=True, style="min-width:12em"))


@pytest.mark.parametrize("text", [*PAYLOADS, *KNOWN[::9]])
def test_a_text_is_text_in_a_head_a_cell_a_note_and_an_attribute_c30a(text: str) -> None:
    line = Line(cells=[text, tag("code", text), faint(text)], notes=[text])
    pages = [write_table([Column(text), *COLUMNS[1:]], [line]), fold(text, text), tag("p", "a", aria_label=text)]
    for page in map(Page, pages):
        assert page.find_active() == []
        assert page.formulas == []
        assert {tag for tag, _ in page.elements} <= {
            *("table", "thead", "tbody", "tr", "th", "td", "code", "span", "details", "summary", "div", "p")
        }


def test_a_piece_that_was_put_together_by_hand_is_a_text_again() -> None:
    assert join(f"{tag('b', 'x')}") == "&lt;b&gt;x&lt;/b&gt;"
    assert join(tag("b", "x") + "<i>") == "&lt;b&gt;x&lt;/b&gt;&lt;i&gt;"
    assert join(tag("b", "x"), "<i>") == "<b>x</b>&lt;i&gt;"


def test_numbers_are_read_from_the_right_and_what_stands_below_a_line_is_as_wide_as_the_table() -> None:
    line = Line(cells=["find", "$1", "well"], depth=2, has_rule=True, notes=["it took two tries"])
    table = write_table(COLUMNS, [line, Line(cells=["write", "$2", ""])])
    cells = re.findall('<td style="([^"]*)"( colspan="3")?>', table)
    assert [style.split(";")[0] for style, _ in cells] == [
        *("text-align:left", "text-align:right", "text-align:left"),
        *("text-align:left", "text-align:left", "text-align:right", "text-align:left"),
    ]
    assert [bool(wide) for _, wide in cells] == [False, False, False, True, False, False, False]
    assert "padding-left:2.8em" in cells[0][0]
    assert "min-width:12em" in cells[2][0]
    assert "opacity" in cells[2][0]
    assert table.count("border-top:1px") == 1


def test_a_line_without_a_cell_for_each_column_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="argument"):
        write_table(COLUMNS, [Line(cells=["find"])])


def test_elements_are_closed_in_order() -> None:
    opened: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Reader().feed(fold("title", write_table(COLUMNS, [Line(cells=["a", "b", "c"])]), is_open=True))
    assert opened == []
