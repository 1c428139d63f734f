"""The messages of a run as one log, in a notebook and in a saved view (W120 to W122)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view
from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import find_axe_faults, photograph
from tests.browser.scenes import HIER, HIER_TEAM, PACE, run_report, show_saved

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

IS_WHOLE: Final = "panel => panel.scrollWidth <= panel.clientWidth + 1"
HIGHLIGHTED: Final = "() => CSS.highlights.get('et-found-words')?.size ?? 0"


def open_messages(view: Locator, row: str, of: str) -> Locator:
    """The log of the run, from the drawer of a row."""
    view.locator(".et-row", has_text=row).first.click()
    view.page.keyboard.press("Enter")
    view.get_by_role("tab", name="Messages").click()
    view.get_by_role("radio", name=of).click()
    return view.locator(".et-log")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 480])
def test_w120_a_saved_run_is_read_as_one_log(page: Page, address: str, width: int, theme: str) -> None:
    open_view(page, address, f"at=0&theme={theme}", width=width, height=1000)
    view = show_saved(page, run_report())
    log = open_messages(view, "prices", "Whole run")
    # The task that is selected is marked and in sight.
    expect(log.locator("[data-selected=true]")).to_be_in_viewport()
    assert view.locator(".et-panel").evaluate(IS_WHOLE)
    page.keyboard.press("Tab")
    view.get_by_label("Find in these messages").fill("acme")
    expect(view.locator(".et-log-hits")).to_contain_text("1 of")
    assert page.evaluate(HIGHLIGHTED) > 0
    page.keyboard.press("Enter")
    expect(view.locator(".et-log-hits")).to_contain_text("2 of")
    expect(log.locator("[data-found=true]")).to_be_in_viewport()
    assert find_axe_faults(view) == []
    photograph(f"log-{theme}-{width}", view)
    # A name leads to the span; the log stays.
    name = log.locator(".et-said-line[data-role=assistant] button").last
    name.click()
    expect(log.locator("[data-selected=true]")).to_be_in_viewport()
    expect(view.get_by_role("radio", name="Whole run")).to_have_attribute("aria-checked", "true")
    view.get_by_role("radio", name="Whole run").press("ArrowRight")
    expect(view.get_by_role("radio").first).to_have_attribute("aria-checked", "true")
    expect(view.locator(".et-window[data-whole=true]")).to_contain_text("tokens")
    assert find_axe_faults(view) == []
    photograph(f"window-{theme}-{width}", view)


def test_w120_a_log_comes_from_the_kernel(open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, HIER_TEAM.replace(PACE, "PACE = 0.05"), HIER)
    notebook.run_to_end(0, 1, 2)
    view = notebook.timeline(2)
    log = open_messages(view, "", "Whole run")
    expect(log.locator(".et-said-line").first).to_be_visible()
    expect(log).not_to_contain_text("Loading")
    photograph("log-live", view)


@pytest.mark.parametrize("width, theme", [(1400, "light"), (480, "dark")])
def test_w122_two_spans_stand_side_by_side(page: Page, address: str, width: int, theme: str) -> None:
    open_view(page, address, f"at=0&theme={theme}", width=width, height=1000)
    view = show_saved(page, run_report())
    view.locator(".et-row", has_text="market").first.click()
    page.keyboard.press("Enter")
    view.locator(".et-row", has_text="prices").first.click(modifiers=["Control"])
    view.get_by_role("tab", name="Side by side").click()
    first, second = view.get_by_role("group", name="Prompt of").all()
    assert (first.locator("del").count(), second.locator("ins").count()) > (0, 0)
    assert view.locator(".et-panel").evaluate(IS_WHOLE)
    one, other = first.bounding_box(), second.bounding_box()
    assert one is not None
    assert other is not None
    assert (one["x"] < other["x"]) == (width > 600)
    assert find_axe_faults(view) == []
    photograph(f"side-by-side-{theme}-{width}", view)
