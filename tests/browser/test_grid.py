"""The grid of a map or of items as a person sees it, in a page of its own and in JupyterLab (W37)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.built_view import open_view, wait_for_picture
from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, find_axe_faults, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ROWS = """
import asyncio
from pathlib import Path

rows = [{"city": f"City {number}"} for number in range(90)]

async def find(task):
    number = int(task.inputs["city"].split()[-1])
    while number >= 60 and not Path("grid.wake").exists():
        await asyncio.sleep(0.05)
    if number % 20 == 7:
        raise ValueError("no such city")
    return f"{task.inputs['city']} lies by the sea."

def write(task):
    return f"A guide to {task.inputs['city']}, <img src=x onerror='window.hacked=1'> in two parts."

def sum_up(task):
    number = int(task.name.rstrip("]").split("[")[1])
    if number % 20 == 7:
        raise ValueError("no such city")
    return f"Part {number}."

def is_even(output, inputs):
    return int(inputs["city"].split()[-1]) % 2 == 0
"""
MAP = """%%ensemble -o res --map rows --score is_even
max_concurrency: 4
tasks:
  find: {description: "Find {city}", handler: find}
  write: {description: "Write about {city}", handler: write}
"""
ITEMS = """%%ensemble -o report
error_strategy: partial
tasks:
  summarise: {for_each: rows, description: "Summarise {item}", handler: sum_up}
