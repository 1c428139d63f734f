"""Mistakes of a cell on a page, light and dark, wide and narrow (C14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import photograph, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Page

BROKEN = """%%ensemble
llm: local
agents:
  Researcher: {gaol: Find facts}
tasks:
  gather: {description: "Gather <img src=x onerror='window.hacked=1'> and go on to the end", agnt: Researcher}
"""
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
@pytest.mark.parametrize("width", [1300, 320])
def test_mistakes_stand_on_the_page_once_with_line_and_caret_in_a_block_that_scrolls(
    page: Page, open_notebook: Opener, theme: str, width: int
) -> None:
    notebook = open_notebook(LOAD, BROKEN, "'after'", theme=theme)
    cell = notebook.run_to_end(0, 1)
    wait_for_text(cell, "shown above")
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    page.set_viewport_size({"width": width, "height": 900})
    shown = notebook.output(1)
    assert shown.count("Did you mean") == 2
    assert "CellError: 2 mistakes in this cell, shown above" in shown
    blocks = cell.locator("[role=group] pre")
    assert blocks.count() == 2
    styles = blocks.nth(1).evaluate(
        "block => [getComputedStyle(block).whiteSpace, block.scrollWidth > block.clientWidth]"
    )
    assert styles == ["pre", width == 320]
    assert blocks.nth(1).evaluate("block => block.getBoundingClientRect().right <= innerWidth")
    assert cell.locator("[role=group] strong", has_text="agent").count() >= 1
    assert cell.locator("[role=group]").evaluate(HAS_BROKEN_WORD) is None
    assert page.evaluate("() => window.hacked") is None
    photograph(f"mistakes-{theme}-{width}", cell.locator(".jp-Cell-outputWrapper"))
