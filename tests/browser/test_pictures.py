"""Pictures in the table of a map, in the drawer and in the messages of a saved view, in a browser (W167)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.built_view import open_view, served_view, show_saved_view
from tests.browser.lab import find_axe_faults
from tests.browser.scans import save_scans
from tests.browser.tables import cell_at, show_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARE_DRAWN = "images => images.length > 0 && images.every(each => each.complete && each.naturalWidth > 0)"


def test_w167_pictures_of_a_saved_map_stand_in_its_table_in_the_drawer_and_in_its_messages(browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    asked: list[str] = []
    with served_view() as address:
        open_view(page, address, "", width=1400)
        page.on("request", lambda request: asked.append(request.url))
        view = show_saved_view(page, save_scans())
        table = show_table(view)
        images = table.locator("[data-line] img")
        images.first.wait_for()
        assert images.evaluate_all(ARE_DRAWN)
        line = table.locator("[data-line='3']")
        assert (line.locator("img").get_attribute("alt") or "").startswith("scan_03.png · picture · ")
        assert "scan_03.png" in line.inner_text()
        assert find_axe_faults(view) == []
        cell_at(table, 3, 0).click()
        view.get_by_role("tab", name="Messages").click()
        shown = view.locator(".et-drawer .et-pictures img")
        shown.first.wait_for()
        assert shown.evaluate_all(ARE_DRAWN)
        view.get_by_role("radio", name="Messages", exact=True).click()
        log = view.locator(".et-log .et-pictures img")
        log.first.wait_for()
        assert log.evaluate_all(ARE_DRAWN)
        assert "sha256:" not in "".join(view.locator(".et-log").all_inner_texts())
        assert find_axe_faults(view) == []
        assert [each for each in asked if not each.startswith(("data:", "blob:", address))] == []
    page.close()
