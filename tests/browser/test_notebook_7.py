"""The same in Notebook 7, where a notebook is all there is on the page (W13, W14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.cell import LOAD, NIGHT, REPORT, SLEEPER, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, comes_back_soon, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_live_view_is_back_within_a_second_of_a_reload_and_stops_the_run(
    page: Page, open_in_notebook_7: Opener, lab: Lab
) -> None:
    notebook = open_in_notebook_7(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_nb7"))
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    wait_for(lambda: notebook.kernel_status == "busy", 30)
    page.on("dialog", lambda dialog: dialog.accept())  # whether to leave what is not saved
    assert any(comes_back_soon(notebook, 2) for _ in range(5))
    photograph("notebook-7-reload-light", page)
    notebook.timeline(2).get_by_role("button", name="Stop", exact=True).click()
    wait_for_text(notebook.timeline(2), "Interrupted")
    wait_for(lambda: "Stopped: 1 of 3 tasks are done and kept." in notebook.output(2), 30)
    photograph("notebook-7-over-light", page)


def test_reopened_notebook_has_its_timelines_without_a_kernel(page: Page, open_in_notebook_7: Opener) -> None:
    notebook = open_in_notebook_7(LOAD, TEAM, REPORT, "report.timeline")
    notebook.run_to_end(0, 1, 2, 3)
    wait_for_text(notebook.timeline(3), "Completed")
    notebook.save()
    notebook.shut_down()
    page.goto("about:blank")
    notebook.open()
    for number in (2, 3):
        wait_for_text(notebook.timeline(number), "saved view")
        assert "model not found" not in notebook.output(number)
    photograph("notebook-7-reopened-light", page)
    wait_for(
        lambda: page.evaluate("jupyterapp.shell.currentWidget.content.widgets[2].model.mimeType") == "text/x-yaml", 30
    )
