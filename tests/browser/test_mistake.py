"""Mistakes of a cell on a page, light and dark, wide and narrow (C14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator

BROKEN = """%%ensemble
llm: local
agents:
  Researcher: {gaol: Find facts}
tasks:
  gather: {description: "Gather <img src=x onerror='window.hacked=1'> and go on to the end", agnt: Researcher}
  a_task_whose_name_is_longer_than_a_narrow_cell_is_wide: {description: Go on from there, context: [gahter]}
"""
# Where in a block the mark and its carets are, from its left edge, and how much of the marked text is in sight.
FIND_MARKS = """block => {
    const edge = block.getBoundingClientRect();
    const [mark, carets] = [...block.querySelectorAll("strong")].map(each => each.getBoundingClientRect());
    const line = [...block.children].slice(0, 4).map(each => each.getBoundingClientRect());
    return {
        isInSight: mark.left >= edge.left && mark.right <= edge.right + 1,
        isCaretBelow: Math.abs(mark.left - carets.left) < 1 && Math.abs(mark.width - carets.width) < 1
            && carets.top >= mark.bottom - 1,
        isOneLine: line.every(each => Math.abs(each.top - line[0].top) < 1),
        text: block.innerText,
    };
}"""
HAS_BROKEN_WORD = r"""block => {
    const range = document.createRange();
    for (const text of block.querySelectorAll("p")) {
        const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            for (const word of walker.currentNode.data.matchAll(/[\w-]+/g)) {
                range.setStart(walker.currentNode, word.index);
                range.setEnd(walker.currentNode, word.index + word[0].length);
                if (range.getClientRects().length > 1) return word[0];
            }
        }
    }
    return null;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_mistakes_stand_on_the_page_once_with_line_and_caret_in_a_block_that_never_wraps_c14(
    open_in_window: Opener, theme: str
) -> None:
    notebook = open_in_window(LOAD, BROKEN, "'after'", theme=theme)
    page, cell = notebook.page, notebook.run_to_end(0, 1)
    wait_for_text(cell, "shown above")
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    shown = notebook.output(1)
    assert shown.count("Did you mean") == 3
    assert "CellError: 3 mistakes in this cell, shown above" in shown
    blocks = cell.locator("[role=group] pre")
    expect(blocks).to_have_count(3)
    for width in (1300, 900, 480, 320):
        page.set_viewport_size({"width": width, "height": 900})
        check_blocks(blocks, is_narrow=width <= 480)
        wait_for(lambda: cell.locator("[role=group] strong", has_text="agent").count() >= 1, 30)
        assert cell.locator("[role=group]").evaluate(HAS_BROKEN_WORD) is None
        photograph(f"mistakes-{theme}-{width}", cell.locator(".jp-Cell-outputWrapper"))
    assert page.evaluate("() => window.hacked") is None


def check_blocks(blocks: Locator, *, is_narrow: bool) -> None:
    """Each is on the page with its mark in sight; what is before the mark can be scrolled to where it does not fit."""
    for block in blocks.all():
        assert block.evaluate("block => getComputedStyle(block).whiteSpace") == "pre"
        wait_for(lambda block=block: block.evaluate("block => block.getBoundingClientRect().right <= innerWidth"), 30)  # type: ignore[misc]
        wait_for(lambda block=block: is_well_marked(block), 30, lambda block=block: str(block.evaluate(FIND_MARKS)))  # type: ignore[misc]
    before = blocks.nth(1).locator("> span").nth(1)
    wait_for(lambda: before.evaluate("part => part.scrollWidth > part.clientWidth") is is_narrow, 30)
    before.evaluate("part => { part.scrollLeft = -1000 }")  # to its beginning
    wait_for(lambda: (before.evaluate("part => part.scrollLeft") < 0) is is_narrow, 30)
    before.evaluate("part => { part.scrollLeft = 0 }")


def is_well_marked(block: Locator) -> bool:
    marks = block.evaluate(FIND_MARKS)
    return all(marks[sign] for sign in ("isInSight", "isCaretBelow", "isOneLine"))
