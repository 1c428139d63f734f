"""Moving in the view with real wheel, mouse, fingers and keys, and its sizes (W8, W10, W11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view, wait_for_picture
from tests.browser.lab import photograph, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

OVER = "at=15000"
CROWD = "crowd=100x100"  # 100 tasks of 100 calls
# How many pixels of the picture have a hue of the data, in a part of it given in shares of its width and height.
COUNT_PIXELS = """(canvas, [left, right]) => {
    const {width, height} = canvas;
    const top = Math.round(30 * devicePixelRatio);
    const [from, across] = [Math.round(left * width), Math.round((right - left) * width)];
    const {data} = canvas.getContext("2d").getImageData(from, top, across, height - top);
    let found = 0;
    for (let k = 0; k < data.length; k += 4) {
        if (Math.max(data[k], data[k + 1], data[k + 2]) - Math.min(data[k], data[k + 1], data[k + 2]) > 60) found += 1;
    }
    return found;
}"""
# What can be pressed, its size where that is too small for a finger.
SMALL_TARGETS = """root => [...root.querySelectorAll("button, input, select, [tabindex='0']")]
    .filter(one => one.offsetParent !== null && one.getClientRects().length)
    .map(one => [one.className || one.tagName, one.getBoundingClientRect()])
    .filter(([name, box]) => !name.includes("et-splitter") && box.width > 0 && (box.width < 21.5 || box.height < 23.5))
    .map(([name, box]) => `${name} ${box.width} x ${box.height}`)"""
OVERFLOWING = """root => [...root.querySelectorAll(":is(.et-status, .et-toolbar, .et-gutter, .et-corner) *")]
    .filter(one => !one.matches(".et-hidden, input"))
    .filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0)
    .filter(one => getComputedStyle(one).overflowX !== "visible" && getComputedStyle(one).textOverflow !== "ellipsis")
    .map(one => one.className)"""


def pixels(timeline: Locator, left: float = 0, right: float = 1) -> int:
    found: int = timeline.locator(".et-canvas").evaluate(COUNT_PIXELS, [left, right])
    return found


def middle(part: Locator, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
    box = part.bounding_box()
    assert box is not None
    return box["x"] + box["width"] * across, box["y"] + box["height"] * down


def drag(page: Page, start: tuple[float, float], by: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + by[0], start[1] + by[1], steps=4)
    page.mouse.up()
    wait_for_picture(page)


def test_w8_a_plain_wheel_scrolls_the_page_and_zoom_and_pan_stay_on_the_run(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER, height=320)
    canvas = timeline.locator(".et-canvas")
    whole = pixels(timeline)
    page.mouse.move(*middle(canvas, 0.5, 0.3))
    page.mouse.wheel(0, 120)
    wait_for(lambda: page.evaluate("scrollY") > 50, 30)
    wait_for(lambda: pixels(timeline) == whole, 30)

    timeline.scroll_into_view_if_needed()
    page.mouse.move(*middle(canvas, 0.5, 0.3))
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    wait_for_picture(page)
    wait_for(lambda: pixels(timeline) != whole, 30)
    for direction in (-1, 1):
        for _ in range(12):
            drag(page, middle(canvas, 0.5, 0.3), (direction * 300, 0))
        wait_for(lambda: pixels(timeline) > 500, 30)
    page.keyboard.press("0")
    wait_for_picture(page)
    for _ in range(20):
        page.keyboard.press("s")
    wait_for_picture(page)
    wait_for(lambda: pixels(timeline) == pytest.approx(whole, rel=0.02), 30)


def test_w8_a_hint_leads_to_the_bars_and_walking_brings_spans_into_sight(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER)
    timeline.get_by_text("verify claims", exact=True).click()
    page.keyboard.press("Escape")
    for key in "fww":
        page.keyboard.press(key)
    drag(page, middle(timeline.get_by_label("Height of the chart")), (0, -600))
    drag(page, middle(timeline.get_by_label("Height of the chart")), (0, 94))  # room for the bars of a few rows
    bar = timeline.locator(".et-scrollbar")
    bar.evaluate("bar => { bar.scrollTop = 0; }")
    hint = timeline.locator(".et-sight")
    hint.wait_for()
    expect(hint).to_have_attribute("data-side", "left")
    photograph("hint-light", timeline)
    hint.click()
    wait_for(lambda: hint.count() == 0, 30)
    wait_for(lambda: pixels(timeline) > 200, 30)

    # From the first span in time to the last one, and back: each of them is in sight.
    for _ in range(6):
        page.keyboard.press("w")
    for key in [*("." for _ in range(14)), *("," for _ in range(14))]:
        page.keyboard.press(key)
        wait_for_picture(page)
        expect(hint).to_have_count(0)
        wait_for(lambda: pixels(timeline) > 30, 30)


def test_w8_shift_with_a_drag_marks_a_range_and_a_double_click_fits_a_span(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER)
    canvas = timeline.locator(".et-canvas")
    page.keyboard.down("Shift")
    drag(page, middle(canvas, 0.2, 0.5), (150, 10))
    page.keyboard.up("Shift")
    marked = timeline.locator(".et-range i")
    wait_for(lambda: 100 < (marked.bounding_box() or {"width": 0})["width"] < 200, 30)
    photograph("range-light", timeline)
    page.keyboard.press("Escape")
    expect(marked).to_have_count(0, timeout=30_000)
    wait_for_picture(page)
    page.mouse.dblclick(*middle(canvas, 0.05, 0.15))  # the first model call
    wait_for_picture(page)
    wait_for(lambda: pixels(timeline, 0.3, 0.7) > 3000, 30)


def test_w8_two_fingers_zoom_and_one_tap_selects(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 480, "height": 800}, has_touch=True)
    page = context.new_page()
    timeline = open_view(page, address, OVER, width=480)
    canvas = timeline.locator(".et-canvas")
    x, y = middle(canvas, 0.1, 0.3)
    before = pixels(timeline, 0.5)
    session = context.new_cdp_session(page)

    def touch(kind: str, *places: float) -> None:
        points: list[dict[str, Any]] = [{"x": place, "y": y, "id": number} for number, place in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x - 16, x + 16)
    for apart in range(22, 100, 6):
        touch("touchMove", x - apart, x + apart)
    touch("touchEnd")
    wait_for_picture(page)
    wait_for(lambda: pixels(timeline, 0.5) < before * 0.7, 30)  # only what the first seconds had is there now
    page.touchscreen.tap(*middle(timeline.get_by_text("plan", exact=True)))
    timeline.locator(".et-drawer").wait_for()
    context.close()


def test_w11_edges_can_be_dragged_and_moved_by_keys_and_are_remembered(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER)
    names, chart = timeline.locator(".et-gutter"), timeline.locator(".et-chart")
    width, height = names.evaluate("one => one.offsetWidth"), chart.evaluate("one => one.offsetHeight")
    drag(page, middle(timeline.get_by_label("Width of the names"), 0.5, 0.6), (70, 0))
    wait_for(lambda: names.evaluate("one => one.offsetWidth") == pytest.approx(width + 70, abs=2), 30)
    drag(page, middle(timeline.get_by_label("Height of the chart")), (0, -80))
    wait_for(lambda: chart.evaluate("one => one.offsetHeight") == pytest.approx(height - 80, abs=2), 30)
    drag(page, middle(timeline.get_by_label("Height of the chart")), (0, 900))
    wait_for(lambda: chart.evaluate("one => one.offsetHeight") == 500, 30)
    timeline = open_view(page, address, OVER)
    wait_for(lambda: names.evaluate("one => one.offsetWidth") == pytest.approx(width + 70, abs=2), 30)
    edge = timeline.get_by_label("Width of the names")
    edge.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    wait_for(lambda: names.evaluate("one => one.offsetWidth") == pytest.approx(width + 38, abs=2), 30)
    expect(edge).to_have_attribute("aria-valuenow", str(width + 38))
    edge.dblclick()
    wait_for(lambda: names.evaluate("one => one.offsetWidth") == width, 30)


def test_w10_the_table_holds_thousands_of_rows_sorts_and_keeps_the_selection(page: Page, address: str) -> None:
    timeline = open_view(page, address, CROWD)
    timeline.locator(".et-row").nth(3).click()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    table = timeline.get_by_role("grid", name="Spans of the run")
    table.wait_for()
    wait_for(lambda: int(table.get_attribute("aria-rowcount") or 0) > 10_000, 30)
    assert table.get_by_role("row").count() < 40
    wait_for(lambda: bool(table.evaluate("one => one === document.activeElement")), 30)
    expect(timeline.locator(".et-grid-row[aria-selected=true]")).to_have_count(1)
    page.keyboard.press("End")
    wait_for_picture(page)
    selected = timeline.locator(".et-grid-row[aria-selected=true]")
    wait_for(
        lambda: int(selected.get_attribute("aria-rowindex") or 0) == int(table.get_attribute("aria-rowcount") or 0), 30
    )
    heading = table.get_by_role("columnheader", name="Duration")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    name = selected.locator("[data-column=name]").inner_text()
    page.mouse.move(*middle(table, 0.5, 0.5))
    page.mouse.wheel(0, 300)  # the page's
    wait_for_picture(page)
    assert selected.locator("[data-column=name]").inner_text() == name
    photograph("table-light", timeline)
    timeline.locator(".et-status").click(position={"x": 5, "y": 5})
    page.keyboard.press("t")
    wait_for(lambda: table.count() == 0, 30)
    expect(timeline.locator(".et-row[aria-selected=true]")).to_have_count(1)


@pytest.mark.parametrize("width", [320, 480, 640, 900, 1400])
def test_w11_nothing_is_cut_or_too_small_to_press_at_any_width(page: Page, address: str, width: int) -> None:
    for query in (OVER, "at=6900", "scene=gates&at=28000"):
        timeline = open_view(page, address, query, width=width)
        timeline.get_by_label("Search the run").fill("web")
        expect(timeline.locator(".et-found")).to_contain_text(" of ")
        page.keyboard.press("Enter")
        expect(timeline.locator(".et-found")).to_contain_text("1/")
        expect(timeline.get_by_label("Filters")).to_be_visible()
        for panel in ("View", "More"):
            timeline.get_by_role("button", name=panel, exact=True).click()
            expect(timeline.get_by_role("region", name=panel, exact=True)).to_be_visible()
            wait_until_it_fits(timeline)
        wait_until_it_fits(timeline)
        wait_for(lambda: page.evaluate("document.documentElement.scrollWidth") <= width, 30)


def wait_until_it_fits(timeline: Locator) -> None:
    """Wait until nothing is cut, or too small for a finger."""
    for find in (SMALL_TARGETS, OVERFLOWING):
        wait_for(lambda find=find: timeline.evaluate(find) == [], 30, lambda find=find: str(timeline.evaluate(find)))  # type: ignore[misc]


def test_w10_forced_colours_and_zoomed_pages_stay_legible(browser: Browser, address: str) -> None:
    context = browser.new_context(
        viewport={"width": 640, "height": 360}, device_scale_factor=2, forced_colors="active", reduced_motion="reduce"
    )
    page = context.new_page()
    timeline = open_view(page, address, "at=6900", width=640, height=360)
    wait_for(lambda: timeline.evaluate("root => root.getAnimations({subtree: true}).length") == 0, 30)
    page.keyboard.press("Tab")
    photograph("forced-colours-zoomed", page)
    assert timeline.locator(".et-toolbar").is_visible()
    context.close()
