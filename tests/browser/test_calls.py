"""A run that waits for a person, or is over, calls who looks elsewhere (W29)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, Notebook, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Its handler goes on when the test says so, and then the clock of the run may be some seconds later at once.
TEAM: Final = """
import asyncio, time
from pathlib import Path
from ensemble_notebook import ScriptedChatModel
from ensemble_notebook.engine.events.event_stream import SystemClock

async def dawdle(task):
    while not Path("NAME.wake").exists():
        await asyncio.sleep(0.05)
    SystemClock.monotonic = staticmethod(lambda: time.monotonic() + LATER_S)
    return "The tide turns twice a day."

model = ScriptedChatModel(default="A draft.")
"""
ASKING: Final = """%%ensemble -o report --name report
llm: model
tasks:
  find: {description: Find facts, handler: dawdle}
  draft: {description: Write a draft, context: [find], review: after}
"""
SLOW: Final = """%%ensemble -o slow --name slow
tasks:
  find: {description: Find facts, handler: dawdle}
"""
PADDING: Final = "\n".join(f"# line {number}" for number in range(60))


def notes(page: Page) -> Locator:
    return page.locator(".Toastify__toast")


def tab_title(page: Page) -> str:
    """With what a style sheet puts before it."""
    label = page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current .lm-TabBar-tabLabel")
    return str(
        label.evaluate(
            "(e) => JSON.parse(getComputedStyle(e, '::before').content.replace('none', '\"\"')) + e.innerText"
        )
    )


def run_out_of_sight(open_one: Opener, name: str, cell: str, *, later_s: int = 0) -> Notebook:
    """Run a cell, scroll to where its timeline is not, as a person does who writes the next one, and let it go on."""
    team = TEAM.replace("NAME", name).replace("LATER_S", str(later_s))
    notebook = open_one(LOAD, team, cell, PADDING, PADDING)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "Running")
    notebook.cell(3).locator(".cm-content").click()
    notebook.page.keyboard.press("Control+End")
    expect(notebook.timeline(2).locator(".et-status")).not_to_be_in_viewport()
    (notebook.path.parent / f"{name}.wake").touch()
    return notebook


def test_w29_a_question_out_of_sight_calls_and_leads_there(open_notebook: Opener) -> None:
    notebook = run_out_of_sight(open_notebook, "dawdle_asked", ASKING)
    page = notebook.page
    note = notes(page)
    expect(note).to_contain_text("report: Is the output of draft good?")
    expect(note).to_contain_text(re.compile(r"\d:\d\d left, then the run ends early"))
    wait_for(lambda: tab_title(page).startswith("⏸ "), 30, lambda: tab_title(page))
    expect(page).to_have_title(re.compile("^⏸ "))
    photograph("called-light", page, after_s=1)  # it slides in
    assert notebook.path.exists()  # a title that is changed would rename the file

    note.get_by_role("button", name="Go there").click()
    expect(notebook.timeline(2).locator(".et-review")).to_be_in_viewport()
    expect(note).to_have_count(0)
    assert tab_title(page).startswith("⏸ ")  # until there is an answer
    notebook.timeline(2).get_by_role("button", name="Approve").click()
    notebook.wait_until_done(2)
    wait_for(lambda: not tab_title(page).startswith("⏸ "), 30, lambda: tab_title(page))
    expect(page).not_to_have_title(re.compile("^⏸ "))
    expect(notes(page)).to_have_count(0)  # the end was in sight, and the run short


def test_w29_a_question_out_of_sight_calls_in_notebook_7(open_in_notebook_7: Opener) -> None:
    notebook = run_out_of_sight(open_in_notebook_7, "dawdle_asked_7", ASKING)
    page = notebook.page
    note = notes(page)
    expect(note).to_contain_text("report: Is the output of draft good?")
    expect(note).to_contain_text(re.compile(r"\d:\d\d left, then the run ends early"))
    expect(page).to_have_title(re.compile("^⏸ "))
    photograph("called-notebook-7", page, after_s=1)
    note.get_by_role("button", name="Go there").click()
    expect(notebook.timeline(2).locator(".et-review")).to_be_in_viewport()
    expect(note).to_have_count(0)
    notebook.timeline(2).get_by_role("button", name="Approve").click()
    notebook.wait_until_done(2)
    expect(page).not_to_have_title(re.compile("^⏸ "))


def test_w29_the_end_of_a_long_run_calls_once(open_notebook: Opener) -> None:
    notebook = run_out_of_sight(open_notebook, "dawdle_slow", SLOW, later_s=60)
    expect(notes(notebook.page)).to_have_count(1)
    expect(notes(notebook.page)).to_contain_text(re.compile(r"slow completed in 1:\d\d: 1 task\."))
    assert not tab_title(notebook.page).startswith("⏸ ")


def test_w29_one_setting_turns_it_off(open_notebook: Opener, lab: Lab) -> None:
    folder = lab._settings / "ensemble-notebook"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "live.jupyterlab-settings"
    settings.write_text(json.dumps({"callMe": False}))
    try:
        notebook = run_out_of_sight(open_notebook, "dawdle_off", ASKING)
        expect(notebook.timeline(2).locator(".et-review")).to_have_count(1)
        notebook.page.wait_for_timeout(1000)
        expect(notes(notebook.page)).to_have_count(0)
        assert not notebook.page.title().startswith("⏸ ")
        notebook.timeline(2).get_by_role("button", name="Approve").click()
        notebook.wait_until_done(2)
    finally:
        settings.unlink()


@pytest.mark.parametrize("width", [1400, 900, 480])
def test_w29_how_it_will_end_is_said_whole(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    page.goto(f"{address}?scene=gates&at=28000")
    timeline = page.locator(".ensemble-timeline")
    expect(timeline.locator(".et-countdown")).to_contain_text("left, then the run ends early")
    wait_for(lambda: bool(timeline.evaluate("(e) => e.scrollWidth <= e.clientWidth")), 30)
    photograph(f"asked-{width}", timeline)
