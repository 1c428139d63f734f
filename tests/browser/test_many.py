"""Very many rows and items as a person sees them: while they are at work, at rest, and opened (W25)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, find_axe_faults, photograph, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator

TEAM = """
import asyncio
from pathlib import Path

COUNT = {count}
items = [f"document {{number}}" for number in range(COUNT)]
rows = [{{"topic": item}} for item in items]
begun = []

async def work(task):
    number = int((task.inputs.get("topic") or task.name.rstrip("]").replace("[", " ")).split()[-1])
    begun.append(number)
    if not Path("many{count}.wake").exists():
        await asyncio.sleep(0.05 + number % 7 / 100)
    while len(begun) > 160 and not Path("many{count}.wake").exists():
        await asyncio.sleep(0.05)
    if number < 300 and number % 10 == 3:
        raise ValueError("no such document")
    return f"# A heading\\\\n\\\\nSummary of {{number}}"
"""
FOR_EACH = """%%ensemble -o report --view bars
error_strategy: partial
max_concurrency: 8
tasks:
  summarise: {for_each: items, description: "Summarise {item}", handler: work, max_items: 2000}
"""
MAP = """%%ensemble -o res --map rows --view bars
max_concurrency: 8
tasks:
  summarise: {description: "Summarise {topic}", handler: work}
"""
PROGRESS = r"^\d+ of {total} · (\d+/s|\d+\.\d/s|\d+/min) · about \d+ (s|min|h) left$"


@pytest.mark.parametrize("count, total", [(300, "300"), (1700, "1,700")])
@pytest.mark.parametrize("cell", [FOR_EACH, MAP], ids=["items", "rows"])
def test_many_are_one_strip_with_a_count_and_open_with_what_failed_first(
    open_in_window: Opener, lab: Lab, cell: str, count: int, total: str
) -> None:
    notebook = open_in_window(LOAD, TEAM.format(count=count), cell)
    page = notebook.page
    notebook.run_to_end(0, 1)
    notebook.run(2)
    view = notebook.timeline(2)
    expect(view.locator(".et-tasks")).to_have_text(re.compile(r"^1[45]\d of " + total + " · "), timeout=60_000)
    expect(view.locator(".et-tasks")).to_have_text(re.compile(PROGRESS.format(total=total)))
    whole = width_of(view)
    wait_for(lambda: abs(widths(view)["done"] - whole * 137 / count) < whole * 12 / count + 2, 30)  # it grows smoothly
    wait_for(lambda: 0 < widths(view)["failed"] < widths(view)["done"] / 5, 30)
    expect(view.locator(".et-row")).to_have_count(1)
    name = f"many-{'items' if cell is FOR_EACH else 'rows'}-{count}"
    photograph(f"{name}-live", page)
    (lab.work / f"many{count}.wake").touch()
    notebook.wait_until_done(2)
    expect(view.locator(".et-word")).to_have_text("Completed with warnings")
    expect(view.locator(".et-row")).to_have_count(1)
    expect(view.locator(".et-chip[data-hue=error]")).to_have_text("30")
    expect(view.locator(".et-chip[data-hue=wait]")).to_have_text("1")
    answer = notebook.outputs(2).locator("table").last
    wait_for(lambda: answer.locator("tbody tr").count() == 12, 30)
    expect(answer.locator("tbody tr")).to_contain_text(["failed"] * 12)
    wait_for(lambda: notebook.outputs(2).bounding_box()["height"] < 900, 30)
    expect(notebook.outputs(2)).to_contain_text(
        'all of them: report["summarise"].item_outputs' if cell is FOR_EACH else "all of them: res.frame"
    )
    assert find_axe_faults(view) == []
    if count == 300:
        for theme in ("light", "dark"):
            page.evaluate(
                f"jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme.title()}'}})"
            )
            view.and_(page.locator(f"[data-theme={theme}]")).wait_for(timeout=30_000)
            page.evaluate("jupyterapp.shell.collapseLeft()")
            for width in (1400, 900, 480):
                page.set_viewport_size({"width": width, "height": 900})
                photograph(f"{name}-{theme}-{width}", page)
            page.set_viewport_size({"width": 1400, "height": 900})
    view.get_by_label("Search the run").fill("status:failed")
    if cell is MAP:
        expect(view.locator(".et-toolbar")).to_contain_text(f"30 of {total} rows")
    wait_for(lambda: view.locator(".et-row[data-status=ok]").count() <= 1, 30)
    expect(view.locator(".et-row[data-status=error]")).not_to_have_count(0)
    photograph(f"{name}-failed", page)
    view.get_by_label("Search the run").fill("")
    expect(view.locator(".et-row")).to_have_count(1)
    view.locator(".et-gutter").focus()
    page.keyboard.press("Home")
    expect(view.locator(".et-row[aria-selected=true]")).to_have_count(1)
    page.wait_for_timeout(500)  # the kernel has heard of it
    page.keyboard.press("ArrowRight")
    shown = view.locator(".et-row")
    for number in range(1, 6):
        expect(shown.nth(number)).to_have_attribute("data-status", "error")
    photograph(f"{name}-opened", page)
    page.keyboard.press("End")
    last = view.locator(".et-row").last
    expect(last).to_have_attribute("data-status", "ok")
    expect(last.locator(".et-waits")).to_have_count(0)


def widths(view: Locator) -> dict[str, float]:
    """How wide the parts of the bar below the status line are, in pixels."""
    found: list[tuple[str, float]] = view.locator(".et-progress i").evaluate_all(
        "all => all.map(part => [part.dataset.part, part.getBoundingClientRect().width])"
    )
    return dict(found)


def width_of(view: Locator) -> float:
    """How wide that bar is."""
    return float(view.locator(".et-progress").evaluate("bar => bar.getBoundingClientRect().width"))
