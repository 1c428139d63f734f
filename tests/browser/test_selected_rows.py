"""Rows of a map that are selected run again, are labelled and judged in JupyterLab (W157, W161 to W163)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.lab import find_axe_faults, photograph
from tests.browser.tables import show_table

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import Opener

SET_UP = """
from ensemble_notebook import Fail, Reply, ScriptedChatModel

rows = [{"city": name} for name in ("Rome", "Oslo", "Lima", "Bern")]
sea = Reply("It lies by the sea.", delay=0.1)
slow = ScriptedChatModel.match({"Lima": Fail(ValueError("no such city"))}, default=sea)
quick = ScriptedChatModel(default=Reply("It lies in the hills <img src=x onerror='window.hacked=1'>.", delay=0.2))
"""
JUDGE = """%%ensemble --define -o polite
llm: verdicts
tasks:
  judge: {description: "Is it polite? {output}", output_type: {polite: bool}}
"""
VERDICTS = """verdicts = ScriptedChatModel.match({"hills": '{"polite": false}'}, default='{"polite": true}')"""
MAP = """%%ensemble -o answers --map rows
llm: slow
tasks:
  write: {description: "Write about {city}"}
"""
PRINT = "print(answers_fork.frame.raw.tolist(), answers.frame['mark'].tolist(), answers.frame['polite'].tolist())"


def select_rows(table: Locator, first: int, last: int) -> None:
    """Select rows by keys."""
    table.focus()
    table.press("Home")
    for _ in range(first):
        table.press("ArrowDown")
    for _ in range(last - first):
        table.press("Shift+ArrowDown")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_selected_rows_run_again_are_labelled_and_judged_w157(open_in_window: Opener, theme: str) -> None:
    notebook = open_in_window(LOAD, SET_UP, VERDICTS, JUDGE, MAP, PRINT, theme=theme)
    notebook.run_to_end(0, 1, 2, 3, 4)
    view = notebook.timeline(4).first
    table, acts = show_table(view).first, view.locator(".et-row-acts").first  # forks have some, too
    select_rows(table, 1, 2)
    expect(acts).to_contain_text("2 cells in 2 rows selected")
    photograph(f"row-actions-{theme}", view)

    acts.get_by_role("button", name="Run again with…").press("Enter")
    acts.get_by_role("combobox", name="Model: as it was").fill("quick")
    photograph(f"row-actions-again-{theme}", view)
    acts.get_by_role("button", name="Run 2 again").press("Enter")
    expect(acts.locator("[data-state]")).to_have_text("2 rows ran again: 2 completed. In the notebook: answers_fork")
    expect(view.get_by_role("region", name="Fork 1")).to_contain_text("another model")
    photograph(f"row-actions-ran-{theme}", view)

    select_rows(table, 0, 1)
    acts.get_by_role("button", name="Label…").press("Enter")
    acts.get_by_role("textbox", name="Note").fill("both the same")
    photograph(f"row-actions-label-{theme}", view)
    acts.get_by_role("button", name="Bad").press("Enter")
    expect(acts.locator("[data-state]")).to_contain_text("2 rows labelled 'bad'.")

    acts.get_by_role("button", name="Send to a judge…").press("Enter")
    acts.get_by_role("combobox", name="judge").wait_for()
    photograph(f"row-actions-judge-{theme}", view)
    acts.get_by_role("button", name="Send 2").press("Enter")
    expect(acts.locator("[data-state]")).to_have_text("polite: 2 of 2 passed. In the notebook: answers")
    assert find_axe_faults(acts) == []
    notebook.page.set_viewport_size({"width": 860, "height": 1200})
    acts.get_by_role("button", name="Run again with…").press("Enter")
    acts.get_by_role("button", name="Run 2 again").wait_for()
    photograph(f"row-actions-480-{theme}", view)
    notebook.page.set_viewport_size({"width": 1400, "height": 1200})
    acts.get_by_role("combobox", name="Model: as it was").press("Escape")
    expect(acts.get_by_role("combobox")).to_have_count(0)

    notebook.run_to_end(5)
    printed = notebook.outputs(5).inner_text()
    assert "['It lies by the sea.', \"It lies in the hills" in printed
    assert "[False, False, <NA>, <NA>] [True, True, <NA>, <NA>]" in printed
    assert notebook.page.evaluate("() => window.hacked") is None
