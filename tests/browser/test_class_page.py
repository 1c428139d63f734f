"""The page of a class on a phone and a desk, light and dark (C124)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, expect

from ensemble_notebook import load_class
from tests.browser.lab import find_axe_faults, photograph
from tests.support.class_runs import fill_class

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("width, theme", [(390, "dark"), (390, "light"), (1400, "light"), (1400, "dark")])
def test_c124_a_class_is_read_without_scripts_and_axe_finds_nothing(
    browser: Browser, tmp_path: Path, width: int, theme: Any
) -> None:
    found = load_class(fill_class(tmp_path / "RUNS") / "*", texts=theme == "dark")
    address = found.save(tmp_path / "class.html").as_uri()
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme, offline=True)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(address)
    expect(page.get_by_role("heading", name="lesson 2", exact=True)).to_be_visible()
    expect(page.get_by_text("1 of 2", exact=True).first).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    assert find_axe_faults(page.locator("body"), even_minor=True) == []
    photograph(f"class-{theme}-{width}", page)
    assert faults == []
    context.close()
