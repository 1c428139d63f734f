"""What a person selects in the timeline is data in the next cell, and the other way round (W7)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.cell import LOAD, REPORT, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import Notebook, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHOW = "report.timeline"
RANGE = re.compile(r"range: \(([\d.]+), ([\d.]+)\)")
PRINT = """
chosen = report.frames.spans.loc[report.timeline.selection]
print("chosen:", [*chosen.index], [*chosen.kind.astype(str)], report.timeline.range)
"""
SET = """
report.timeline.selection = report.frames.spans.query("kind == 'tool'").index
report.timeline.range = (0, report.frames.runs.wall_ms.iloc[0])
"""
# Where a bar is in the chart, by its kind and number.
_FIND_BAR = """([cell, shape, number]) => {
  const canvas = document.querySelectorAll(".jp-Notebook .jp-CodeCell")[cell].querySelector(".et-canvas");
  const bar = canvas.listBars().filter((bar) => bar.shape === shape)[number];
  return bar && [bar.x + bar.w / 2, bar.y + bar.h / 2, bar.span];
}"""


def click_bar(notebook: Notebook, cell: int, shape: str, number: int = 0) -> str:
    """Click the bar of a span, whose id it gives."""
    place: list[tuple[float, float, str]] = []

    def is_there() -> bool:
        found = notebook.page.evaluate(_FIND_BAR, [cell, shape, number])
        place[:] = [found] if found else []
        return bool(found)

    wait_for(is_there, 30)
    x, y, span = place[0]
    notebook.timeline(cell).locator(".et-canvas").click(position={"x": x, "y": y})
    return span


def test_w7_a_selected_bar_is_a_row_and_selected_rows_are_bars(page: Page, open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, SHOW, PRINT, SET)
    notebook.run_to_end(0, 1, 2, 3, 4)
    wait_for_text(notebook.outputs(4), "chosen: [] [] None")

    # In the view that the cell itself left behind: `report.timeline` has the same selection.
    span = click_bar(notebook, 2, "llm")
    run_until_it_says(notebook, 4, f"chosen: ['{span}'] ['llm'] None")
    expect(notebook.timeline(3).locator(".et-row[aria-selected=true]")).to_have_count(1)

    notebook.run_to_end(5)
    for number in (2, 3):
        notebook.timeline(number).locator(".et-range-handle").first.wait_for()
        expect(notebook.timeline(number).locator(".et-range-handle")).to_have_count(2)
    wait_for_text(notebook.timeline(3).locator(".et-summary"), "1 tool call")
    photograph("selection-light", notebook.timeline(3))

    # A page that comes later is told what is selected.
    notebook.save()
    notebook.reload()
    notebook.timeline(3).locator(".et-range-handle").first.wait_for()
    wait_for_text(notebook.timeline(3).locator(".et-summary"), "1 tool call")


def test_w7_a_marked_range_is_data_and_follows_its_edge(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, REPORT, SHOW, "print('range:', report.timeline.range)", PRINT)
    page = notebook.page
    notebook.run_to_end(0, 1, 2, 3)
    canvas = notebook.timeline(3).locator(".et-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 70, steps=8)
    page.mouse.up()
    page.keyboard.up("Shift")
    shown = notebook.timeline(3).locator(".et-summary")
    shown.wait_for()
    from_ms, to_ms = read_range(notebook)
    assert 0 < from_ms < to_ms

    edge = notebook.timeline(3).locator(".et-range-handle[data-side=from]")
    place = edge.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 12, place["y"] + 20)
    page.mouse.down()
    page.mouse.move(place["x"] + 12 + box["width"] * 0.2, place["y"] + 20, steps=5)
    page.mouse.up()
    moved, end = read_range(notebook, before=(from_ms, to_ms))
    assert from_ms < moved < to_ms
    assert end == to_ms

    canvas.click(position={"x": 40, "y": 10})  # the axis: it takes the focus and selects nothing
    page.keyboard.press("Escape")
    shown.wait_for(state="detached")
    run_until_it_says(notebook, 5, "chosen: [] [] None")


def read_range(notebook: Notebook, before: tuple[float, float] | None = None) -> tuple[float, float]:
    """What a cell prints of the range, once it is another one than `before` and stays as it is."""
    seen: list[tuple[float, float] | None] = [None]

    def rests() -> bool:
        """A drag is told at most every 100 ms, and its end after it."""
        notebook.page.wait_for_timeout(100)
        notebook.run_to_end(4)
        found = RANGE.search(notebook.output(4))
        seen.append((float(found[1]), float(found[2])) if found else None)
        return seen[-1] == seen[-2] and seen[-1] not in {None, before}

    wait_for(rests, 60, lambda: str(seen))
    assert seen[-1] is not None
    return seen[-1]


def run_until_it_says(notebook: Notebook, number: int, text: str) -> None:
    """Run a cell again until what was selected has reached the kernel."""

    def says() -> bool:
        notebook.run_to_end(number)
        return text in notebook.output(number)

    wait_for(says, 60, lambda: notebook.output(number))


def test_w7_a_bar_selected_in_notebook_7_is_a_row(open_in_notebook_7: Opener) -> None:
    notebook = open_in_notebook_7(LOAD, TEAM, REPORT, PRINT)
    notebook.run_to_end(0, 1, 2)
    span = click_bar(notebook, 2, "llm", 1)
    run_until_it_says(notebook, 3, f"chosen: ['{span}'] ['llm'] None")
