"""The startup of a model is folded in a view at rest, and times stay true over it (W8, W35, W36)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.browser.built_view import open_view, wait_for_picture
from tests.browser.lab import find_axe_faults, photograph
from tests.browser.scenes import show_saved
from tests.support.event_builder import EventBuilder

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_BARS: Final = "() => document.querySelector('.et-canvas').listBars().filter((bar) => bar.shape === 'llm')"


def first_run(*, startup_s: float = 8.0) -> ExecutionTrace:
    """Two tasks of an agent and one of a handler, before which a model is made ready."""
    plan = {"research": (), "write": ["research"], "check": ["write"]}
    build = EventBuilder(plan, agents={"research": "Researcher", "write": "Writer", "check": "Handler"})
    with build.task("research"):
        with build.startup("Starting SmolLM2-135M-Instruct"):
            build.wait(startup_s)
        with build.turn():
            build.llm(seconds=0.6)
    with build.task("write"), build.turn():
        build.llm(seconds=0.9)
    with build.task("check", output="Good."):
        build.wait(0.3)
    return ExecutionTrace.from_events(build.finish())


def show(page: Page, address: str, *, width: int = 1400, theme: str = "light") -> Locator:
    open_view(page, address, f"theme={theme}&at=0", width=width, height=700)
    return show_saved(page, first_run())


def fold_of(view: Locator) -> Locator:
    return view.get_by_role("button", name="startup 8.0 s")


def calls(page: Page) -> list[dict[str, Any]]:
    """The bars of model calls in the picture by now."""
    wait_for_picture(page)
    found: list[dict[str, Any]] = page.evaluate(_BARS)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 480])
def test_w8_a_startup_is_folded_at_rest_and_pressed_it_unfolds(
    page: Page, address: str, width: int, theme: str
) -> None:
    view = show(page, address, width=width, theme=theme)
    expect(fold_of(view)).to_be_visible()
    folded = sum(bar["w"] for bar in calls(page))
    photograph(f"startup-folded-{theme}-{width}", view)
    assert not find_axe_faults(view)
    words = fold_of(view).evaluate("(part) => part.scrollWidth - part.clientWidth")
    assert words <= 0
    fold_of(view).press("Enter")
    expect(fold_of(view)).to_have_count(0)
    whole = sum(bar["w"] for bar in calls(page))
    assert folded > 2 * whole
    view.locator(".et-gutter").press("0")
    expect(fold_of(view)).to_be_visible()
    assert sum(bar["w"] for bar in calls(page)) == pytest.approx(folded)


def test_w8_zooming_in_unfolds_at_the_same_scale(page: Page, address: str) -> None:
    view = show(page, address)
    expect(fold_of(view)).to_be_visible()
    _, before = calls(page)
    view.locator(".et-gutter").press("+")
    expect(fold_of(view)).to_have_count(0)
    _, after = calls(page)  # the one that is in sight as a whole
    assert after["w"] / before["w"] == pytest.approx(1 / 0.7, rel=0.01)


def test_w35_the_playhead_tells_the_time_inside_a_fold(page: Page, address: str) -> None:
    view = show(page, address)
    expect(fold_of(view)).to_be_visible()
    view.get_by_role("button", name="Playhead", exact=True).click()
    handle = view.get_by_role("slider", name="Playhead")
    handle.press("Home")
    handle.press("ArrowRight")
    expect(handle).to_have_attribute("aria-valuenow", "615")  # 8 of the 104 pixels of 8 s
    fold = fold_of(view).bounding_box()
    assert fold is not None
    page.mouse.click(fold["x"] + fold["width"] / 2, fold["y"] + fold["height"] / 2)
    expect(handle).to_have_attribute("aria-valuenow", "4000")


def test_w36_the_map_over_the_chart_is_no_part_of_the_fold(page: Page, address: str) -> None:
    view = show(page, address)
    expect(fold_of(view)).to_be_visible()
    view.locator(".et-gutter").press("+")
    part = view.get_by_role("slider", name="Time on screen")
    expect(part).to_have_attribute("aria-valuetext", "8.1 s to 9.5 s of 9.8 s")
    view.locator(".et-gutter").press("0")
    expect(fold_of(view)).to_be_visible()
    expect(part).to_have_count(0)


def test_w8_a_range_lies_where_it_was_marked_over_a_fold(page: Page, address: str) -> None:
    view = show(page, address)
    expect(fold_of(view)).to_be_visible()
    canvas = view.locator(".et-canvas").bounding_box()
    assert canvas is not None
    page.keyboard.down("Shift")
    page.mouse.move(canvas["x"] + 52, canvas["y"] + 60)
    page.mouse.down()
    page.mouse.move(canvas["x"] + 500, canvas["y"] + 60, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    marked = view.locator(".et-range i")
    box = marked.bounding_box()
    assert box is not None
    assert [box["x"] - canvas["x"], box["width"]] == pytest.approx([52, 448], abs=3)
    expect(view.get_by_role("slider", name="Start of the range")).to_have_attribute("aria-valuetext", "4.0 s")
    photograph("startup-folded-range", view)
