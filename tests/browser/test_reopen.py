"""A notebook that is opened again, with its kernel, without it or after a restart; and a trace file by itself.

Holds W14 and W15 in a page.
"""

from __future__ import annotations

import copy
import json
import random
import re
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD, NIGHT, REPORT, SLEEPER, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import ROOT, Lab, Notebook, photograph, wait_for, wait_for_text, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Page

TRACE: Final = "application/vnd.ensemble.trace+json"


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """What the page writes to its console as an error."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def test_reopened_notebook_has_its_timelines_without_a_kernel(page: Page, open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, "report.timeline")
    notebook.run_to_end(0, 1, 2, 3)
    wait_for_text(notebook.timeline(3), "Completed")
    notebook.save()
    notebook.shut_down()
    page.goto("about:blank")
    notebook.open()
    for number in (2, 3):
        wait_for_text(notebook.timeline(number), "Completed")
        expect(notebook.timeline(number)).to_contain_text(re.compile(r"saved view, \d"))
        assert "model not found" not in notebook.output(number)
    photograph("reopened-light", page)
    row = notebook.timeline(3).get_by_text("find", exact=True).first
    row.click()
    notebook.timeline(3).get_by_role("tab", name="Messages").click()
    wait_for_text(notebook.timeline(3), "Find facts about tides")


def test_reopened_notebook_is_joined_to_a_kernel_that_lives(page: Page, open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, "report.timeline")
    notebook.run_to_end(0, 1, 2, 3)
    wait_for_text(notebook.timeline(3), "Completed")
    notebook.save()
    page.reload()
    for number in (2, 3):
        wait_for_text(notebook.timeline(number), "Completed")
        wait_for(lambda number=number: "saved view" not in notebook.timeline(number).inner_text(), 30)
    photograph("reopened-with-kernel-light", page)


def test_restart_during_a_run_is_said_and_what_was_shown_stays(
    page: Page, open_notebook: Opener, complaints: list[str]
) -> None:
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_restarted"), "1 + 1")
    notebook.run_to_end(0, 1)
    notebook.run(2)
    timeline = notebook.timeline(2)
    wait_for_text(timeline, "1/3 tasks")
    complaints.clear()
    restart(page)
    wait_for_text(timeline, "Kernel restarted")
    wait_for_text(timeline, "1 of 3 tasks")
    expect(timeline.get_by_role("button", name="Stop")).to_have_count(0)
    timeline.get_by_text("nap_restarted", exact=True).first.click()
    page.wait_for_timeout(3000)
    wait_for(lambda: "Loading" not in timeline.inner_text(), 30)
    photograph("restarted-light", page)
    notebook.run_to_end(3)
    assert complaints == []
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "Running")


def test_restart_after_a_run_leaves_its_view_as_it_was(
    page: Page, open_notebook: Opener, complaints: list[str]
) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, "report.timeline")
    notebook.run_to_end(0, 1, 2, 3)
    wait_for_text(notebook.timeline(3), "Completed")
    complaints.clear()
    restart(page)
    notebook.wait_until_idle()
    timelines = [notebook.timeline(number) for number in (2, 3)]
    for timeline in timelines:
        wait_for_text(timeline, "Completed")
        timeline.get_by_text("find", exact=True).first.click()
    page.wait_for_timeout(2500)
    for timeline in timelines:
        wait_for(lambda timeline=timeline: "Loading" not in timeline.inner_text(), 30)
    photograph("restarted-after-light", page)
    assert complaints == []


def test_trace_file_opens_as_a_timeline(page: Page, open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, "report.trace.save('tides.trace.json')")
    notebook.run_to_end(0, 1, 2, 3)
    page.locator(".jp-DirListing-item", has_text="tides.trace.json").dblclick(timeout=30_000)
    timeline = page.locator(".jp-MimeDocument .ensemble-timeline")
    timeline.wait_for(timeout=30_000)
    wait_for_text(timeline, "Completed")
    wait_for_text(timeline, "2/2 tasks")
    timeline.get_by_text("find", exact=True).first.click()
    timeline.get_by_role("tab", name="Messages").click()
    wait_for_text(timeline, "Find facts about tides")
    photograph("trace-file-light", page)


def test_notebook_of_damaged_views_opens_and_shows_each(page: Page, lab: Lab) -> None:
    released = json.loads((ROOT / "tests/fixtures/0.1.0/report.view.json").read_text())
    chance = random.Random(7)
    path = write_notebook(lab.work / "damaged.ipynb", *["%%ensemble\n- Report"] * 70)
    saved = json.loads(path.read_text())
    for number, cell in enumerate(saved["cells"]):
        data = copy.deepcopy(released)
        for row in data[TRACE]["rows"]:
            if chance.random() < (0.1, 0.5, 1)[number % 3]:
                row["parent_id"] = chance.choice(data[TRACE]["rows"])["span_id"]
        cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    path.write_text(json.dumps(saved))
    notebook = Notebook(page, lab.url(path), path)
    notebook.show()
    expect(page.locator(".ensemble-timeline")).to_have_count(70)
    expect(page.locator(".ensemble-timeline").last).to_contain_text(re.compile(r"saved view, \d"))
    notebook.shut_down()


def test_ensemble_cells_have_yaml_colours_as_long_as_they_are_ensemble_cells(open_in_window: Opener) -> None:
    notebook = open_in_window("with_ = 1", "%%ensemble\ntasks:\n  from: {description: with all}\n")
    page = notebook.page
    type_of = "number => jupyterapp.shell.currentWidget.content.widgets[number].model.mimeType"
    wait_for(lambda: page.evaluate(type_of, 0) == "text/x-ipython", 30)
    wait_for(lambda: page.evaluate(type_of, 1) == "text/x-yaml", 30)
    expect_yaml_colours(notebook, 1)
    photograph("yaml-light", notebook.cell(1))
    restart(page)
    notebook.wait_until_idle()
    expect_yaml_colours(notebook, 1)
    source = "(text) => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.setSource(text)"
    page.evaluate(source, "print('from')")
    wait_for(lambda: page.evaluate(type_of, 1) == "text/x-ipython", 30)
    page.evaluate(source, "%%ensemble -o x\n- Name a fact")
    wait_for(lambda: page.evaluate(type_of, 1) == "text/x-yaml", 30)


def test_ensemble_cells_that_are_there_before_the_kernel_get_yaml_colours(open_notebook: Opener) -> None:
    notebook = open_notebook("%%ensemble\ntasks:\n  from: {description: with all}\n", "with_ = 1")
    expect_yaml_colours(notebook, 0)


def expect_yaml_colours(notebook: Notebook, number: int) -> None:
    """A key has a colour, and a word of Python has none: the editor may not do what its cell says."""
    words = notebook.cell(number).locator(".cm-line span")
    expect(words.filter(has_text=re.compile("^tasks$"))).to_have_count(1, timeout=30_000)
    expect(words.filter(has_text=re.compile("^with$"))).to_have_count(0)


def restart(page: Page) -> None:
    """Restart the kernel, as the menu does after its question."""
    page.evaluate("() => { void jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }")


def test_run_whose_kernel_was_restarted_is_kept_as_far_as_the_page_knew_it(page: Page, open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_kept"))
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    restart(page)
    wait_for_text(notebook.timeline(2), "Kernel restarted")
    notebook.wait_until_idle()
    notebook.save()
    page.goto("about:blank")
    notebook.open()
    wait_for_text(notebook.timeline(2), "Interrupted")
    wait_for_text(notebook.timeline(2), "saved view")
    wait_for_text(notebook.timeline(2), "1 of 3 tasks · ")
    photograph("restarted-reopened-light", page)


def test_notebook_that_was_saved_in_mid_run_shows_what_it_knew_when_its_kernel_is_gone(
    page: Page, open_notebook: Opener
) -> None:
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_gone"))
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    notebook.save()
    notebook.shut_down()
    page.on("dialog", lambda dialog: dialog.accept())  # whether to leave what is not saved
    page.goto("about:blank")
    notebook.open()
    wait_for_text(notebook.timeline(2), "saved view")
    wait_for_text(notebook.timeline(2), "Running when saved")
    wait_for_text(notebook.timeline(2), "1 of 3 tasks · ")
    photograph("saved-in-mid-run-light", page)
