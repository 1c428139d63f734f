"""What a person sees in a real JupyterLab: lessons, drawer, saved notebooks, the dark (W6, W14)."""

from __future__ import annotations

import json
import re

from tests.browser.cell import HOSTILE, LOAD, REPORT, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, photograph, wait_for_text

MARKUP = "document.querySelectorAll(\"img[src='x'], .jp-Cell-outputWrapper script\").length"


def test_the_first_lesson_runs_on_the_local_model(open_notebook: Opener) -> None:
    notebook = open_notebook(lesson="01-first-ensemble.ipynb")
    notebook.run_to_end(0, 1)
    assert "2/2 tasks" in notebook.timeline(1).inner_text()
    notebook.run_to_end(2)
    notebook.run(3)
    timeline = notebook.timeline(3)
    wait_for_text(timeline, "gather", 30)
    assert "Running" in timeline.inner_text()
    assert timeline.locator(".et-title").all_inner_texts() == ["gather", "risks", "brief"]
    assert notebook.prompt(3) == "[*]:"
    photograph("lesson-1-live-light", notebook.page)
    notebook.wait_until_done(3)
    assert "Completed" in timeline.inner_text()
    assert "3/3 tasks" in timeline.inner_text()
    assert "scripted" not in timeline.inner_text()
    timeline.get_by_text("brief", exact=True).first.click()
    drawer = timeline.get_by_label("Details of brief")
    drawer.get_by_role("tab", name="Messages").click()
    assert "Write a brief about tidal energy" in drawer.inner_text()
    assert "You write for engineers who have one minute." in drawer.inner_text()
    photograph("lesson-1-drawer-light", timeline)
    notebook.run_to_end(4)
    assert all(word in notebook.output(4) for word in ("gather", "risks", "brief", "Researcher", "Writer"))
    notebook.run_to_end(8)
    assert "Did you mean goal?" in notebook.output(8)
    assert "Traceback" not in notebook.output(8)
    photograph("lesson-1-light", notebook.page)


def test_the_drawer_shows_prompts_tools_and_replies_and_nothing_a_model_writes_is_run(open_notebook: Opener) -> None:
    failing = "%%ensemble\n- {name: search, description: Search, handler: fail}\n"
    mistaken = f'%%ensemble\n- {{description: Search, agent: "{HOSTILE}"}}\n'
    notebook = open_notebook(LOAD, TEAM, REPORT, "report.timeline", failing, mistaken)
    notebook.run_to_end(0, 1, 2, 3, 4, 5)
    assert f"A brief. tide (x) {HOSTILE}" in notebook.output(2)
    assert notebook.output(4).count(HOSTILE) >= 2  # in the timeline and in the error below it
    assert "there is no agent \"<img src=x onerror='window.hacked=1'>" in notebook.output(5)
    live = notebook.timeline(3)
    live.get_by_text("find", exact=True).first.click()
    notebook.page.keyboard.press("Enter")
    drawer = live.get_by_label("Details of find")
    drawer.get_by_role("tab", name="Messages").click()
    wait_for_text(drawer, "three notes about tides <img")
    assert "Your personal goal is: Find facts" in drawer.inner_text()
    assert "The tide turns twice a day." in drawer.inner_text()
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
    assert "saved view" in view.inner_text()
    view.get_by_text("find", exact=True).first.click()
    notebook.page.keyboard.press("Enter")
    drawer = view.get_by_label("Details of find")
    drawer.get_by_role("tab", name="Messages").click()
    assert "The tide turns twice a day." in drawer.inner_text()
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
    assert HOSTILE in untrusted.inner_text()
    assert notebook.page.evaluate("window.hacked") is None
    photograph("saved-notebook-7-light", notebook.page)


def test_the_kitchen_burns_in_the_dark(open_notebook: Opener) -> None:
    notebook = open_notebook(lesson="02-kitchen.ipynb", theme="dark")
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "Running", 30)
    photograph("kitchen-live-dark", notebook.page)
    notebook.wait_until_done(2)
    assert "scripted model" in notebook.timeline(2).inner_text()
    notebook.run_to_end(3, 4, 5, 6)
    burnt = notebook.timeline(6)
    assert "Failed" in burnt.inner_text()
    assert "the steak is charcoal" in notebook.output(6)
    burnt.scroll_into_view_if_needed()
    photograph("kitchen-burnt-dark", notebook.page)
    background = burnt.evaluate("root => getComputedStyle(root).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", background)[:3]) < 80


def test_a_manager_s_refused_wish_says_why(open_notebook: Opener) -> None:
    notebook = open_notebook(lesson="03-manager-and-workers.ipynb")
    notebook.run_to_end(0, 1, 4)
    notebook.run(5)
    timeline = notebook.timeline(5)
    wait_for_text(timeline, "reporter_1", 60)
    photograph("manager-live-light", notebook.page)
    notebook.wait_until_done(5)
    assert "Completed" in timeline.inner_text()
    assert "scripted model" in timeline.inner_text()
    assert all(name in timeline.inner_text() for name in ("manager", "reporter_1", "historian_1", "writer_1"))
    timeline.get_by_role("button", name="4 errors: show the next").click()
    wait_for_text(timeline, "stage 1 is not yet complete")
    photograph("manager-refused-light", timeline)


def test_waits_and_a_spent_budget_show_in_the_dark(open_notebook: Opener) -> None:
    notebook = open_notebook(lesson="04-when-things-fail.ipynb", theme="dark")
    notebook.run_to_end(0, 1, 2)
    retried = notebook.timeline(2)
    retried.get_by_role("button", name="1 retried: show the next").click()
    wait_for_text(retried, "429")
    notebook.run_to_end(23, 24)
    budget = notebook.timeline(24).inner_text()
    assert "Budget exceeded" in budget
    assert "5 of 5 calls" in budget
    notebook.run_to_end(26)
    assert "4/4 tasks" in notebook.timeline(26).inner_text()
    photograph("limits-dark", notebook.page)
