"""A phase that was sent back until no retry was left, as a person sees it (W23): rounds, drafts, verdicts, arrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view, read_picture, watch_canvas
from tests.browser.lab import find_axe_faults, photograph, wait_for
from tests.browser.scenes import run_report, run_sent_back, show_saved

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_VERDICT: Final = 'sent back: "shorter, and name the vendor"'
_WORDS: Final = f"round 1 · {_VERDICT}, round 2 · {_VERDICT}, round 3 · kept: no retry left"


def open_report(page: Page, address: str, width: int, theme: str = "light") -> Locator:
    open_view(page, address, f"theme={theme}", width=width, height=800)
    watch_canvas(page)
    view = show_saved(page, run_report())
    expect(view.locator(".et-row")).to_have_count(13)
    return view


def row_of(view: Locator, name: str) -> Locator:
    return view.locator(".et-row").filter(has=view.page.get_by_text(name, exact=True))


def test_w23_rounds_are_bands_with_their_verdict_and_bars_are_drafts(page: Page, address: str) -> None:
    view = open_report(page, address, 1400)
    texts = read_picture(page, has="round 1")["texts"]
    assert [text for text in texts if text.startswith("round")] == ["round 1", "round 2", "round 3"]
    assert [text for text in texts if text.startswith("draft")][:3] == ["draft 1", "draft 2", "draft 3"]
    assert "kept: no retry left" in texts
    assert sum(text.startswith('sent back: "sh') for text in texts) >= 2  # as far as there is room
    assert "4" not in texts  # which once stood after the third round, as if there had been another one
    assert texts.count("sent back") == 6  # the time between two drafts, of three tasks
    expect(row_of(view, "writing")).to_contain_text(_WORDS)
    expect(row_of(view, "writing.review")).to_have_count(1)
    expect(row_of(view, "draft").locator(".et-time")).to_have_text("7.8 s of 14 s")


def test_w23_the_time_between_two_rounds_is_no_startup_of_a_model(page: Page, address: str) -> None:
    view = open_report(page, address, 1400)
    row_of(view, "draft").click()
    page.keyboard.press("Enter")
    expect(view.locator(".et-drawer")).to_contain_text("Draft 1")
    expect(view).not_to_contain_text("made ready")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    expect(view.locator(".et-tooltip")).to_contain_text("draft 1")
    assert "made ready" not in view.inner_text()


def test_w23_where_a_band_is_too_narrow_its_tooltip_has_the_words(page: Page, address: str) -> None:
    view = open_report(page, address, 480)
    assert "kept: no retry left" not in read_picture(page, has="round 3")["texts"]
    box, row = view.locator(".et-canvas").bounding_box(), row_of(view, "writing").bounding_box()
    assert box is not None
    assert row is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, row["y"] + 8)
    expect(view.locator(".et-tooltip")).to_contain_text("kept: no retry left")
    expect(view.locator(".et-tooltip")).to_contain_text(_VERDICT)


def test_w23_arrows_run_to_the_right_inside_their_round(page: Page, address: str) -> None:
    view = open_report(page, address, 1400)
    row_of(view, "writing").click()
    page.keyboard.press("Escape")
    row_of(view, "writing").click()
    page.keyboard.press("r")
    # Two in each of three rounds, and one to each of two phases.
    curves = read_picture(page, has="round 1", curves=8)["curves"]
    assert all(start <= end + 8 for start, end in curves)  # a head is that long


def test_w23_verdicts_can_be_walked_to_and_axe_finds_nothing_serious(page: Page, address: str) -> None:
    view = open_report(page, address, 1400)
    row_of(view, "writing.review").click()
    for verdict in (_VERDICT, _VERDICT, "kept: no retry left"):
        page.keyboard.press("ArrowRight")
        expect(view.locator(".et-drawer")).to_have_attribute("aria-label", f"Details of {verdict}")
    assert find_axe_faults(view) == []


def test_w23_a_task_that_a_person_sent_back_has_drafts_and_verdicts_in_its_row(page: Page, address: str) -> None:
    open_view(page, address, "at=0", width=1400, height=800)
    watch_canvas(page)
    view = show_saved(page, run_sent_back())
    texts = read_picture(page, has="draft 3")["texts"]
    assert [text for text in texts if text.startswith("draft")] == ["draft 1", "draft 2", "draft 3"]
    said = [text for text in texts if text.startswith("sent back: ")]
    assert said[0].startswith('sent back: "shorter, ')
    assert said[1:] == ['sent back: "still too long"']
    words = f'draft 1 · {_VERDICT}, draft 2 · sent back: "still too long", draft 3 · approved'
    expect(row_of(view, "draft")).to_contain_text(words)
    row_of(view, "draft").click()
    expect(view.locator(".et-drawer")).to_contain_text(_VERDICT)
    for width in (1400, 900, 480):
        page.set_viewport_size({"width": width, "height": 800})
        photograph(f"sent-back-{width}", view)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_is_photographed_for_who_looks_at_it(page: Page, address: str, theme: str) -> None:
    view = open_report(page, address, 1400, theme)
    for width in (1400, 900, 480):
        page.set_viewport_size({"width": width, "height": 800})
        wait_for(lambda width=width: view.evaluate("view => view.getBoundingClientRect().width") <= width, 30)  # type: ignore[misc]
        photograph(f"report-{theme}-{width}", view)