"""
PRINT = "print('chosen:', res.selection, [*res.frame.loc[res.selection].city])"
# The colour of the canvas in the middle of a cell, and how much of the cell has it.
_LOOK = """(canvas, {x, y, w, h}) => {
  const ratio = canvas.width / canvas.getBoundingClientRect().width;
  const side = Math.min(w, h, 14);
  const top = y + (h - side) / 2;
  const { data } = canvas.getContext("2d").getImageData(x * ratio, top * ratio, side * ratio, side * ratio);
  const colours = {};
  let painted = 0;
  for (let k = 0; k < data.length; k += 4) {
    if (data[k + 3] < 128) continue;
    painted += 1;
    const colour = [data[k], data[k + 1], data[k + 2]].join();
    colours[colour] = (colours[colour] ?? 0) + 1;
  }
  const [most] = Object.entries(colours).sort((a, b) => b[1] - a[1]);
  return { colour: most ? most[0] : null, share: painted / (data.length / 4), colours: Object.keys(colours).length };
}"""


def open_grid(view: Locator) -> Locator:
    """Show the run as a grid, and give its canvas once it is drawn."""
    view.get_by_role("radio", name="Grid", exact=True).click()
    canvas = view.locator(".et-matrix-canvas")
    wait_for(lambda: bool(canvas.count()) and bool(canvas.evaluate("it => it.listCells && it.width > 300")), 60)
    return canvas


def cells_of(canvas: Locator) -> list[dict[str, Any]]:
    """All cells as they are drawn."""
    found: list[dict[str, Any]] = canvas.evaluate("it => it.listCells()")
    return found


def count_cells(canvas: Locator) -> int:
    found: int = canvas.evaluate("it => it.listCells().length")
    return found


def find_cell(canvas: Locator, line: int, column: int) -> dict[str, Any]:
    """One of the cells; the page looks for it, since thousands take their time to come from there."""
    is_it = "each => each.line === line && each.column === column"
    found: dict[str, Any] = canvas.evaluate(f"(it, [line, column]) => it.listCells().find({is_it})", [line, column])
    return found


def middle_of(cell: dict[str, Any]) -> dict[str, float]:
    return {"x": cell["x"] + min(cell["w"], 14) / 2, "y": cell["y"] + cell["h"] / 2}


def look_at(canvas: Locator, line: int, column: int) -> dict[str, Any]:
    """What is on the screen where a cell stands."""
    seen: dict[str, Any] = canvas.evaluate(_LOOK, find_cell(canvas, line, column))
    return seen


def drag(canvas: Locator, first: int, last: int, column: int) -> None:
    """Drag from a line to another one."""
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    start, end = middle_of(find_cell(canvas, first, column)), middle_of(find_cell(canvas, last, column))
    mouse = canvas.page.mouse
    mouse.move(box["x"] + start["x"], box["y"] + start["y"])
    mouse.down()
    mouse.move(box["x"] + end["x"], box["y"] + end["y"], steps=4)
    mouse.up()


def go_on(page: Page, n: int, row: dict[str, Any]) -> None:
    """Have the run go on by one row, in its `n`th message."""
    page.evaluate(
        """([n, row]) => {
            const { run, version } = model.snapshot;
            model.post({ kind: "delta", version, from: n - 1, n, run, rows: [row], text: [] });
        }""",
        [n, row],
    )


# A call in the only task of the fourth row.
_CALL = {
    "span_id": "call",
    "parent_id": "r3.t0",
    "kind": "llm",
    "name": "call",
    "start_ms": 60,
    "end_ms": 90,
    "status": "ok",
    "critical": True,
}
# How much of the name of a line is painted at least at half strength.
_INK = """(canvas, {y, h}) => {
  const ratio = canvas.width / canvas.getBoundingClientRect().width;
  const { data } = canvas.getContext("2d").getImageData(12 * ratio, y * ratio, 100 * ratio, (h - 4) * ratio);
  return data.filter((value, k) => k % 4 === 3 && value > 128).length;
}"""


@pytest.mark.parametrize(
    "theme, rows, said",
    [("light", 2500, "done 9,859failed 94skipped 47"), ("dark", 300, "done 1,182failed 12skipped 6")],
)
def test_w37_ten_thousand_cells_are_seen_at_once_and_each_says_its_reply(
    page: Page, address: str, theme: str, rows: int, said: str
) -> None:
    view = open_view(page, address, f"map={rows}x3&theme={theme}&lab", width=1400)
    canvas = open_grid(view)
    wait_for(lambda: count_cells(canvas) == 4 * rows, 30)
    cells = cells_of(canvas)
    assert {each["look"] for each in cells} == {"ok", "error", "skipped"}
    done, failed, skipped = look_at(canvas, 10, 0), look_at(canvas, 11, 2), look_at(canvas, 11, 3)
    assert done["colour"] != failed["colour"]
    assert done["colours"] == 1
    assert failed["colours"] > 1, "what failed has a cross, too"
    assert skipped["share"] < 0.6 < done["share"]
    expect(view.get_by_label("Legend: Status")).to_have_text(said)
    canvas.hover(position=middle_of(find_cell(canvas, 259, 2)))
    tip = view.locator(".et-matrix-tip")
    expect(tip).to_contain_text("row 259 · city: City 259")
    expect(tip).to_contain_text(re.compile(r"write · done · \d+ ms · \$0.000"))
    expect(tip).to_contain_text("The reply of r259.t1: a city by the sea")
    photograph(f"grid-{theme}-1400", page)
    canvas.click(position=middle_of(find_cell(canvas, 259, 2)))
    expect(view.locator(".et-drawer")).to_contain_text("The reply of r259.t1")
    page.set_viewport_size({"width": 480, "height": 900})
    wait_for(lambda: canvas.evaluate("it => it.getBoundingClientRect().width") < 480, 30)
    photograph(f"grid-{theme}-480", page)
    assert find_axe_faults(view) == []


def test_w37_each_colour_has_steps_of_another_size_and_a_legend(page: Page, address: str) -> None:
    view = open_view(page, address, "map=40x3&lab", width=1400)
    canvas = open_grid(view)
    shown = view.get_by_label("Colour")
    expect(shown.locator("option")).to_have_text(["Status", "Time", "Cost", "is_right", "share", "tone"])
    shown.select_option(label="share")
    expect(view.get_by_label("Legend: share")).to_contain_text("≤ 0.16")
    wait_for(lambda: count_cells(canvas) == 40, 30)
    assert {each["look"] for each in cells_of(canvas)} == {0, 1, 2, 3, 4, "error"}
    first = [each for each in cells_of(canvas) if 24 < each["y"] < 350]
    sizes = {each["look"]: look_at(canvas, each["line"], 0)["share"] for each in first}
    ordered = [sizes[look] for look in range(5)]
    assert ordered == sorted(ordered)
    assert ordered[-1] > 2 * ordered[0]
    shown.select_option(label="is_right")
    expect(view.get_by_label("Legend: is_right")).to_have_text(re.compile(r"passed \d+not passed \d+failed 1"))
    photograph("grid-scores-light", page)


def test_w37_colours_are_not_needed(browser: Browser, address: str) -> None:
    context = browser.new_context(forced_colors="active")
    page = context.new_page()
    view = open_view(page, address, "map=500x3&lab", width=900)
    canvas = open_grid(view)
    view.get_by_label("Colour").select_option(label="is_right")
    wait_for(lambda: count_cells(canvas) == 500, 30)
    passed, not_passed, failed = look_at(canvas, 0, 0), look_at(canvas, 2, 0), look_at(canvas, 11, 0)
    assert passed["colour"] == not_passed["colour"], "the system has one colour for both"
    assert passed["share"] > 0.85 > not_passed["share"]
    assert failed["colour"] != passed["colour"]
    photograph("grid-forced-colours", page)
    context.close()


def test_w37_keys_walk_open_and_select_rows_and_readers_are_told(page: Page, address: str) -> None:
    view = open_view(page, address, "map=40x3&lab", width=900)
    canvas = open_grid(view)
    grid = view.get_by_role("grid", name="40 rows, tasks side by side")
    grid.focus()

    def current() -> str:
        return str(
            grid.evaluate("it => document.getElementById(it.getAttribute('aria-activedescendant'))?.textContent")
        )

    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    wait_for(lambda: current().startswith("find, done, 97 ms, $0.000097"), 30, current)
    page.keyboard.press("Enter")
    expect(view.locator(".et-drawer")).to_contain_text("The reply of r1.t0")
    page.keyboard.press("Escape")
    expect(view.locator(".et-drawer")).to_have_count(0)
    for _ in range(3):
        page.keyboard.press("Shift+ArrowDown")
    chosen = grid.locator("[role=row][aria-selected=true]")
    expect(chosen).to_have_count(4)
    expect(chosen.first).to_contain_text("row 1 · city: City 1")
    expect(view.locator(".et-summary")).to_contain_text("4 tasks")
    assert [each["line"] for each in cells_of(canvas) if each["isSelected"] and each["column"] == 0] == [1, 2, 3, 4]
    page.keyboard.press("End")
    wait_for(lambda: find_cell(canvas, 39, 0)["y"] < 400, 30)  # it has scrolled
    expect(grid.locator("[role=row]").last).to_have_attribute("aria-rowindex", "41")
    view.get_by_label("Search the run").fill("status:failed")
    wait_for(lambda: [each["line"] for each in cells_of(canvas)][-1] < 5, 30)
    assert find_axe_faults(view) == []


def test_w37_what_was_done_in_the_only_task_of_a_row_is_found_and_selected_in_its_cell(
    page: Page, address: str
) -> None:
    view = open_view(page, address, "map=40x1&lab", width=900)
    canvas = open_grid(view)
    grid = view.get_by_role("grid")
    go_on(page, 2, _CALL)
    search = view.get_by_label("Search the run")
    search.fill("kind:llm")
    expect(grid.locator("[role=rowheader]")).to_have_text(["row 3 · city: City 3"])
    page.keyboard.press("Enter")
    expect(grid.locator("[role=row][aria-selected=true]")).to_have_text(re.compile("row 3 · city: City 3"))
    view.get_by_role("button", name="Dim", exact=True).click()
    wait_for(lambda: canvas.evaluate(_INK, find_cell(canvas, 4, 0)) == 0, 30)
    assert canvas.evaluate(_INK, find_cell(canvas, 3, 0)) > 0
    photograph("grid-dimmed-light", page)
    search.fill("")
    wait_for(lambda: canvas.evaluate(_INK, find_cell(canvas, 4, 0)) > 0, 30)
    grid.focus()
    page.keyboard.press("c")
    wait_for(lambda: canvas.evaluate(_INK, find_cell(canvas, 4, 0)) == 0, 30)
    assert canvas.evaluate(_INK, find_cell(canvas, 3, 0)) > 0


def test_w37_a_grid_stays_where_it_was_scrolled_to_while_the_run_goes_on(page: Page, address: str) -> None:
    view = open_view(page, address, "map=100x1&lab", width=900)
    canvas = open_grid(view)
    go_on(page, 2, _CALL)
    view.get_by_label("Search the run").fill("kind:llm")
    page.keyboard.press("Enter")
    view.get_by_label("Search the run").fill("")
    wait_for(lambda: count_cells(canvas) == 100, 30)
    chosen = view.get_by_role("grid").locator("[role=row][aria-selected=true]")
    expect(chosen).to_have_text(re.compile("row 3 · city: City 3"))
    view.locator(".et-matrix > .et-scrollbar").evaluate("it => { it.scrollTop = 900; }")
    wait_for(lambda: find_cell(canvas, 3, 0)["y"] < -700, 30)
    stood = find_cell(canvas, 3, 0)
    go_on(page, 3, {"span_id": "r100", "parent_id": "run", "kind": "task", "name": "row 100", "status": "pending"})
    wait_for(lambda: count_cells(canvas) == 101, 30)
    wait_for_picture(page)
    assert find_cell(canvas, 3, 0) == stood


def test_w37_a_drag_selects_rows(page: Page, address: str) -> None:
    view = open_view(page, address, "map=500x3&lab", width=1400)
    canvas = open_grid(view)
    drag(canvas, 30, 80, 1)
    expect(view.locator(".et-summary")).to_contain_text("51 spans selected")
    sent = page.evaluate("() => model.sent.filter(({ kind }) => kind === 'selection').at(-1)?.selection")
    assert sent == [f"r{number}" for number in range(30, 81)]
    tint = canvas.evaluate(_LOOK, {**find_cell(canvas, 50, 1), "w": 2, "h": 2})
    assert tint["share"] > 0
    photograph("grid-selected-light", page)


def test_w37_a_run_without_rows_or_items_has_no_grid(page: Page, address: str) -> None:
    view = open_view(page, address, "at=99999&lab")
    expect(view.get_by_role("radio", name="Table", exact=True)).to_be_visible()
    expect(view.get_by_role("radio", name="Grid", exact=True)).to_have_count(0)


def test_w37_the_grid_of_a_real_map_fills_and_its_rows_are_data(open_in_window: Opener, lab: Lab) -> None:
    notebook = open_in_window(LOAD, ROWS, MAP, PRINT, "res.selection = [3, 5]", PRINT)
    page = notebook.page
    notebook.run_to_end(0, 1)
    notebook.run(2)
    view = notebook.timeline(2)
    expect(view.locator(".et-tasks")).to_contain_text("of 90", timeout=60_000)
    canvas = open_grid(view)
    legend = view.get_by_label("Legend: Status")
    expect(legend).to_contain_text("running")
    expect(legend).to_contain_text("pending")
    photograph("grid-lab-live", page)
    (lab.work / "grid.wake").touch()
    notebook.wait_until_done(2)
    expect(legend).to_have_text(re.compile(r"^done \d+failed 10(skipped \d+)?$"))
    wait_for(lambda: count_cells(canvas) == 270, 30)
    canvas.hover(position=middle_of(find_cell(canvas, 4, 2)))
    expect(view.locator(".et-matrix-tip")).to_contain_text("A guide to City 4, <img src=x")
    view.get_by_label("Colour").select_option(label="is_even")
    expect(view.get_by_label("Legend: is_even")).to_contain_text("not passed 40")
    photograph("grid-lab-scores", page)
    assert page.evaluate("window.hacked") is None

    drag(canvas, 10, 12, 0)
    expect(view.locator(".et-summary")).to_contain_text("3 spans selected")
    page.wait_for_timeout(300)  # the kernel is told at most every 100 ms
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "chosen: [10, 11, 12] ['City 10', 'City 11', 'City 12']")
    notebook.run_to_end(4, 5)
    wait_for_text(notebook.outputs(5), "chosen: [3, 5] ['City 3', 'City 5']")
    wait_for(lambda: [each["line"] for each in cells_of(canvas) if each["isSelected"]] == [3, 5], 30)
    assert find_axe_faults(view) == []


def test_w37_a_saved_map_has_its_grid_without_a_kernel(open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, ROWS, MAP, ITEMS)
    page = notebook.page
    (lab.work / "grid.wake").touch()
    notebook.run_to_end(0, 1, 2, 3)
    wait_for_text(notebook.timeline(3), "Completed with warnings")
    notebook.save()
    saved = json.loads(notebook.path.read_text())
    assert "application/vnd.ensemble.trace+json" in saved["cells"][2]["outputs"][0]["data"]
    notebook.shut_down()
    page.goto("about:blank")
    notebook.open()
    check_saved_grids(page)
    photograph("grid-saved-lab", page)
    notebook.shut_down()
    page.goto(lab.notebook_7_url(notebook.path))
    check_saved_grids(page)
    photograph("grid-saved-notebook-7", page)


def check_saved_grids(page: Page) -> None:
    """Of a map and of items, in a notebook that was opened anew."""
    views = page.locator(".ensemble-timeline")
    expect(views).to_have_count(2)
    rows, items = views.nth(0), views.nth(1)
    wait_for_text(rows, "saved view")
    canvas = open_grid(rows)
    wait_for(lambda: count_cells(canvas) == 270, 30)
    canvas.hover(position=middle_of(find_cell(canvas, 4, 2)))
    expect(rows.locator(".et-matrix-tip")).to_contain_text("A guide to City 4")
    rows.get_by_label("Colour").select_option(label="is_even")
    expect(rows.get_by_label("Legend: is_even")).to_contain_text("not passed 40")
    canvas = open_grid(items)
    assert [each["of"] for each in cells_of(canvas)[:2]] == ["summarise", "summarise"]
    wait_for(lambda: count_cells(canvas) == 90, 30)
