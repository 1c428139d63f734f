"""The grid of a map or of items as a person sees it, in a page of its own and in JupyterLab (W37, W152 to W156)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.built_view import open_view
from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, find_axe_faults, photograph, wait_for, wait_for_text
from tests.browser.tables import cell_at, read_lines, read_names, show_table

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PARIS = "Paris is the capital of France, on the Seine, and has been since the year 987."
SEEN = "field => [...field.querySelectorAll('[role=row]')].length"


def sent_spans(page: Page) -> list[str]:
    found: list[str] = page.evaluate("() => model.sent.filter(({ kind }) => kind === 'selection').at(-1)?.selection")
    return found


@pytest.mark.parametrize("theme, width", [("light", 1400), ("dark", 1400), ("light", 480), ("dark", 480)])
def test_w152_a_map_is_a_table_of_answers_with_their_scores(page: Page, address: str, theme: str, width: int) -> None:
    view = open_view(page, address, f"variants=300x2&theme={theme}&lab", width=width)
    table = show_table(view)
    wait_for(lambda: read_lines(table)[0][-2] == ["✗not passed:", PARIS], 30, lambda: read_lines(table)[:2])
    first, second, *_ = read_lines(table)
    assert first == ["row 0", *([] if width == 480 else ["City 0", "0", "a city by the sea"]), *first[-2:]]
    assert second[-2:] == [["✓passed:", "Yes."], ["✗not passed:", "Yes."]]
    expect(table.get_by_role("columnheader", name="tersely")).to_contain_text("0.86 (0.78 to 0.91) of 300")
    expect(view.get_by_text("tersely is better (0.86 beside 0.66; +0.06 to +0.34)")).to_be_visible()
    assert table.evaluate(SEEN) < 40, "no more than what is seen is in the page"
    assert not page.evaluate("window.hacked")
    photograph(f"table-{theme}-{width}", page)
    assert find_axe_faults(view) == []


def test_w152_cells_that_failed_never_ran_or_were_reused_say_so(page: Page, address: str) -> None:
    view = open_view(page, address, "variants=300x3x60&lab", width=1400)
    table = show_table(view)
    view.get_by_label("Mark").select_option(label="Status")
    wait_for(lambda: len(read_lines(table)) > 8 and read_lines(table)[7][4] == ["reused:", "42 bridges"], 30)
    table.evaluate("it => { it.scrollTop = 42 * 50; }")
    wait_for(lambda: "row 50" in read_names(table), 30)
    cells = {str(line[0]): line[4:] for line in read_lines(table)}
    assert cells["row 50"][0] == ["skipped:", "skipped: the budget is used up"]
    assert cells["row 55"][2] == ["failed:", "no such city: <img src=x onerror='window.hacked=1'>"]
    table.evaluate("it => { it.scrollTop = 42 * 58; }")
    wait_for(lambda: "row 64" in read_names(table), 30)
    cells = {str(line[0]): line[4:] for line in read_lines(table)}
    assert cells["row 60"][0] == ["running:", "running"]
    assert cells["row 64"][0] == ["pending:", "pending"]
    photograph("table-states-light", page)
    assert not page.evaluate("window.hacked")


def test_w152_colours_are_not_needed(browser: Browser, address: str) -> None:
    context = browser.new_context(forced_colors="active")
    page = context.new_page()
    view = open_view(page, address, "variants=40x2&lab", width=900)
    table = show_table(view)
    cell_at(table, 1, 0).click()
    expect(cell_at(table, 1, 0)).to_have_attribute("aria-selected", "true")
    assert cell_at(table, 1, 0).evaluate("it => getComputedStyle(it).borderBottomWidth") == "3px"
    photograph("table-forced-colours", page)
    context.close()


def test_w153_cells_are_asked_for_as_they_are_seen(page: Page, address: str) -> None:
    view = open_view(page, address, "variants=10000x3&lab", width=1400)
    table = show_table(view)
    asked = "() => model.sent.filter(({ kind }) => kind === 'cells').flatMap(({ span_ids }) => span_ids)"
    wait_for(lambda: len(read_lines(table)) > 5 and read_lines(table)[0][4][1] == PARIS, 30)
    assert len(page.evaluate(asked)) < 150
    table.evaluate("it => { it.scrollTop = 42 * 8000; }")
    wait_for(lambda: read_names(table)[5:] and read_lines(table)[6][-1][1] != "", 30)
    assert "row 8002" in read_names(table)
    assert len(page.evaluate(asked)) < 300
    page.evaluate("() => model.sent.splice(0)")
    view.get_by_role("button", name="Differs").click()
    expect(view.get_by_text(re.compile("^[0-9,]+ of 10,000 rows$"))).to_be_visible()
    wait_for(lambda: len(page.evaluate(asked)) > 29_000, 60)
    view.get_by_label("Filter the rows").fill("")
    table.press("End")  # also as the first key
    wait_for(lambda: "row 9999" in read_names(table), 30)


def test_w154_the_table_is_filtered_sorted_and_searched(page: Page, address: str) -> None:
    view = open_view(page, address, "variants=300x2&lab", width=1400)
    table = show_table(view)
    box = view.get_by_label("Filter the rows")
    view.get_by_role("button", name="Failed").click()
    expect(box).to_have_value("failed")
    wait_for(lambda: read_names(table)[:2] == ["row 11", "row 64"], 30)
    expect(view.get_by_text("6 of 300 rows")).to_be_visible()
    box.fill("share < 0.02, right = passed")
    wait_for(lambda: read_names(table)[:3] == ["row 44", "row 67", "row 77"], 30)
    box.fill("shore < 0.02")
    expect(view.get_by_role("alert")).to_contain_text("“shore < 0.02” is no filter: write failed, differs, or right")
    box.fill("population > 298000")
    wait_for(lambda: read_names(table) == ["row 299"], 30)
    box.fill("")
    population = table.get_by_role("columnheader", name="population")
    for direction, first in (("ascending", "row 0"), ("descending", "row 299"), ("none", "row 0")):
        population.get_by_role("button").click()
        expect(population).to_have_attribute("aria-sort", direction)
        wait_for(lambda first=first: read_names(table)[0] == first, 30)  # type: ignore[misc]
    view.get_by_label("Mark").select_option(label="share")
    expect(table.get_by_role("columnheader", name="tersely")).to_contain_text("mean 0.496 of 291")
    table.get_by_role("columnheader", name="with sources").get_by_role("button").click()
    wait_for(lambda: read_lines(table)[0][-1][0] == "0.99", 30)
    view.get_by_label("Search the run").fill("no such city")
    expect(view.get_by_text("6 of 300 rows")).to_be_visible()


def test_w154_inputs_are_chosen_and_remembered(page: Page, address: str) -> None:
    view = open_view(page, address, "variants=30x2&lab", width=1400)
    table = show_table(view)
    expect(table.get_by_role("columnheader")).to_have_count(6)
    view.get_by_text("Inputs").click()
    view.get_by_label("expected").uncheck()
    view.get_by_label("notes").check()
    photograph("table-inputs-light", page)
    heads = table.get_by_role("columnheader")
    expect(heads).to_have_text(
        ["row", "city", "population", "notes", re.compile("tersely"), re.compile("with sources")]
    )
    table = show_table(open_view(page, address, "variants=30x2&lab", width=1400))
    expect(table.get_by_role("columnheader").nth(3)).to_have_text("notes")
    page.evaluate("localStorage.clear()")


def test_w155_keys_walk_open_and_select_and_readers_are_told(page: Page, address: str) -> None:
    view = open_view(page, address, "variants=40x2&lab", width=1400)
    show_table(view)
    grid = view.get_by_role("grid", name="40 rows, answers side by side")
    grid.focus()

    def current() -> str:
        return str(
            grid.evaluate("it => document.getElementById(it.getAttribute('aria-activedescendant'))?.textContent")
        )

    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    wait_for(lambda: current() == "✗not passed: Yes.", 30, current)
    wait_for(lambda: sent_spans(page) == ["v1.1"], 30)
    page.keyboard.press("Enter")
    expect(view.locator(".et-drawer")).to_contain_text("The reply of v1.1")
    page.keyboard.press("Escape")
    expect(view.locator(".et-drawer")).to_have_count(0)
    for _ in range(2):
        page.keyboard.press("Shift+ArrowDown")
    expect(grid.locator("[role=row][aria-selected=true]")).to_have_count(3)
    expect(view.get_by_role("group", name="Selected cells")).to_contain_text("6 cells in 3 rows selected")
    page.keyboard.press("End")
    wait_for(lambda: current() != "null" and sent_spans(page) == ["v1.39"], 30)
    page.keyboard.press("Control+ArrowUp")
    page.keyboard.press(" ")
    wait_for(lambda: sent_spans(page) == ["v1.39", "v1.38"], 30)
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    wait_for(lambda: sent_spans(page) == ["v0.38", "v1.38"], 30)  # left of the answers it is the whole row
    expect(grid.locator("[role=row][aria-selected=true]")).to_contain_text("row 38")
    assert find_axe_faults(view) == []


def test_w155_two_cells_are_compared_and_a_drag_selects_rows(page: Page, address: str) -> None:
    view = open_view(page, address, "variants=300x2&lab", width=1400, height=1000)
    table = show_table(view)
    cell_at(table, 2, 0).click()
    expect(view.locator(".et-drawer")).to_contain_text("tersely/row 2")
    cell_at(table, 2, 1).click(modifiers=["Control"])
    view.get_by_role("button", name="Diff", exact=True).click()
    expect(view.get_by_role("tab", name="Side by side")).to_have_attribute("aria-selected", "true")
    photograph("table-diff-light", page)
    view.get_by_role("button", name="Let go", exact=True).click()
    expect(view.get_by_role("group", name="Selected cells")).to_have_count(0)
    table.scroll_into_view_if_needed()
    start, end = (table.locator(f"[data-line='{line}'] [role=rowheader]").bounding_box() for line in (1, 4))
    assert start is not None
    assert end is not None
    page.mouse.move(start["x"] + 20, start["y"] + 20)
    page.mouse.down()
    page.mouse.move(end["x"] + 30, end["y"] + 20, steps=4)
    page.mouse.up()
    wait_for(lambda: sent_spans(page) == [f"v{variant}.{line}" for line in range(1, 5) for variant in (0, 1)], 30)
    photograph("table-selected-light", page)


def test_w155_a_table_stays_where_it_was_scrolled_to_while_the_run_goes_on(page: Page, address: str) -> None:
    view = open_view(page, address, "map=100x1&lab", width=900)
    table = show_table(view)
    wait_for(lambda: read_names(table)[0] == "row 0", 30)
    cell_at(table, 3, 0).click()
    table.evaluate("it => { it.scrollTop = 42 * 60; }")
    wait_for(lambda: "row 62" in read_names(table), 30)
    row = {"span_id": "r100", "parent_id": "run", "kind": "task", "name": "row 100", "status": "pending"}
    page.evaluate(
        """(row) => {
            const { run, version } = model.snapshot;
            model.post({ kind: "delta", version, from: 1, n: 2, run, rows: [row], text: [] });
        }""",
        row,
    )
    expect(view.get_by_text("101 rows")).to_be_visible()
    assert table.evaluate("it => it.scrollTop") == 42 * 60


def test_w37_a_run_without_rows_or_items_has_no_grid(page: Page, address: str) -> None:
    view = open_view(page, address, "at=99999&lab")
    expect(view.get_by_role("radio", name="Table", exact=True)).to_be_visible()
    expect(view.get_by_role("radio", name="Grid", exact=True)).to_have_count(0)


def test_w37_a_search_leaves_the_rows_in_which_it_finds_something(page: Page, address: str) -> None:
    view = open_view(page, address, "map=40x1&lab", width=900)
    table = show_table(view)
    call = {"span_id": "call", "parent_id": "r3.t0", "kind": "llm", "name": "call", "start_ms": 60, "end_ms": 90}
    row = {**call, "status": "ok", "critical": True}
    page.evaluate(
        """(row) => {
            const { run, version } = model.snapshot;
            model.post({ kind: "delta", version, from: 1, n: 2, run, rows: [row], text: [] });
        }""",
        row,
    )
    search = view.get_by_label("Search the run")
    search.fill("kind:llm")
    wait_for(lambda: read_names(table) == ["row 3"], 30)
    page.keyboard.press("Enter")
    expect(cell_at(table, 0, 0)).to_have_attribute("aria-selected", "true")
    view.get_by_role("button", name="Dim", exact=True).click()
    expect(table.locator("[data-line='4']")).to_have_attribute("data-dimmed", "true")
    expect(table.locator("[data-line='3']")).to_have_attribute("data-dimmed", "false")


ROWS = """
import asyncio
from pathlib import Path

