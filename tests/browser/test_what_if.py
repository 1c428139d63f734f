"""A run under other conditions, asked and drawn in its view (W138, W139)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.lab import find_axe_faults, photograph

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import Opener

SET_UP: Final = """
import time

def slow(task):
    time.sleep(0.4 if task.name == "facts" else 0.2)
    return "done"
"""
CELL: Final = """%%ensemble -o report
max_concurrency: 1
tasks:
  draft: {description: Write draft, handler: slow}
  facts: {description: Write facts, handler: slow}
  figures: {description: Write figures, handler: slow}
  final: {description: Write it all, handler: slow, context: [draft, facts, figures]}
"""


def open_what_if(view: Locator) -> Locator:
    view.get_by_role("button", name="More").click()
    view.get_by_role("button", name="Other conditions").press("Enter")
    strip = view.get_by_role("region", name="What if")
    strip.wait_for()
    return strip


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_other_conditions_are_drawn_over_the_bars_and_told_in_words_w138(open_in_window: Opener, theme: str) -> None:
    notebook = open_in_window(LOAD, SET_UP, CELL, theme=theme)
    notebook.run_to_end(0, 1, 2)
    notebook.page.set_default_timeout(6000)
    view = notebook.timeline(2).first
    strip = open_what_if(view)
    expect(strip.get_by_label("at once")).to_be_focused()
    expect(strip.get_by_label("models")).to_have_count(0)  # there were none
    strip.get_by_label("at once").fill("8")
    strip.get_by_label("at once").press("Enter")
    said = strip.get_by_role("status")
    expect(said).to_contain_text("less")
    expect(said).to_contain_text("Longest chain: facts → final")
    bars = view.locator(".et-foretold i")
    expect(bars).to_have_count(4)
    assert bars.evaluate_all("all => all.filter(each => each.dataset.critical === 'true').length") == 2
    photograph(f"what-if-{theme}", notebook.page, after_s=1)
    assert find_axe_faults(view) == []
    strip.get_by_role("combobox", name="task", exact=True).select_option("facts")
    expect(said).to_contain_text("final")
    strip.get_by_role("combobox", name="How fast the task is").select_option("10")
    expect(said).not_to_contain_text("facts")
    before = bars.last.bounding_box()
    view.get_by_role("button", name="More").click()
    view.get_by_role("button", name="Zoom in").click()
    expect(bars.last).not_to_have_attribute("style", "")
    assert bars.last.bounding_box() != before  # they stand on the axis of the chart
    strip.get_by_label("at once").fill("0")
    strip.get_by_label("at once").press("Enter")
    expect(said).to_contain_text("whole number from 1")
    notebook.page.evaluate("jupyterapp.shell.collapseLeft()")
    notebook.page.set_viewport_size({"width": 480, "height": 1400})
    strip.get_by_label("at once").fill("2")
    strip.get_by_label("at once").press("Enter")
    expect(said).to_contain_text("instead of")
    photograph(f"what-if-narrow-{theme}", notebook.page, after_s=1)
    strip.get_by_role("button", name="As it was").click()
    expect(bars).to_have_count(0)
    strip.get_by_role("button", name="Close what if").click()
    expect(strip).to_have_count(0)


def test_without_a_kernel_a_line_says_what_would_bring_other_conditions_w139(open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, SET_UP, CELL)
    notebook.run_to_end(0, 1, 2)
    notebook.page.set_default_timeout(6000)
    view = notebook.timeline(2).first
    strip = open_what_if(view)
    notebook.shut_down()
    expect(strip).to_have_count(0)
    view.get_by_role("button", name="More").click()
    expect(view.get_by_text("to see how long it would have taken otherwise.")).to_be_visible()
    expect(view.get_by_role("button", name="Other conditions")).to_have_count(0)
