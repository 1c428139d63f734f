"""Small things that a view has to get right at rest: what is where on the screen (W2, W3, W6, W10)."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from ensemble_notebook.notebook.picture.static_picture import make_last_bundle
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.built_view import open_view
from tests.browser.lab import photograph, wait_for
from tests.browser.scenes import run_hier, run_report, show_saved

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from ensemble_notebook.trace.execution_trace import ExecutionTrace

# How many pixels of the chart are red.
_COUNT_RED: Final = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let red = 0;
  for (let k = 0; k < data.length; k += 4) {
    if (data[k + 3] > 200 && data[k] > 150 && data[k + 1] < 80 && data[k + 2] < 80) red += 1;
  }
  return red;
}"""


def show(page: Page, address: str, *, width: int = 900) -> Locator:
    open_view(page, address, "at=0", width=width, height=900)
    return show_saved(page, run_report())


def edge_of(part: Locator, side: str) -> float:
    return float(part.evaluate("(part, side) => part.getBoundingClientRect()[side]", side))


def test_w6_the_chip_of_errors_leads_to_the_error_whatever_tab_was_read_last(page: Page, address: str) -> None:
    view = show(page, address)
    view.locator(".et-row", has_text="draft").first.click()
    view.get_by_role("tab", name="Raw").click()
    view.locator(".et-chip[data-hue=error]").click()
    expect(view.get_by_role("tab", name="Summary")).to_have_attribute("aria-selected", "true")
    expect(view.locator(".et-panel")).to_contain_text("the ledger is closed: Acme")


def test_w10_what_failed_stays_red_in_forced_colours(page: Page, address: str) -> None:
    page.emulate_media(forced_colors="active")
    view = show(page, address)
    wait_for(lambda: view.locator(".et-canvas").evaluate(_COUNT_RED) > 10, 30)
    photograph("forced-colours", view)


@pytest.mark.parametrize("width", [900, 480])
def test_w9_a_tooltip_lies_over_no_search_and_no_help(page: Page, address: str, width: int) -> None:
    view = show(page, address, width=width)
    view.get_by_label("Search the run").fill("tool:look_up")
    expect(view.locator(".et-found")).to_contain_text("1 of")
    page.keyboard.press("Enter")
    tip, toolbar = view.locator(".et-tooltip"), view.locator(".et-toolbar")
    tip.wait_for()
    wait_for(lambda: edge_of(tip, "top") >= edge_of(toolbar, "bottom"), 30)
    view.locator(".et-gutter").press("?")
    expect(view.locator(".et-keys")).to_be_visible()
    expect(view.locator(".et-tooltip")).to_have_count(0)


@pytest.mark.parametrize("run", [run_report, run_hier])
def test_w14_a_static_picture_has_all_but_its_numbers_in_sight_in_a_narrow_window(
    page: Page, run: Callable[[], ExecutionTrace]
) -> None:
    html = make_last_bundle(TimelineMessages(copy(run()._fold)))["text/html"]
    page.set_viewport_size({"width": 480, "height": 700})
    page.set_content(f"<body style='margin:8px;font:13px sans-serif'>{html}</body>")

    def find_ends(parts: str) -> list[float]:
        found: list[float] = page.locator(parts).evaluate_all(
            "(all) => all.map((part) => part.getBoundingClientRect().right)"
        )
        return found

    agents, bars, notes = find_ends("td:first-child small"), find_ends("td:nth-child(2)"), find_ends("td[colspan]")
    assert min(len(agents), len(bars), len(notes)) >= 2
    assert max(*agents, *bars, *notes) <= 480
