"""What a person sees in a real JupyterLab: lessons, drawer, saved notebooks, the dark (W6, W14)."""

from __future__ import annotations

import json
import re

from playwright.sync_api import expect

from tests.browser.cell import HOSTILE, LOAD, REPORT, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, photograph, wait_for, wait_for_text

# A run goes on when the test says so: a page may take longer to show it than a small model to write.
WAIT_FOR_MODEL = """
import asyncio
from pathlib import Path
from ensemble_notebook.models.model_source import ModelSource

async def prepare_later(*given, prepare=ModelSource.prepare):
    while not Path("model.wake").exists():
        await asyncio.sleep(0.05)
    return await prepare(*given)

ModelSource.prepare = prepare_later
"""
WAIT_FOR_COOK = """
def hold(cook):
    async def cook_later(task):
        while not Path("kitchen.wake").exists():
            await asyncio.sleep(0.05)
        return await cook(task)
    return cook_later

import asyncio
from pathlib import Path
cook = hold(cook)
"""
TIDES = """%%ensemble -o report -i topic="tidal energy"
llm: local
agents:
  Researcher: {goal: Find facts that can be checked}
  Writer: {goal: Turn facts into clear prose, background: You write for engineers who have one minute.}
tasks:
  gather: {description: "Name two key facts about {topic}", agent: Researcher}
  risks: {description: "Name one risk of {topic}", agent: Researcher}
  brief: {description: "Write a brief about {topic}", agent: Writer, context: [gather, risks]}
"""
MARKUP = "document.querySelectorAll(\"img[src='x'], .jp-Cell-outputWrapper script\").length"


def test_a_team_runs_on_the_local_model(open_in_window: Opener, lab: Lab) -> None:
    notebook = open_in_window(LOAD, "%%ensemble -i topic='the tide'\n- Describe {topic} in one sentence\n", TIDES)
    notebook.run_to_end(0, 1)
    wait_for_text(notebook.timeline(1), "1 task in ")
    notebook.execute(WAIT_FOR_MODEL)
    notebook.run(2)
    timeline = notebook.timeline(2)
    wait_for_text(timeline, "gather")
    wait_for_text(timeline, "Running")
    wait_for(lambda: timeline.locator(".et-title").all_inner_texts() == ["gather", "risks", "brief"], 30)
    assert notebook.prompt(2) == "[*]:"
    photograph("local-live-light", notebook.page)
    (lab.work / "model.wake").touch()
    notebook.wait_until_done(2)
    wait_for_text(timeline, "Completed")
    wait_for_text(timeline, "3 tasks in ")
    assert "scripted" not in timeline.inner_text()
    timeline.get_by_text("brief", exact=True).first.click()
    drawer = timeline.get_by_label("Details of brief")
    drawer.get_by_role("tab", name="Messages").click()
    wait_for_text(drawer, "Write a brief about tidal energy")
    wait_for_text(drawer, "You write for engineers who have one minute.")
    photograph("local-drawer-light", timeline)


def test_the_first_lesson_asks_no_model_and_what_is_selected_is_data(open_in_window: Opener) -> None:
    notebook = open_in_window(lesson="01-first-team.ipynb")
    notebook.run_to_end(0, 1, 2, 3)
    report = notebook.timeline(3)
    wait_for_text(report, "4 tasks in ")
    wait_for_text(report, "scripted")
    photograph("lesson-1-team-light", notebook.page)
    notebook.run_to_end(4, 5)
    wait_for(lambda: all(word in notebook.output(4) for word in ("brief", "story", "people", "cause")), 30)
    wait_for_text(report.locator("[role=row][aria-selected=true]"), "brief")
    report.get_by_text("cause", exact=True).first.click()
    notebook.execute("import pandas; seen = report.frames.spans.loc[report.timeline.selection, 'name'].tolist()")
    notebook.execute("assert seen == ['cause'], seen")
    notebook.run_to_end(6, 7)
    wait_for_text(notebook.outputs(7), "Did you mean goal?")
    notebook.run_to_end(8, 9, 10)
    wait_for_text(notebook.outputs(10), "0 of 4 hold")
    photograph("lesson-1-check-light", notebook.page)


def test_the_drawer_shows_prompts_tools_and_replies_and_nothing_a_model_writes_is_run(open_in_window: Opener) -> None:
    failing = "%%ensemble\n- {name: search, description: Search, handler: fail}\n"
    mistaken = f'%%ensemble\n- {{description: Search, agent: "{HOSTILE}"}}\n'
    notebook = open_in_window(LOAD, TEAM, REPORT, "report.timeline", failing, mistaken)
    notebook.run_to_end(0, 1, 2, 3, 4, 5)
    wait_for_text(notebook.outputs(2), f"A brief. ![tide](x) {HOSTILE}")
    wait_for(lambda: notebook.output(4).count(HOSTILE) >= 2, 30)  # in the timeline and in the error below it
    wait_for_text(notebook.outputs(5), "there is no agent \"<img src=x onerror='window.hacked=1'>")
    live = notebook.timeline(3)
    live.get_by_text("find", exact=True).first.click()
    notebook.page.keyboard.press("Enter")
    drawer = live.get_by_label("Details of find")
    drawer.get_by_role("tab", name="Messages").click()
    wait_for_text(drawer, "three notes about tides <img")
    wait_for_text(drawer, "Your personal goal is: Find facts")
    wait_for_text(drawer, "The tide turns twice a day.")
    photograph("drawer-light", live)
    assert notebook.page.evaluate("window.hacked") is None
    assert notebook.page.evaluate(MARKUP) == 0