rows = [{"city": f"City {number}", "size": number} for number in range(40)]

async def describe(task):
    number = task.inputs["size"]
    while number >= 20 and not Path("table.wake").exists():
        await asyncio.sleep(0.05)
    if number == 7:
        raise ValueError("no such city")
    return f"{task.inputs['style']} {task.inputs['city']}, <img src=x onerror='window.hacked=1'> in two parts."

def right(output, inputs):
    return inputs["size"] % (2 if inputs["style"] == "Tersely" else 3) == 0
"""
TEAM = """from ensemble_notebook import Ensemble, Task
team = Ensemble(
    tasks=[Task(name="describe", description="{style}: {city}", handler=describe)], inputs={"style": "Plainly"}
)
both = team.variants({"tersely": {"style": "Tersely"}, "at length": {"style": "At length"}})"""
PRINT = "print('chosen:', res.selection, [*res.frame.loc[res.selection].city])"


def check_table(view: Locator) -> dict[str, Any]:
    """The lines of the table of `TEAM` by their names, once the first of them have their answers."""
    table = show_table(view)
    wait_for(lambda: len(read_lines(table)) > 7 and read_lines(table)[0][-1][1].startswith("At length"), 60)
    return {str(line[0]): line[1:] for line in read_lines(table)}


def test_w152_the_table_of_a_real_map_fills_and_its_rows_are_data(open_in_window: Opener, lab: Lab) -> None:
    run = "res = both.map(rows, score=right, concurrency=8)\nres.timeline"
    notebook = open_in_window(LOAD, ROWS, TEAM, run, PRINT, "res.selection = [('tersely', 3)]", PRINT)
    page = notebook.page
    (lab.work / "table.wake").touch()
    notebook.run_to_end(0, 1, 2, 3)
    view = notebook.timeline(3)
    lines = check_table(view)
    said = "City 0, <img src=x onerror='window.hacked=1'> in two parts."
    assert lines["row 0"] == ["City 0", "0", ["✓passed:", f"Tersely {said}"], ["✓passed:", f"At length {said}"]]
    assert lines["row 7"][2][0] == "failed:"
    assert "no such city" in lines["row 7"][2][1]
    photograph("table-lab", page)
    table = view.locator(".et-answers-field")
    cell_at(table, 2, 1).click()
    page.wait_for_timeout(300)  # the kernel is told at most every 100 ms
    notebook.run_to_end(4)
    wait_for_text(notebook.outputs(4), "chosen: [('at length', 2)] ['City 2']")
    notebook.run_to_end(5, 6)
    wait_for_text(notebook.outputs(6), "chosen: [('tersely', 3)] ['City 3']")
    expect(cell_at(table, 3, 0)).to_have_attribute("aria-selected", "true")
    assert page.evaluate("window.hacked") is None
    notebook.save()
    notebook.shut_down()
    page.goto("about:blank")
    notebook.open()
    lines = check_table(page.locator(".ensemble-timeline").first)
    assert lines["row 0"][:2] == ["City 0", "0"]
    assert lines["row 0"][2][1].startswith("Tersely City 0, <img")
    photograph("table-saved-lab", page)


ITEMS = """%%ensemble -o report
tasks:
  summarise: {for_each: rows, description: "Summarise {item}", handler: sum_up}
