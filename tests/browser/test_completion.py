"""Tab in a cell on a page: what our completer proposes, and nothing of JupyterLab's own (C20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.lab import photograph

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import Opener

CELL = """%%ensemble
agents:
  Finder: {goal: Find facts}
tasks:
  find: {description: Find facts, agent: Finder}
  check: {"""


def propose_at_the_end(cell: Locator) -> list[str]:
    page = cell.page
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Tab")
    shown = page.locator(".jp-Completer:visible .jp-Completer-match")
    shown.first.wait_for()
    return shown.all_inner_texts()


def test_in_a_cell_only_what_may_stand_there_is_proposed_and_elsewhere_the_words_of_the_text_too_c20(
    open_notebook: Opener,
) -> None:
    notebook = open_notebook(LOAD, CELL, "a_name_of_mine = a_name_of_yours = 1\na_na")
    notebook.run_to_end(0)
    ours = propose_at_the_end(notebook.cell(1))
    photograph("completion", notebook.page)
    assert {"description", "agent"} <= {each.strip(" :") for each in ours}
    assert [each for each in ours if not each.strip(" :").isidentifier()] == []
    notebook.page.keyboard.press("Escape")
    expect(notebook.page.locator(".jp-Completer:visible")).to_have_count(0)
    # No cell has made that name, so that the kernel does not know it.
    assert "a_name_of_mine" in propose_at_the_end(notebook.cell(2))
