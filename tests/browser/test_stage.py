"""The graph as a stage: it can be read, tells of trouble, and shows a run that goes on as it goes on (W145, W146)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view
from tests.browser.lab import find_axe_faults, photograph, wait_for
from tests.browser.scenes import run_report, show_saved
from tests.browser.test_graph import measure, node, open_graph

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SMALLEST = """pane => {
    const walk = document.createTreeWalker(pane, NodeFilter.SHOW_TEXT);
    let smallest = Infinity;
    for (let text = walk.nextNode(); text; text = walk.nextNode()) {
        const part = text.parentElement;
        const { width, height } = part.getBoundingClientRect();
        if (!text.data.trim() || !width || !height || part.closest(".et-hidden")) continue;
        const sheet = part.closest(".et-graph-sheet");
        const scale = sheet ? sheet.getBoundingClientRect().width / sheet.offsetWidth : 1;
        smallest = Math.min(smallest, parseFloat(getComputedStyle(part).fontSize) * scale);
    }
    return smallest;
}"""
CUT = """heads => heads.filter((head) => [...head.children].some((part) => part.scrollWidth > part.clientWidth + 1
    && !part.matches('.et-hidden'))).map((head) => head.textContent)"""


def show_report(page: Page, address: str, width: int, theme: str = "light") -> Locator:
    open_view(page, address, f"at=0&theme={theme}", width=width)
    view = show_saved(page, run_report())
    open_graph(view)
    return view


@pytest.mark.parametrize("width", [480, 1400])
def test_letters_are_never_too_small_and_what_does_not_fit_is_scrolled_w145(
    page: Page, address: str, width: int
) -> None:
    view = show_report(page, address, width)
    shape = view.locator(".et-shape-graph")
    assert shape.evaluate(SMALLEST) > 10.99
    assert view.locator(".et-node[data-look=box] > .et-node-head").evaluate_all(CUT) == []
    scroll = view.locator(".et-graph-scroll[data-axis=x]")
    expect(scroll).to_have_count(int(width < 1400))
    draft = node(view, "draft")
    before = measure(draft)
    if width < 1400:
        scroll.evaluate("each => { each.scrollLeft = 90; }")
        wait_for(lambda: abs(measure(draft)[0] - before[0] + 90) < 1.5, 30)
        pane = view.locator(".et-graph")
        was_kept = """(pane, wheel) => pane.dispatchEvent(new WheelEvent(
            'wheel', { ...wheel, bubbles: true, cancelable: true }))"""
        assert pane.evaluate(was_kept, {"deltaY": 40})
        assert not pane.evaluate(was_kept, {"deltaX": 40})
        wait_for(lambda: abs(measure(draft)[0] - before[0] + 130) < 1.5, 30)
    page.keyboard.press("0")
    page.keyboard.press("0")
    expect(scroll).to_have_count(0)
    wait_for(lambda: shape.evaluate(SMALLEST) > 10.99, 30)
    photograph(f"stage-whole-{width}", view)
    for _ in range(8):
        page.keyboard.press("-")
    wait_for(lambda: shape.evaluate(SMALLEST) > 10.99, 30)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nodes_tell_of_trouble_as_rows_do_w146(page: Page, address: str, theme: str) -> None:
    view = show_report(page, address, 1200, theme)
    prices = node(view, "prices")
    expect(prices.locator(".et-agent")).to_have_text("Re")
    expect(prices).to_have_text("prices, done, 1 error inside, 1ReResearcher3.9 s · 228 tok · $0.00078scripted")
    expect(prices.locator(".et-node-marks [data-hue=error]")).to_have_text("1")
    page.keyboard.press("c")
    expect(prices).to_have_attribute("data-dimmed", "true")
    for title in ("research", "competitors", "draft"):
        expect(node(view, title)).to_have_attribute("data-dimmed", "false")
    expect(view.locator(".et-graph-line[data-dimmed=true]")).not_to_have_count(0)
    assert find_axe_faults(view) == []
    photograph(f"stage-critical-{theme}", view)
