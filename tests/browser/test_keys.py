"""Whose keys they are, in a real JupyterLab: real clicks, real keys (W9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.cell import LOAD, REPORT, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import Notebook, photograph, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator

IS_INSIDE = "root => root.contains(document.activeElement) || root === document.activeElement"


def press_everywhere(timeline: Locator) -> list[tuple[str, Locator]]:
    """The parts of a view that can be pressed; pressing the chart opens the drawer, so that comes first."""
    parts = [".et-canvas", ".et-gutter", ".et-panel", ".et-tab >> nth=0", ".et-status", ".et-toolbar", ".et-corner"]
    return [(part, timeline.locator(part)) for part in parts]


def cells(notebook: Notebook) -> int:
    return notebook.page.locator(".jp-Notebook .jp-CodeCell").count()


def test_w9_after_a_press_anywhere_no_plain_key_reaches_the_notebook(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, REPORT, "report.timeline", "1 + 1")
    notebook.run_to_end(0, 1, 2, 3)
    for number in (2, 3):  # that of the cell itself, and that of `report.timeline`
        check_keys_stay(notebook, notebook.timeline(number))


def check_keys_stay(notebook: Notebook, timeline: Locator) -> None:
    keyboard = notebook.page.keyboard
    timeline.get_by_text("find", exact=True).first.click()
    for name, part in press_everywhere(timeline):
        notebook.page.locator(".jp-Notebook .jp-CodeCell").nth(4).locator(".jp-InputPrompt").click()
        part.click(position={"x": 40, "y": 9})
        wait_for(lambda: bool(timeline.evaluate(IS_INSIDE)), 30)
        keyboard.press("d")
        keyboard.press("d")
        keyboard.press("a")
        keyboard.press("b")
        keyboard.press("x")
        assert cells(notebook) == 5, name
        wait_for(lambda: bool(timeline.evaluate(IS_INSIDE)), 30)

    # A drag does the same as a click.
    box = timeline.locator(".et-canvas").bounding_box()
    assert box is not None
    notebook.page.mouse.move(box["x"] + 200, box["y"] + 60)
    notebook.page.mouse.down()
    notebook.page.mouse.move(box["x"] + 120, box["y"] + 60, steps=4)
    notebook.page.mouse.up()
    keyboard.press("d")
    keyboard.press("d")
    assert cells(notebook) == 5
    wait_for(lambda: bool(timeline.evaluate(IS_INSIDE)), 30)


def test_w9_escape_leaves_step_by_step_and_combinations_are_jupyterlab_s(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, REPORT, "1 + 1")
    notebook.run_to_end(0, 1, 2)
    timeline = notebook.timeline(2)
    keyboard = notebook.page.keyboard
    timeline.get_by_text("find", exact=True).first.click()
    timeline.locator(".et-drawer").wait_for()  # its code is loaded the first time it is opened
    keyboard.press("?")
    keys = timeline.get_by_label("Keys", exact=True).and_(notebook.page.locator("section"))
    keys.wait_for()
    wait_for(
        lambda: all(
            word in keys.inner_text() for word in ("critical path", "next span in time", "follow what runs now")
        ),
        30,
    )
    photograph("keys-light", timeline)
    keyboard.press("Escape")
    wait_for(lambda: keys.count() == 0, 30)
    keyboard.press("Escape")
    wait_for(lambda: timeline.locator(".et-drawer").count() == 0, 30)
    expect(timeline.locator(".et-row[aria-selected=true]")).to_have_count(1)
    keyboard.press("Escape")
    wait_for(lambda: timeline.locator(".et-row[aria-selected=true]").count() == 0, 30)
    wait_for(lambda: bool(timeline.evaluate(IS_INSIDE)), 30)
    keyboard.press("Escape")
    wait_for(lambda: not timeline.evaluate(IS_INSIDE), 30)
    wait_for(lambda: bool(notebook.cell(2).evaluate("cell => cell === document.activeElement")), 30)
    keyboard.press("b")  # the notebook's again: a cell below
    wait_for(lambda: cells(notebook) == 5, 30)

    # Shift+Enter runs the cell, ctrl+S saves, while the view has the focus.
    timeline.locator(".et-canvas").click(position={"x": 40, "y": 40})
    wait_for(lambda: bool(timeline.evaluate(IS_INSIDE)), 30)
    is_saved = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
    wait_for(lambda: not notebook.page.evaluate(is_saved), 30)
    keyboard.press("Control+s")
    wait_for(lambda: bool(notebook.page.evaluate(is_saved)), 30)
    before = notebook.prompt(2)
    timeline.locator(".et-canvas").click(position={"x": 40, "y": 40})
    keyboard.press("Shift+Enter")
    wait_for(lambda: notebook.prompt(2) not in {before, "[*]:"}, 30, lambda: notebook.prompt(2))


def test_w9_a_search_takes_letters_and_jupyterlab_gets_none(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, REPORT, "1 + 1")
    notebook.run_to_end(0, 1, 2)
    timeline = notebook.timeline(2)
    timeline.locator(".et-status").click(position={"x": 5, "y": 5})
    notebook.page.keyboard.press("/")
    field = timeline.get_by_label("Search the run")
    expect(field).to_be_focused()
    notebook.page.keyboard.type("dd search")
    expect(field).to_have_value("dd search")
    field.fill("tool call search")
    wait_for(lambda: timeline.locator(".et-found").inner_text().startswith("1 of "), 30)
    notebook.page.keyboard.press("Enter")
    wait_for(lambda: "1/1" in timeline.locator(".et-found").inner_text(), 30)
    expect(timeline.locator(".et-row")).to_have_count(1)
    photograph("search-light", timeline)
    assert cells(notebook) == 4
