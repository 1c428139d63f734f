"""Views that are hardly wider than a finger, as beside the file browser on a phone (W176)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.built_view import open_view, served_view

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_w176_names_have_the_room_of_agents_in_the_narrowest_views(page: Page) -> None:
    with served_view() as address:
        view = open_view(page, address, "rows=6")
        row = view.locator(".et-label:has(.et-agent)").first
        expect(row.locator(".et-agent")).to_be_visible()
        page.set_viewport_size({"width": 480, "height": 700})
        expect(row.locator(".et-agent")).to_be_visible()
        page.set_viewport_size({"width": 130, "height": 700})
        expect(row.locator(".et-agent")).to_be_hidden()
        expect(row).to_be_visible()