def test_a_saved_notebook_reopens_explorable_without_its_kernel(open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT)
    notebook.run_to_end(0, 1, 2)
    notebook.save()
    saved = json.loads(notebook.path.read_text())
    data = saved["cells"][2]["outputs"][0]["data"]
    assert "application/vnd.jupyter.widget-view+json" not in data
    assert {"text/plain", "text/html", "application/vnd.ensemble.trace+json"} <= set(data)
    assert "widgets" not in saved["metadata"]
    notebook.shut_down()
    notebook.page.reload()
    view = notebook.timeline(2)
    view.wait_for(timeout=60_000)
    wait_for_text(view, "saved view")
    view.get_by_text("find", exact=True).first.click()
    notebook.page.keyboard.press("Enter")
    drawer = view.get_by_label("Details of find")
    drawer.get_by_role("tab", name="Messages").click()
    wait_for_text(drawer, "The tide turns twice a day.")
    assert "model not found" not in notebook.page.locator("body").inner_text().lower()
    photograph("saved-light", notebook.page)

    # As a stranger's notebook, which Jupyter does not trust, and in Notebook 7.
    stranger = lab.work / f"stranger-{notebook.path.name}"
    saved["cells"][2]["source"] += "# changed outside\n"
    stranger.write_text(json.dumps(saved))
    notebook.page.goto(lab.notebook_7_url(stranger))
    untrusted = notebook.page.locator(".ensemble-timeline")
    untrusted.wait_for(timeout=60_000)
    untrusted.get_by_text("brief", exact=True).first.click()
    untrusted.get_by_role("tab", name="Messages").click()
    wait_for_text(untrusted, HOSTILE)
    assert notebook.page.evaluate("window.hacked") is None
    photograph("saved-notebook-7-light", notebook.page)


def test_the_kitchen_burns_in_the_dark(open_in_window: Opener, lab: Lab) -> None:
    notebook = open_in_window(lesson="03-phases-at-work.ipynb", theme="dark")
    notebook.run_to_end(0)
    notebook.execute(WAIT_FOR_COOK)
    notebook.run(1)
    wait_for_text(notebook.timeline(1), "Running")
    photograph("kitchen-live-dark", notebook.page)
    (lab.work / "kitchen.wake").touch()
    notebook.wait_until_done(1)
    wait_for_text(notebook.timeline(1), "scripted model")
    notebook.run_to_end(3)
    burnt = notebook.timeline(3)
    wait_for_text(burnt, "Failed")
    wait_for_text(notebook.outputs(3), "the steak is charcoal")
    burnt.scroll_into_view_if_needed()
    photograph("kitchen-burnt-dark", notebook.page)
    background = burnt.evaluate("root => getComputedStyle(root).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", background)[:3]) < 80


def test_a_manager_s_refused_wish_says_why(open_in_window: Opener) -> None:
    notebook = open_in_window(lesson="04-manager-and-workers.ipynb")
    notebook.run_to_end(0)
    notebook.run(2)
    timeline = notebook.timeline(2)
    chips = timeline.locator(".et-agent")
    expect(chips.filter(has_text="Re").first).to_be_visible(timeout=60_000)
    photograph("manager-live-light", notebook.page)
    notebook.wait_until_done(2)
    wait_for_text(timeline, "Completed")
    wait_for_text(timeline, "scripted model")
    wait_for(lambda: {"Re", "Hi", "Wr"} <= set(chips.all_inner_texts()), 30)
    timeline.get_by_role("button", name="4 errors: show the next").click()
    wait_for_text(timeline, "stage 1 is not yet complete")
    photograph("manager-refused-light", timeline)


def test_a_retry_and_a_spent_budget_show_in_the_dark(open_in_window: Opener) -> None:
    notebook = open_in_window(lesson="05-when-things-fail.ipynb", theme="dark")
    notebook.run_to_end(0, 1)
    retried = notebook.timeline(1)
    retried.get_by_role("button", name="1 retried: show the next").click()
    wait_for_text(retried, "429")
    notebook.run_to_end(8)
    wait_for_text(notebook.timeline(8), "Budget exceeded")
    wait_for_text(notebook.timeline(8), "5 of 5 calls")
    photograph("limits-dark", notebook.page)
