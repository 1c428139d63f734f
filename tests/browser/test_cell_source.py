"""What a person has tried, put into the cell that ran: the diff, then the cell, and nothing else (W110 to W112)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.lab import find_axe_faults, photograph
from tests.browser.test_tryouts import CELL, HARD, SET_UP, choose, open_call
from tests.support.openai_server import OpenAIServer

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import Opener
    from tests.browser.lab import Notebook

KIND = "Be kind to the writer"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(choose=choose) as server:
        yield server


def source_of(notebook: Notebook, number: int) -> str:
    code = "number => jupyterapp.shell.currentWidget.content.model.cells.get(number).sharedModel.getSource()"
    return str(notebook.page.evaluate(code, number))


def try_hard(notebook: Notebook, number: int = 2) -> tuple[Locator, Locator]:
    """Make the critic's call again with another system prompt; gives the view and the editor."""
    view = notebook.timeline(number).first
    drawer = open_call(view, "critic")
    drawer.get_by_role("button", name="Edit and run again").click()
    editor = view.get_by_role("region", name="Edit and run again")
    system = editor.get_by_role("textbox", name="System prompt")
    system.wait_for()
    system.fill(system.input_value().replace(KIND, HARD))
    editor.get_by_role("button", name="Run again").click()
    editor.get_by_role("button", name="Keep this reply and go on").wait_for()
    return view, editor


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_change_is_shown_as_a_diff_and_then_put_into_the_cell_whose_outputs_stay_w110(
    open_in_window: Opener, server: OpenAIServer, theme: str
) -> None:
    notebook = open_in_window(LOAD, SET_UP.format(url=server.url), CELL, "after = 1", theme=theme)
    notebook.run_to_end(0, 1, 2)
    view, editor = try_hard(notebook)
    button = editor.get_by_role("button", name="Put into the cell")
    button.press("Enter")
    diff = editor.get_by_role("region", name="Put into the cell")
    expect(diff.locator("[data-sign=removed]")).to_contain_text(KIND)
    expect(diff.locator("[data-sign=added] mark").first).to_contain_text("hard on")
    assert source_of(notebook, 2) == CELL
    photograph(f"source-diff-{theme}", notebook.page)
    assert find_axe_faults(view) == []
    notebook.page.keyboard.press("Escape")
    expect(diff).to_be_hidden()
    expect(button).to_be_focused()
    editor.get_by_role("button", name="Keep this reply and go on").click()
    fork = view.get_by_role("region", name="Fork 1")
    expect(fork).to_contain_text("Completed")  # while it goes on, it has nothing to put there
    fork.get_by_role("button", name="Put into the cell").click()
    asked, outputs = len(server.requests), notebook.outputs(2).count()
    fork.get_by_role("button", name="Apply").click()
    expect(fork.get_by_role("status").filter(has_text="The cell is changed")).to_be_visible()
    assert source_of(notebook, 2) == CELL.replace(KIND, HARD)
    assert source_of(notebook, 3) == "after = 1"
    assert (len(server.requests), notebook.outputs(2).count()) == (asked, outputs)
    expect(view.locator(".et-status").first).to_contain_text("Completed")
    photograph(f"source-applied-{theme}", notebook.page, after_s=1)
    notebook.page.evaluate("jupyterapp.shell.collapseLeft()")
    notebook.page.set_viewport_size({"width": 480, "height": 1400})
    fork.get_by_role("region", name="Put into the cell").scroll_into_view_if_needed()
    photograph(f"source-narrow-{theme}", notebook.page, after_s=1)
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})


def test_a_cell_that_is_another_one_by_now_stays_and_the_new_one_comes_below_w111(
    open_in_window: Opener, server: OpenAIServer
) -> None:
    notebook = open_in_window(LOAD, SET_UP.format(url=server.url), CELL, "after = 1")
    notebook.run_to_end(0, 1, 2)
    code = "text => jupyterapp.shell.currentWidget.content.model.cells.get(2).sharedModel.setSource(text)"
    mine = CELL.replace("tides", "waves")
    _, editor = try_hard(notebook)
    editor.get_by_role("button", name="Put into the cell").click()
    apply = editor.get_by_role("button", name="Apply")
    apply.wait_for()
    notebook.page.evaluate(code, mine)  # after the diff was shown, which is of the cell as it ran
    apply.click()
    expect(editor.get_by_role("status").filter(has_text="stands below")).to_be_visible()
    assert source_of(notebook, 2) == mine
    assert source_of(notebook, 3) == CELL.rstrip("\n").replace(KIND, HARD)
    assert source_of(notebook, 4) == "after = 1"
    notebook.run_to_end(3)
    expect(notebook.timeline(3).first.locator(".et-status").first).to_contain_text("Completed")
    assert sum(HARD in each.messages[0]["content"] for each in server.requests) == 2


def test_what_has_no_place_in_a_cell_is_told_w112(open_in_notebook_7: Opener, server: OpenAIServer) -> None:
    notebook = open_in_notebook_7(LOAD, SET_UP.format(url=server.url), CELL)
    notebook.run_to_end(0, 1, 2)
    view, editor = try_hard(notebook)
    editor.get_by_role("button", name="Put into the cell").click()
    editor.get_by_role("button", name="Apply").click()
    expect(editor.get_by_role("status").filter(has_text="The cell is changed")).to_be_visible()
    assert source_of(notebook, 2) == CELL.replace(KIND, HARD)
    system = editor.get_by_role("textbox", name="System prompt")
    system.fill(system.input_value().replace(HARD, KIND))
    editor.get_by_role("button", name="Run again").click()
    editor.get_by_role("button", name="Put into the cell").click()
    expect(editor.get_by_role("alert")).to_contain_text("Nothing was changed that stands in a cell")
    expect(editor.get_by_role("button", name="Apply")).to_have_count(0)
    photograph("source-refused-light", notebook.page)
    assert find_axe_faults(view) == []
