"""A report on a phone, without scripts, and on paper (W160)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import find_axe_faults, photograph
from tests.browser.scenes import run_report
from tests.conformance.test_reports import is_short, map_sums

if TYPE_CHECKING:
    from playwright.sync_api import Page

_WIDTH = "() => document.documentElement.scrollWidth"


@pytest.fixture
def addresses(tmp_path: Path) -> dict[str, str]:
    rows: list[dict[str, object]] = [{"q": f"2 + {place}, please, " + "again " * place} for place in range(9)]
    result = map_sums([*rows, {"q": "fail"}], score=is_short)
    return {
        "run": run_report().export(tmp_path / "run.html").as_uri(),
        "map": result.export(tmp_path / "map.html").as_uri(),
    }


@pytest.mark.parametrize("width, theme", [(390, "dark"), (480, "light"), (1400, "light")])
def test_w160_a_report_is_read_without_scripts(browser: Browser, addresses: Any, width: int, theme: Any) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=theme, java_script_enabled=False, offline=True
    )
    page = context.new_page()
    page.goto(addresses["run"])
    for text in ("Signed off.", "Researcher", "Models and prices", "1 tool error: look_up"):
        expect(page.get_by_text(text, exact=True).first).to_be_visible()
    photograph(f"report-run-static-{theme}-{width}", page)
    page.goto(addresses["map"])
    for text in ("2 + 0, please,", "✓ passed", "✗ failed"):
        expect(page.get_by_text(text, exact=True).first).to_be_visible()
    photograph(f"report-map-static-{theme}-{width}", page)
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("what", ["run", "map"])
def test_w160_a_report_fits_a_phone_and_axe_finds_nothing(
    browser: Browser, addresses: Any, what: str, theme: Any
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=theme, offline=True)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(addresses[what])
    expect(page.locator(".ensemble-timeline .et-word")).to_be_visible()
    expect(page.locator("#picture")).to_be_hidden()
    assert page.evaluate(_WIDTH) == 390
    assert find_axe_faults(page.locator("body")) == []
    photograph(f"report-{what}-{theme}", page)
    assert faults == []
    context.close()


def test_w160_on_paper_the_picture_is_static_and_what_was_folded_is_open(page: Page, addresses: Any) -> None:
    page.goto(addresses["run"])
    expect(page.locator(".ensemble-timeline .et-word")).to_be_visible()
    definition = page.get_by_text("Find out how large the market is", exact=True)
    expect(definition).to_be_hidden()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(definition).to_be_visible()
    expect(page.locator("#picture")).to_be_visible()
    expect(page.locator("#run")).to_be_hidden()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
