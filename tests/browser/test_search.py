"""What a search finds in the texts of a run, and what it leaves on the screen (W28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view
from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Notebook, photograph, wait_for
from tests.browser.scenes import PACE, REPORT, REPORT_TEAM, run_report, show_saved

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


QUICK: Final = REPORT_TEAM.replace(PACE, "PACE = 0.1")


def look_for(view: Locator, words: str) -> None:
    view.get_by_label("Search the run").fill(words)


def list_hits(view: Locator) -> list[str]:
    return [text.replace("\n", " ") for text in view.locator(".et-hit").all_inner_texts()]


def list_rows(view: Locator) -> list[str]:
    return view.locator(".et-row .et-title").all_inner_texts()


def expect_found(view: Locator, count: str) -> None:
    expect(view.locator(".et-found")).to_have_text(count)


def test_w28_texts_are_found_live_finished_and_saved(open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, QUICK, REPORT)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    view = notebook.timeline(2)

    # Live: while a person is asked about the last task, no span was opened.
    view.get_by_role("button", name="Approve").wait_for()
    look_for(view, '"three papers"')
    wait_for(lambda: len(list_hits(view)) == 2, 30, lambda: str(list_hits(view)))
    assert all("three papers about" in hit for hit in list_hits(view))
    look_for(view, "single supplier")
    wait_for(lambda: any("Acme is a single supplier." in hit for hit in list_hits(view)), 30)
    photograph("found-live", view)
    look_for(view, "")
    view.get_by_role("button", name="Approve").click()
    notebook.wait_until_done(2)

    check_finds(notebook)
    notebook.save()
    notebook.shut_down()
    notebook.page.reload()
    notebook.timeline(2).wait_for()
    check_finds(notebook)


def check_finds(notebook: Notebook) -> None:
    """In a run that is over, with a kernel and without one."""
    view = notebook.timeline(2)
    look_for(view, '"three papers"')
    wait_for(lambda: len(list_hits(view)) == 2, 30, lambda: str(list_hits(view)))
    look_for(view, "acme")
    wait_for(lambda: len([hit for hit in list_hits(view) if "Acme" in hit]) >= 4, 30, lambda: str(list_hits(view)))
    look_for(view, "no such words anywhere")
    expect(view.locator(".et-found")).to_contain_text("0 of")
    expect(view.locator(".et-hits")).to_have_count(0)  # nothing was left unsearched
    look_for(view, "")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 900, 480])
def test_w28_a_search_hides_what_does_not_fit(page: Page, address: str, width: int, theme: str) -> None:
    open_view(page, address, f"at=0&theme={theme}", width=width, height=900)
    view = show_saved(page, run_report())
    expect(view.locator(".et-row")).to_have_count(13)
    rows = list_rows(view)

    look_for(view, "tool:look_up")
    wait_for(lambda: len(list_rows(view)) == 2, 30, lambda: str(list_rows(view)))
    assert [name.split(" ")[0] for name in list_rows(view)] == ["research", "prices"]

    look_for(view, "single supplier")
    wait_for(lambda: len(list_hits(view)) >= 2, 30)
    expect(view.locator(".et-found")).to_contain_text(" of ")
    hits = len(list_hits(view))
    page.keyboard.press("Enter")
    expect(view.locator(".et-found")).to_contain_text("1/")
    expect(view.locator(".et-hit[aria-current=true]")).to_have_count(1)
    photograph(f"found-{width}-{theme}", view)
    assert hits <= 100
    look_for(view, "status:failed")
    wait_for(lambda: "prices" in str(list_rows(view)) and "market" not in str(list_rows(view)), 30)
    if width > 900:
        view.get_by_role("button", name="Dim").click()
        wait_for(lambda: list_rows(view) == rows, 30)
        expect(view.locator(".et-row[data-dimmed=true]").first).to_be_visible()
    view.get_by_label("Clear the search").click()
    wait_for(lambda: list_rows(view) == rows, 30)
