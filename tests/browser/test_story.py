"""What an audience is shown (W32, W35): a team is planned, watched, approved, looked back at, taken along as a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.lab import find_axe_faults, photograph, wait_for
from tests.browser.scenes import PACE, REPORT, REPORT_TEAM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

    from tests.browser.conftest import Opener

TASKS = ("market", "prices", "competitors", "risks", "draft", "check", "title", "sign_off")
EXPORT = 'report.export("report.html")'


def test_w32_w35_a_team_is_planned_watched_approved_looked_back_at_and_taken_along(
    open_notebook: Opener, browser: Browser
) -> None:
    team = REPORT_TEAM.replace(PACE, "PACE = 0.5")
    plan = REPORT.replace("-o report", "--dry-run")
    notebook = open_notebook(LOAD, team, plan, REPORT, EXPORT)
    page = notebook.page

    # The plan is a graph, from left to right.
    notebook.run_to_end(0, 1, 2)
    planned = notebook.outputs(2)
    for task in TASKS:
        expect(planned.get_by_text(task, exact=True).first).to_be_visible()
    expect(planned).to_contain_text("likely cost: about $")
    order = [left_of(planned.get_by_text(task, exact=True).first) for task in ("market", "draft", "check", "sign_off")]
    assert order == sorted(order)
    photograph("story-1-planned", planned)

    # The run lights up the same graph.
    notebook.run(3)
    view = notebook.timeline(3)
    view.get_by_title("Graph (g)").click()
    graph = view.get_by_role("tree", name="Graph of the run")
    expect(node(graph, "market")).to_have_attribute("data-status", "running")
    expect(node(graph, "draft")).to_have_attribute("data-status", "pending")
    lit = [left_of(node(graph, task)) for task in ("market", "draft", "check", "sign_off")]
    assert lit == sorted(lit)
    photograph("story-2-lit", view)

    # The critic sends it back, and the loop has its count.
    expect(graph).to_contain_text("3 rounds")
    photograph("story-3-sent-back", view)

    # It waits for a person, who approves.
    approve = view.get_by_role("button", name="Approve")
    expect(approve).to_have_attribute("aria-disabled", "false")
    expect(node(graph, "sign_off")).to_contain_text("waiting for you")
    photograph("story-4-asked", view)
    approve.click()
    notebook.wait_until_done(3)
    expect(node(graph, "sign_off")).to_have_attribute("data-status", "ok")

    # The playhead goes back to where the critic was at work, and the graph with it.
    view.get_by_role("radio", name="Bars").click()
    show_playhead(view)
    goes_back(view, "sign_off")
    photograph("story-5-back", view)
    view.get_by_title("Graph (g)").click()
    expect(node(graph, "sign_off")).to_have_attribute("data-status", "pending")
    expect(node(graph, "market")).to_have_attribute("data-status", "ok")
    photograph("story-6-back-in-the-graph", view)
    assert find_axe_faults(view) == []

    # The page that is taken along needs no network, and is looked back at on a phone.
    notebook.run_to_end(4)
    exported = notebook.path.parent / "report.html"
    wait_for(exported.exists, 30)
    phone = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, offline=True)
    taken = phone.new_page()
    taken.goto(exported.as_uri())
    carried = taken.locator(".ensemble-timeline")
    expect(carried.locator(".et-row").first).to_be_visible()
    show_playhead(carried)
    goes_back(carried, "sign_off")
    assert taken.evaluate("document.documentElement.scrollWidth") <= 390
    photograph("story-7-on-a-phone", taken)
    phone.close()
    page.keyboard.press("Escape")


def node(graph: Locator, task: str) -> Locator:
    """The node of a task."""
    return graph.get_by_role("treeitem").filter(has=graph.page.locator("b").get_by_text(task, exact=True)).last


def left_of(part: Locator) -> float:
    """Where a part of the page begins, in pixels from the left."""
    box = part.bounding_box()
    assert box is not None
    return box["x"]


def show_playhead(view: Locator) -> None:
    """Have the playhead shown, as a person who reads the buttons does."""
    view.get_by_role("button", name="Playhead", exact=True).click()
    expect(view.get_by_role("slider", name="Playhead")).to_be_visible()


def goes_back(view: Locator, task: str) -> None:
    """Move the playhead to a third of the run, where a task has not begun, and see its row wait."""
    playhead = view.get_by_role("slider", name="Playhead")
    playhead.focus()
    view.page.keyboard.press("Home")
    for _ in range(3):
        view.page.keyboard.press("PageUp")
    expect(playhead).to_have_attribute("aria-valuetext", re.compile("done"))
    expect(view.locator(".et-row", has_text=task).first).to_have_attribute("data-status", "pending")
