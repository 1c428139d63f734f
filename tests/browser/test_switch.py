"""The switch of views in the head of a timeline (W140 to W144)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view
from tests.browser.lab import find_axe_faults
from tests.browser.scenes import run_report, show_saved

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def show_report(page: Page, address: str, *, width: int = 1234, theme: str = "light") -> Locator:
    open_view(page, address, f"theme={theme}&lab=1", width=width, height=800)
    return show_saved(page, run_report())


def radio(view: Locator, name: str) -> Locator:
    return view.get_by_role("radiogroup", name="Show the run as").get_by_role("radio", name=name, exact=True)


def box_of(part: Locator) -> Any:
    box = part.bounding_box()
    assert box is not None
    return box


def test_one_control_offers_what_the_run_has_and_the_panel_is_one_line_w140(page: Page, address: str) -> None:
    view = show_report(page, address)
    names = view.get_by_role("radiogroup", name="Show the run as").get_by_role("radio").all_inner_texts()
    assert names == ["Bars", "Graph", "Messages", "Table"]
    view.get_by_role("button", name="View", exact=True).click()
    panel = view.get_by_role("region", name="View")
    groups = panel.get_by_role("group")
    expect(groups).to_have_count(4)
    assert len({round(box_of(each)["y"]) for each in groups.all()}) == 1
    view.get_by_role("button", name="More", exact=True).click()
    expect(view.get_by_role("button", name="Critical path")).to_be_visible()
    playhead = view.get_by_role("button", name="Playhead", exact=True)
    playhead.click()
    expect(view.get_by_role("slider", name="Playhead")).to_be_visible()
    playhead.click()
    expect(view.get_by_role("slider", name="Playhead")).to_have_count(0)


def test_what_a_person_chose_is_there_after_a_reload_w142(page: Page, address: str) -> None:
    view = show_report(page, address)
    radio(view, "Table").click()
    expect(view.get_by_role("grid", name="Spans")).to_be_visible()
    view = show_report(page, address)
    expect(radio(view, "Table")).to_be_checked()
    expect(view.locator(".et-shape-table")).to_be_visible()


@pytest.mark.parametrize("width", [1234, 504])
def test_the_switch_is_one_stop_of_tab_and_arrows_choose_w143(page: Page, address: str, width: int) -> None:
    view = show_report(page, address, width=width)
    radio(view, "Bars").focus()
    page.keyboard.press("ArrowRight")
    expect(radio(view, "Graph")).to_be_checked()
    expect(radio(view, "Graph")).to_be_focused()
    expect(view.locator(".et-shape-graph")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(radio(view, "Table")).to_be_checked()
    page.keyboard.press("Tab")
    expect(view.get_by_role("button", name="Playhead", exact=True)).to_be_focused()
    page.emulate_media(forced_colors="active")
    outlines = [radio(view, name).evaluate("it => getComputedStyle(it).outlineStyle") for name in ("Table", "Bars")]
    page.emulate_media(forced_colors="none")
    assert outlines == ["solid", "none"]


def test_messages_show_all_that_was_said_at_full_width_w144(page: Page, address: str) -> None:
    view = show_report(page, address, theme="dark")
    radio(view, "Messages").click()
    log = view.get_by_role("region", name="Messages of the run")
    expect(log).to_contain_text("Find out how large the market is")
    expect(log).to_contain_text("writing")
    assert box_of(log)["width"] > 0.9 * box_of(view)["width"]
    assert find_axe_faults(view) == []
    place = view.locator(".et-shape-messages")
    assert place.evaluate("it => it.scrollHeight > it.clientHeight && getComputedStyle(it).overflowY") == "auto"
