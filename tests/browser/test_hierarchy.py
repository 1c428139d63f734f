"""A manager, its workers and somebody who does not exist, as a person sees them (W26, W27)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view, read_picture, watch_canvas
from tests.browser.lab import find_axe_faults, photograph, wait_for
from tests.browser.scenes import run_hier, show_saved

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

TITLES = [
    "manager",
    "Find three facts about tides",
    "Write a brief from them",
    "Poet",
    "Write a brief from these facts…",
]


def open_hier(page: Page, address: str, width: int, theme: str = "light") -> Locator:
    open_view(page, address, f"theme={theme}", width=width, height=700)
    watch_canvas(page)
    view = show_saved(page, run_hier())
    expect(view.locator(".et-row")).to_have_count(len(TITLES))
    return view


def test_w27_written_tasks_and_delegations_are_seen_and_a_refused_one_in_words(page: Page, address: str) -> None:
    view = open_hier(page, address, 1400)
    expect(view.locator(".et-title")).to_have_text([re.compile(f"^{re.escape(title)}") for title in TITLES])
    texts = read_picture(page, has="who did it is unknown")["texts"]
    assert any(text.startswith("refused: There is no agent 'Poet'") for text in texts)
    expect(view).to_contain_text("2 tasks in 42 s by 2 workers; longest: Writer, 43% of the time")
    expect(view).not_to_contain_text("delegate_task")
    expect(view).not_to_contain_text("1 task")


def test_w27_filters_are_there_for_what_is_there(page: Page, address: str) -> None:
    view = open_hier(page, address, 1400)
    view.get_by_label("Search the run").focus()
    expect(view.locator(".et-kind-toggle")).to_have_text(["◆Models", "▪Tools", "▸Delegations"])


@pytest.mark.parametrize("width", [1400, 900])
def test_w26_names_of_rows_are_whole_up_to_a_third_of_the_view(page: Page, address: str, width: int) -> None:
    view = open_hier(page, address, width)
    part = "view => view.querySelector('.et-gutter').offsetWidth / view.querySelector('.et-chart').offsetWidth"
    wait_for(lambda: view.evaluate(part) < 0.335, 30, lambda: str(view.evaluate(part)))
    is_cut = "all => all.some((title) => title.scrollWidth > title.clientWidth + 1)"
    if width == 1400:
        wait_for(lambda: not view.locator(".et-title").evaluate_all(is_cut), 30)


@pytest.mark.parametrize("width", [1400, 480])
def test_w26_the_letters_of_who_did_it_stand_before_each_name(page: Page, address: str, width: int) -> None:
    view = open_hier(page, address, width)
    chips = view.locator(".et-row:has(.et-agent)")
    expect(chips.locator(".et-agent")).to_have_text(["Ma", "Re", "Wr"])
    boxes = "rows => rows.map((row) => ['.et-agent', '.et-title'].map((part) => row.querySelector(part)))"
    measure = f"(rows) => ({boxes})(rows).map((row) => row.map((part) => part.getBoundingClientRect()))"
    for chip, title in chips.evaluate_all(measure):
        assert chip["width"] > 0
        assert chip["right"] < title["left"] < title["right"]


def test_w26_a_name_without_room_is_cut_and_never_replaced_by_its_turn(page: Page, address: str) -> None:
    view = open_hier(page, address, 1400)
    texts = read_picture(page, has="who did it is unknown")["texts"]
    assert not any(text.startswith(("turn 2", "turn 3")) for text in texts)
    view.locator(".et-row").nth(1).click()
    expect(view.locator(".et-drawer")).to_contain_text("researcher_1")  # the name for code


def test_w27_rows_are_walked_by_keys_and_axe_finds_nothing_serious(page: Page, address: str) -> None:
    view = open_hier(page, address, 1400)
    view.locator(".et-row").first.click()
    for title in TITLES[1:]:
        page.keyboard.press("ArrowDown")
        selected = view.locator(".et-row[aria-selected=true] .et-title")
        expect(selected).to_have_text(re.compile(f"^{re.escape(title)}"))
    assert find_axe_faults(view) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_manager_is_photographed_for_who_looks_at_it(page: Page, address: str, theme: str) -> None:
    view = open_hier(page, address, 1400, theme)
    for width in (1400, 900, 480):
        page.set_viewport_size({"width": width, "height": 800})
        wait_for(lambda width=width: view.evaluate("view => view.getBoundingClientRect().width") <= width, 30)  # type: ignore[misc]
        photograph(f"hier-{theme}-{width}", view)
