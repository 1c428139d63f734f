"""The whole run above the chart, rows by what they have in common, and rows that stay on top (W36)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view, read_texts, wait_for_picture, watch_canvas
from tests.browser.lab import find_axe_faults, photograph, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

_OVER = "at=99999"
_CROWD = "crowd=60x20"
# Where the bars of a span stand in the chart, in pixels from its upper left corner.
_BARS_OF = """(canvas, span) => canvas.listBars().filter((bar) => bar.span === span)"""
# True once there are columns in it.
_IS_DRAWN = """() => {
  const path = document.querySelector(".et-minimap-work")?.getAttribute("d") ?? "";
  return path.split("V").length > 4;
}"""


def box_of(part: Locator) -> dict[str, float]:
    box = part.bounding_box()
    assert box is not None
    return dict(box)


def drag(page: Page, x: float, y: float, by: float) -> None:
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by, y, steps=5)
    page.mouse.up()
    wait_for_picture(page)


def value(slider: Locator) -> int:
    return int(slider.get_attribute("aria-valuenow") or -1)


def choose(view: Locator, name: str) -> None:
    """Group the rows by this."""
    if view.get_by_role("region", name="View").count() == 0:
        view.get_by_role("button", name="View", exact=True).click()
    view.get_by_role("group", name="Rows by").get_by_role("button", name=name, exact=True).click()
    expect(view.get_by_role("group", name="Rows by").get_by_role("button", name=name, exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    wait_for_picture(view.page)


def titles(view: Locator) -> list[str]:
    return view.locator(".et-row .et-title").all_inner_texts()


def read_first_label(page: Page) -> float:
    """The first time on the axis, in milliseconds; before all where there is none yet."""
    labels = [text.split() for text in read_texts(page) if re.fullmatch(r"[\d.]+ m?s", text)]
    return float(labels[0][0]) * (1 if labels[0][1] == "ms" else 1000) if labels else -1.0


def lies_over(over: dict[str, float], stage: dict[str, float]) -> bool:
    """Whether a strip of 24 pixels lies over all of a stage, and above it."""
    is_as_wide = (over["x"], over["width"]) == pytest.approx((stage["x"], stage["width"]), abs=1)
    is_above = over["y"] + over["height"] <= stage["y"] + 1.5
    return bool(is_as_wide and is_above and over["height"] == pytest.approx(24, abs=0.5))


@pytest.mark.parametrize("width, theme", [(1400, "light"), (480, "dark")])
def test_w36_the_whole_run_is_shown_once_there_is_more_than_fits_over_the_bars_and_gone_otherwise(
    page: Page, address: str, width: int, theme: str
) -> None:
    view = open_view(page, address, f"{_OVER}&theme={theme}", width=width)
    view.get_by_text("plan", exact=True).hover()
    expect(view.locator(".et-minimap")).to_have_count(0)
    view.locator(".et-gutter").press("w")
    minimap = view.locator(".et-minimap")
    expect(minimap).to_be_visible()
    page.wait_for_function(_IS_DRAWN)
    wait_for(lambda: lies_over(box_of(minimap), box_of(view.locator(".et-stage"))), 30)
    # What failed is red, where in the run it did: the last task, at its end.
    errors = view.locator(".et-minimap-errors")
    wait_for(lambda: errors.evaluate("path => path.getBBox().x") > box_of(minimap)["width"] * 0.2, 30)
    assert find_axe_faults(view) == []
    photograph(f"minimap-{width}-{theme}", view)
    view.locator(".et-gutter").press("0")
    expect(minimap).to_have_count(0)


def test_w36_its_window_is_dragged_by_its_middle_and_its_edges_and_goes_where_somebody_presses(
    page: Page, address: str
) -> None:
    view = open_view(page, address, _OVER, width=1000)
    for key in "www":
        view.locator(".et-gutter").press(key)
    slider = view.get_by_role("slider", name="Time on screen")
    slider.wait_for()
    whole = box_of(view.locator(".et-minimap"))
    y = whole["y"] + 12
    before, inside = value(slider), box_of(slider)
    drag(page, inside["x"] + inside["width"] / 2, y, 60)
    wait_for(lambda: box_of(slider)["x"] == pytest.approx(inside["x"] + 60, abs=2), 30)
    wait_for(lambda: value(slider) > before, 30)
    wait_for(lambda: box_of(slider)["width"] == pytest.approx(inside["width"], abs=1), 30)
    # Its right edge.
    moved = box_of(slider)
    drag(page, moved["x"] + moved["width"] - 1, y, -80)
    wait_for(lambda: box_of(slider)["width"] == pytest.approx(moved["width"] - 80, abs=3), 30)
    wait_for(lambda: box_of(slider)["x"] == pytest.approx(moved["x"], abs=2), 30)
    # A press beside it.
    page.mouse.click(whole["x"] + 40 + box_of(slider)["width"] / 2, y)
    wait_for(lambda: box_of(slider)["x"] == pytest.approx(whole["x"] + 40, abs=3), 30)
    # The chart shows that time: its axis has it.
    watch_canvas(page)
    slider.press("ArrowRight")
    start = value(slider)
    wait_for(lambda: read_first_label(page) >= start, 30)
    page.mouse.dblclick(whole["x"] + whole["width"] - 30, y)
    expect(view.locator(".et-minimap")).to_have_count(0)


def test_w36_keys_move_the_window_and_say_where_it_is(page: Page, address: str) -> None:
    view = open_view(page, address, _OVER, width=900)
    for key in "ww":
        view.locator(".et-gutter").press(key)
    slider = view.get_by_role("slider", name="Time on screen")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuenow", "0")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^0 ms to .+ of 15 s$"))
    page.keyboard.press("ArrowRight")
    wait_for(lambda: value(slider) > 0, 30)
    page.keyboard.press("End")
    wait_for(lambda: slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax"), 30)
    # No row was selected by these keys, and those of the chart still work.
    expect(view.locator(".et-row[aria-selected=true]")).to_have_count(0)
    page.keyboard.press("0")
    expect(slider).to_have_count(0)


def test_w36_with_more_rows_than_fit_it_is_there_and_a_drag_chooses_a_time(page: Page, address: str) -> None:
    view = open_view(page, address, _CROWD, width=1000, height=800)
    slider = view.get_by_role("slider", name="Time on screen")
    expect(slider).to_have_attribute("aria-valuetext", "the whole run, 2.0 s")
    whole = box_of(view.locator(".et-minimap"))
    drag(page, whole["x"] + whole["width"] * 0.3, whole["y"] + 10, whole["width"] * 0.2)
    wait_for(lambda: box_of(slider)["width"] == pytest.approx(whole["width"] * 0.2, abs=4), 30)
    wait_for(lambda: box_of(slider)["x"] == pytest.approx(whole["x"] + whole["width"] * 0.3, abs=4), 30)


def test_w36_a_finger_drags_the_window(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 480, "height": 800}, has_touch=True)
    page = context.new_page()
    view = open_view(page, address, _CROWD, width=480)
    for key in "www":
        view.locator(".et-gutter").press(key)
    slider = view.get_by_role("slider", name="Time on screen")
    slider.wait_for()
    wait_for_picture(page)
    inside = box_of(slider)
    session = context.new_cdp_session(page)

    def touch(kind: str, *places: float) -> None:
        points: list[dict[str, Any]] = [{"x": place, "y": inside["y"] + 12, "id": 1} for place in places]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    x = inside["x"] + inside["width"] / 2
    touch("touchStart", x)
    for step in range(1, 7):
        touch("touchMove", x + step * 8)
    touch("touchEnd")
    wait_for(lambda: box_of(slider)["x"] == pytest.approx(inside["x"] + 48, abs=3), 30)
    context.close()


def test_w36_rows_by_agent_say_who_idles_and_open_onto_tasks_and_all_else_works_there(page: Page, address: str) -> None:
    view = open_view(page, address, _OVER, width=1200, height=900)
    choose(view, "Agent")
    expect(view.locator(".et-row .et-title")).to_have_text(
        ["Research Manager", "Ana Lopez", "Bo", "Cy Young", "Handlers", "Dee"]
    )
    dee = view.locator(".et-row", has_text="Dee")
    expect(dee).to_contain_text(re.compile(r"s · \d+% idle"))
    expect(dee).to_contain_text(re.compile(r"1 task, .+ of work, idle for \d+% of the run"))
    watch_canvas(page)
    view.locator(".et-gutter").press("ArrowDown")
    wait_for(lambda: any("web_search" in text or "calls 3 tools" in text for text in read_texts(page)), 30)
    # The bar of a call is selected in the row of its agent, and its details open.
    canvas = view.locator(".et-canvas")
    bar = next(each for each in canvas.evaluate("canvas => canvas.listBars()") if each["shape"] == "tool")
    page.mouse.click(box_of(canvas)["x"] + bar["x"] + 20, box_of(canvas)["y"] + bar["y"] + 8)
    expect(view.locator(".et-drawer")).to_contain_text("web_search")
    expect(view.locator(".et-row[aria-selected=true]")).to_contain_text("Ana Lopez")
    page.keyboard.press("Escape")
    # Folded out by the keys of any row, and walked into.
    page.keyboard.press("ArrowDown")
    expect(view.locator(".et-row[aria-selected=true] .et-title")).to_have_text("Bo")
    page.keyboard.press("ArrowRight")
    expect(view.locator(".et-row[aria-selected=true]")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(view.locator(".et-row[aria-selected=true] .et-title")).to_have_text("read the code")
    assert find_axe_faults(view) == []
    photograph("rows-by-agent", view)
    # A search leaves the agents that something fits, open.
    view.get_by_label("Search the run").fill("lookup")
    expect(view.locator(".et-row .et-title")).to_have_text(["Dee", "verify claims"])
    view.get_by_label("Search the run").fill("")
    # The table is of the same selection, and the rows are those of the plan again when somebody asks for them.
    choose(view, "Phase and task")
    expect(view.locator(".et-row .et-title").first).to_have_text("research")
    expect(view.locator(".et-row[aria-selected=true] .et-title")).to_have_text("read the code")


@pytest.mark.parametrize("width, theme", [(1400, "dark"), (480, "light")])
def test_w36_rows_by_tool_and_status_have_what_the_run_has(page: Page, address: str, width: int, theme: str) -> None:
    view = open_view(page, address, f"{_OVER}&theme={theme}", width=width)
    choose(view, "Tool")
    expect(view.locator(".et-row .et-title")).to_have_text(["web_search", "fetch_page", "read_pdf", "lookup"])
    canvas = view.locator(".et-canvas")
    wait_for(lambda: {bar["shape"] for bar in canvas.evaluate("canvas => canvas.listBars()")} == {"tool"}, 30)
    photograph(f"rows-by-tool-{width}-{theme}", view)
    choose(view, "Status")
    expect(view.locator(".et-row .et-title")).to_have_text(["done", "failed", "skipped"])
    photograph(f"rows-by-status-{width}-{theme}", view)


def test_w36_live_rows_by_agent_stay_where_they_are_while_work_comes(page: Page, address: str) -> None:
    view = open_view(page, address, "at=1500", width=1000)
    choose(view, "Agent")
    view.get_by_role("button", name="View", exact=True).click()  # what it offers grows with the run
    expect(view.get_by_role("region", name="View")).to_have_count(0)
    names = titles(view)
    places = [box_of(row)["y"] for row in view.locator(".et-row").all()]
    bars = len(view.locator(".et-canvas").evaluate("canvas => canvas.listBars()"))
    page.evaluate("model.show(3200)")
    wait_for(lambda: len(view.locator(".et-canvas").evaluate("canvas => canvas.listBars()")) > bars, 30)
    assert titles(view) == names
    assert [box_of(row)["y"] for row in view.locator(".et-row").all()] == pytest.approx(places, abs=1)


def test_w36_a_pinned_row_stays_on_top_of_those_that_scroll_by_pointer_and_by_keys(page: Page, address: str) -> None:
    view = open_view(page, address, _CROWD, width=1000, height=800)
    row = view.locator(".et-row", has_text="task 5").first
    row.hover()
    row.get_by_role("button", name="Pin task 5").click()
    expect(view.locator(".et-row[data-pinned=true] .et-title")).to_have_text(["task 5"])
    # By keys: the button of the row that they are at is the next stop after the rows.
    gutter = view.locator(".et-gutter")
    gutter.focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(view.locator(".et-row[aria-selected=true] .et-pin")).to_be_focused()
    page.keyboard.press("Enter")
    expect(view.locator(".et-row[data-pinned=true]")).to_have_count(2)
    expect(gutter).to_be_focused()
    top = box_of(view.locator(".et-stage"))["y"] + 28
    page.keyboard.press("End")
    wait_for(lambda: view.locator(".et-scrollbar").evaluate("bar => bar.scrollTop") > 500, 30)
    expect(view.locator(".et-row[aria-selected=true] .et-title")).to_have_text("task 59")
    wait_for(lambda: box_of(view.locator(".et-row[data-pinned=true]").first)["y"] == pytest.approx(top, abs=1), 30)
    # Its bars are drawn there, too, and a press on them is one on this row.
    canvas = view.locator(".et-canvas")
    wait_for_picture(page)
    [bar] = canvas.evaluate(_BARS_OF, "t5.0")
    assert 28 <= bar["y"] < 56
    place = box_of(canvas)
    page.mouse.click(place["x"] + bar["x"] + bar["w"] / 2, place["y"] + bar["y"] + bar["h"] / 2)
    expect(view.locator(".et-row[aria-selected=true] .et-title")).to_have_text("task 5")
    wait_for(lambda: view.locator(".et-scrollbar").evaluate("bar => bar.scrollTop") > 500, 30)
    page.keyboard.press("Escape")
    assert find_axe_faults(view) == []
    photograph("pinned", view)
    view.get_by_role("button", name="View", exact=True).click()
    view.get_by_role("button", name="Unpin all").click()
    expect(view.locator(".et-row[data-pinned=true]")).to_have_count(0)
