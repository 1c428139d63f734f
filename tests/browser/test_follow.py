"""What runs now is in sight, however many tasks there are, in a real JupyterLab (W5)."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, photograph, wait_for

TASKS: Final = 1000
# Task 700 waits until the test lets it go on, all others are over at once.
STEPS: Final = """
import asyncio
from pathlib import Path

async def step(task):
    while task.name == "task700" and not Path("go.wake").exists():
        await asyncio.sleep(0.05)
    return task.name
"""


def test_w5_rows_that_run_now_are_in_sight_until_a_person_scrolls(open_in_window: Opener, lab: Lab) -> None:
    lines = [f"- {{name: task{number}, description: Step, handler: step}}" for number in range(TASKS)]
    notebook = open_in_window(LOAD, STEPS, "\n".join(["%%ensemble -o many", *lines]))
    notebook.run_to_end(0, 1)
    notebook.run(2)
    timeline = notebook.timeline(2)
    running = timeline.locator(".et-row[data-status=running]", has_text="task700")
    running.wait_for(timeout=60_000)
    expect(timeline.get_by_role("button", name="Live")).to_have_count(0)
    photograph("follow-light", timeline)

    timeline.locator(".et-scrollbar").evaluate("bar => { bar.scrollTop = 0; }")
    wait_for(lambda: running.count() == 0, 30)
    notebook.page.wait_for_timeout(1000)
    assert running.count() == 0  # it stays where the person put it
    timeline.locator(".et-status").click(position={"x": 5, "y": 5})
    notebook.page.keyboard.press("l")
    running.wait_for(timeout=30_000)
    timeline.locator(".et-scrollbar").evaluate("bar => { bar.scrollTop = 0; }")
    timeline.get_by_role("button", name="Live").click()
    running.wait_for(timeout=30_000)
    (lab.work / "go.wake").touch()
    notebook.wait_until_done(2)
    wait_for(lambda: "Completed" in timeline.inner_text(), 30)


def test_w11_the_clock_goes_on_while_the_bars_are_below_the_window(open_in_window: Opener, lab: Lab) -> None:
    notebook = open_in_window(LOAD, STEPS, "%%ensemble -o one\n- {name: task700, description: Step, handler: step}")
    notebook.run_to_end(0, 1)
    notebook.run(2)
    timeline = notebook.timeline(2)
    clock = timeline.locator(".et-clock")
    expect(clock).not_to_have_text("0:00")
    canvas = timeline.locator(".et-canvas")
    # So far down that the window ends between the two.
    notebook.page.evaluate(
        """() => {
            const [view] = document.querySelectorAll(".jp-Notebook .ensemble-timeline");
            const canvas = view.querySelector(".et-canvas");
            const down = innerHeight + 40 - canvas.getBoundingClientRect().top;
            for (let box = view; box; box = box.parentElement) box.style.overflowAnchor = "none";
            view.style.marginTop = `${down}px`;
        }"""
    )
    expect(canvas).not_to_be_in_viewport()
    expect(clock).to_be_in_viewport()
    notebook.page.wait_for_timeout(500)
    shown = clock.inner_text()
    expect(clock).not_to_have_text(shown, timeout=10_000)
    (lab.work / "go.wake").touch()
    notebook.wait_until_done(2)