"""
SUM_UP = """
def sum_up(task):
    return f"Part {task.name}"
"""
MAP = """%%ensemble -o res --map rows --score right
tasks:
  find: {description: "{style} {city}", handler: describe}
  write: {description: "Write of {city}", handler: sum_up}
inputs: {style: Plainly}
"""


def test_w37_saved_maps_and_items_have_their_grid_without_a_kernel(open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, ROWS, SUM_UP, MAP, ITEMS)
    page = notebook.page
    (lab.work / "table.wake").touch()
    notebook.run_to_end(0, 1, 2, 3, 4)
    wait_for_text(notebook.timeline(4), "Completed")
    notebook.save()
    notebook.shut_down()
    page.goto("about:blank")
    notebook.open()
    check_saved_tables(page)
    photograph("grid-saved-lab", page)
    notebook.shut_down()
    page.goto(lab.notebook_7_url(notebook.path))
    check_saved_tables(page)
    photograph("grid-saved-notebook-7", page)


def check_saved_tables(page: Page) -> None:
    """Of a map and of items, in a notebook that was opened anew."""
    views = page.locator(".ensemble-timeline")
    expect(views).to_have_count(2)
    rows, items = views.nth(0), views.nth(1)
    wait_for_text(rows, "saved view")
    table = show_table(rows)
    expect(table.get_by_role("columnheader")).to_contain_text(["row", "city", "size", "answer", "find", "write"])
    wait_for(lambda: len(read_lines(table)) > 3 and read_lines(table)[1][1:3] == ["City 1", "1"], 30)
    assert read_lines(table)[2][-1][1] == "Part write"
    assert read_lines(table)[7][3][0] == "failed:"
    table = show_table(items)
    wait_for(lambda: len(read_lines(table)) > 3 and read_lines(table)[0][1][1] == "Part summarise[0]", 30)
