"""Recorded runs that are played, in a real JupyterLab (C101, C102)."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import photograph, wait_for, wait_for_text

CLEAR = "print(letters.compare())"
REST = "print(cut.status.value, cut.frames.runs.replayed_from.iloc[0], cut.frames.tasks.status.iloc[-1])"


def test_c102_stop_ends_a_demo_and_what_was_played_is_kept(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, "%ensemble demo report --view bars -o cut", REST)
    notebook.run_to_end(0)
    notebook.run(1)
    timeline = notebook.timeline(1)
    wait_for_text(timeline, "recorded from a scripted team")
    wait_for_text(timeline, "HTTP 429")
    timeline.get_by_role("button", name="Stop", exact=True).click(timeout=30_000)
    notebook.wait_until_done(1)
    wait_for_text(timeline, "Interrupted")
    wait_for_text(notebook.outputs(1), "of 7 tasks are done and kept.")
    photograph("demo-stopped-light", notebook.page)
    assert timeline.get_by_role("button", name="Resume").count() == 0
    timeline.get_by_text("elsewhere", exact=True).first.click()
    timeline.locator(".et-drawer").wait_for()
    wait_for(lambda: "Scout" in timeline.locator(".et-drawer").inner_text(), 30)
    notebook.run_to_end(2)
    wait_for_text(notebook.outputs(2), "interrupted demo report skipped")


def test_c101_the_first_minute_a_team_in_its_graph_and_a_map_that_ends_when_it_is_known(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, "%ensemble demo -o report", "%ensemble demo map -o letters", CLEAR)
    notebook.run_to_end(0)
    notebook.run(1)
    stage = notebook.timeline(1)
    stage.get_by_role("radio", name="Graph", exact=True).and_(notebook.page.locator("[aria-checked=true]")).wait_for()
    draft = stage.locator(".et-node", has_text="Writer").filter(has_text="draft")
    words = re.compile("letters|Saturdays|drive|Osterby|moderate|recommend|seven nights|figures")
    expect(draft).to_contain_text(words)  # of its reply as it comes, inside the node that says it
    photograph("minute-words-light", notebook.page)
    notebook.wait_until_done(1)
    wait_for_text(stage, "Stopped by its budget after")
    photograph("minute-report-light", notebook.page, after_s=1)
    notebook.run(2)
    table = notebook.timeline(2)
    table.get_by_role("radio", name="Grid", exact=True).and_(notebook.page.locator("[aria-checked=true]")).wait_for()
    wait_for_text(table, "of 600")
    photograph("minute-map-light", notebook.page, after_s=8)
    notebook.wait_until_done(2)
    wait_for_text(table, "of 600 runs in")
    wait_for_text(table, "tersely is better (0.83 beside 0.68;")  # above the table
    photograph("minute-verdict-light", notebook.page, after_s=1)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "rows and $0.")
