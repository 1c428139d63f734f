"""The playhead, as a person moves it (W35): in a saved view, and in an exported page on a phone without a network."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import Browser, expect

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.models.langchain.scripted_model import Reply
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.browser.built_view import open_view, wait_until_measured
from tests.browser.lab import find_axe_faults, photograph
from tests.browser.scenes import run_report, show_saved
from tests.support.drive import drive
from tests.support.hostile_texts import KNOWN
from tests.support.recorded_messages import make_agent

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_BARS: Final = "() => document.querySelector('.et-canvas').listBars()"


def open_report(page: Page, address: str, *, width: int = 1400, theme: str = "light") -> Locator:
    open_view(page, address, f"theme={theme}&lab=1", width=width, height=800)
    return show_saved(page, run_report())


def open_playhead(view: Locator) -> Locator:
    view.get_by_role("button", name="Playhead", exact=True).click()
    handle = view.get_by_role("slider", name="Playhead")
    expect(handle).to_be_visible()
    return handle


def drag_to(page: Page, view: Locator, share: float) -> None:
    """Drag from the middle of the axis to this share of it."""
    box = view.locator(".et-playhead-track").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * share, y, steps=8)
    page.mouse.up()


def bars(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(_BARS)
    return found


def test_w35_a_run_is_dragged_back_to_what_it_was(page: Page, address: str) -> None:
    view = open_report(page, address)
    whole = len(bars(page))
    handle = open_playhead(view)
    drag_to(page, view, 0.3)
    expect(view.locator(".et-word")).to_have_text("As it was")
    page.wait_for_function(f"whole => ({_BARS})().length < whole", arg=whole)
    expect(view.locator('.et-row[data-status="pending"]').first).to_be_visible()
    expect(view).not_to_contain_text("kept: no retry left")
    drag_to(page, view, 1.0)
    expect(view.locator(".et-word")).not_to_have_text("As it was")
    expect(handle).to_have_attribute("aria-valuenow", str(handle.get_attribute("aria-valuemax")))
    page.wait_for_function(f"whole => ({_BARS})().length === whole", arg=whole)


def test_w35_space_plays_and_keys_walk(page: Page, address: str) -> None:
    view = open_report(page, address)
    view.locator(".et-row").first.click()
    page.keyboard.press("Escape")
    page.keyboard.press(" ")
    handle = view.get_by_role("slider", name="Playhead")
    expect(view.get_by_role("button", name="Pause")).to_be_visible()
    expect(view.locator(".et-word")).to_have_text("As it was")
    page.wait_for_function(
        "() => Number(document.querySelector('[aria-label=Playhead][role=slider]').ariaValueNow) > 150"
    )
    page.keyboard.press(" ")
    expect(view.get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(view.locator(".et-drawer")).to_have_count(0)
    stopped = handle.get_attribute("aria-valuenow")
    handle.focus()
    page.keyboard.press("PageUp")
    expect(handle).not_to_have_attribute("aria-valuenow", str(stopped))
    page.keyboard.press("Home")
    expect(handle).to_have_attribute("aria-valuenow", "0")
    expect(handle).to_have_attribute("aria-valuetext", "0 ms of 29 s, 0 of 8 tasks done")
    view.get_by_role("button", name="16x").click()
    expect(view.get_by_role("button", name="16x")).to_have_attribute("aria-pressed", "true")
    handle.focus()
    page.keyboard.press(" ")
    expect(view.locator(".et-word")).to_have_text("Completed with warnings")  # 29 s in 2 s
    expect(view.get_by_role("button", name="Pause")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 480])
def test_w35_axe_finds_nothing_serious_at_the_playhead(page: Page, address: str, theme: str, width: int) -> None:
    view = open_report(page, address, width=width, theme=theme)
    open_playhead(view)
    drag_to(page, view, 0.5)
    expect(view.locator(".et-word")).to_have_text("As it was")
    assert find_axe_faults(view) == []
    photograph(f"playhead-{theme}-{width}", view)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_w35_an_exported_page_scrubs_on_a_phone_without_a_network(browser: Browser, tmp_path: Path, theme: Any) -> None:
    file = run_report().export(tmp_path / "run.html")
    assert file.stat().st_size < 1_500_000
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, color_scheme=theme, has_touch=True, is_mobile=True, offline=True
    )
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: faults.append(request.url) if request.url.startswith("http") else None)
    page.goto(file.as_uri())
    view = page.locator(".ensemble-timeline")
    expect(view.locator(".et-word")).to_have_text("Completed with warnings")
    wait_until_measured(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    view.get_by_role("button", name="Playhead", exact=True).tap()
    handle = view.get_by_role("slider", name="Playhead")
    expect(handle).to_be_visible()
    box = view.locator(".et-playhead-track").bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] * 0.4, box["y"] + 14)
    expect(view.locator(".et-word")).to_have_text("As it was")
    expect(view.locator('.et-row[data-status="pending"]').first).to_be_visible()
    before = handle.get_attribute("aria-valuenow")
    page.touchscreen.tap(box["x"] + box["width"] * 0.2, box["y"] + 14)
    expect(handle).not_to_have_attribute("aria-valuenow", str(before))
    view.get_by_role("button", name="16x").tap()
    view.get_by_role("button", name="Play", exact=True).tap()
    expect(view.locator(".et-word")).to_have_text("Completed with warnings")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    assert find_axe_faults(view) == []
    photograph(f"playhead-phone-{theme}", view)
    assert faults == []
    context.close()


def test_w35_replies_in_an_exported_page_grow_as_text_alone(page: Page, tmp_path: Path) -> None:
    text = "".join(KNOWN[:6]) + "</script><script>document.title = 'broken out'</script>" + "the end. " * 40
    agent = make_agent("Writer", Reply(text, delay=8))
    ensemble = EnsembleDefinition(name="hostile", tasks=(Task.of("Write", name="write", agent=agent),))
    with ThreadPoolExecutor(1) as thread:  # Playwright keeps a loop running on this one
        _, events = thread.submit(drive, ensemble, source=ModelSource()).result()
    page.goto(ExecutionTrace.from_events(events).export(tmp_path / "run.html").as_uri())
    view = page.locator(".ensemble-timeline")
    view.locator(".et-row", has_text="write").click()
    open_playhead(view)
    drag_to(page, view, 0.5)
    expect(view.locator(".et-play-notes")).to_have_text("Replies grow by their share of the time.")
    expect(view.locator(".et-word")).to_have_text("As it was")
    page.keyboard.press("ArrowRight")
    assert page.title() == "hostile"
    assert page.locator("script").count() == 2
