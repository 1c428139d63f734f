"""The board of remembered runs as a person uses it: a list that lives, opens, compares, and does things with runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.lab import find_axe_faults, measure_slowness, photograph

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.conftest import Opener
    from tests.browser.lab import Notebook

STORE: Final = """
from ensemble_notebook import Ensemble, ScriptedChatModel, config
import uuid
config.store = f"{uuid.uuid4().hex}.db"
HOSTILE = "<img src=x onerror='window.hacked=1'>"
def fail(task):
    raise ValueError("no bread")
def is_short(output):
    return len(output.raw) < 40
model = ScriptedChatModel(default=f"The tide turns twice a day. {HOSTILE}")
report = Ensemble.from_yaml('''name: report
llm: model
tasks:
  find: Find facts about {topic}
  brief: {description: Write a brief, context: [find]}
''', {"model": model})
letter = Ensemble.from_yaml("name: letter\\nllm: model\\ntasks: {write: Write a letter}", {"model": model})
bakery = Ensemble.from_yaml("name: bakery\\ntasks: {bake: {description: Bake, handler: fail}}", {"fail": fail})
first = report.run(topic=f"tides {HOSTILE}").score(is_short)
for _ in range(3):
    letter.run()
try:
    bakery.run()
except Exception:
    pass
fork = first.fork(first.frames.spans.query("kind == 'task' and name == 'brief'").index[0])
from tests.support.store import wait_for_store
wait_for_store()
"""
RUNS: Final = "%ensemble runs"
WIDGET: Final = """from ensemble_notebook.notebook.live.board_feed import find_board
from ensemble_notebook.notebook.live.board_widget import BoardWidget
from ensemble_notebook.trace.store.run_store import RunStore
BoardWidget(find_board(RunStore.open()))"""
MANY: Final = """
from ensemble_notebook.trace.loading import list_runs
from ensemble_notebook.trace.store.run_store import RunStore
from tests.support.store import copy_runs
list_runs(RunStore.open())
copy_runs(994)
"""
# From the press that runs the cell to the first board with rows, in milliseconds.
OPEN_AGAIN: Final = """async () => {
    const { content } = jupyterapp.shell.currentWidget;
    content.activeCellIndex = 2;
    const cell = content.widgets[2];
    const old = cell.node.querySelector(".eb-board");
    const began = performance.now();
    const done = jupyterapp.commands.execute("notebook:run-cell");
    while (true) {
        const board = cell.node.querySelector(".eb-board");
        const isThere = board && board !== old && board.querySelector("tr[data-run]") !== null;
        if (isThere && board.textContent.includes("1,000 runs")) break;
        await new Promise(requestAnimationFrame);
    }
    const taken = performance.now() - began;
    await done;
    return taken;
}"""


def show_board(notebook: Notebook) -> Locator:
    notebook.run_to_end(0, 1, 2)
    board = notebook.cell(2).locator(".eb-board")
    expect(board.get_by_role("button", name="fork")).to_have_count(0)
    expect(board.locator("tr[data-run]")).to_have_count(6)
    expect(board.locator("button.eb-name").first).to_be_visible()
    return board


def names(board: Locator) -> list[str]:
    return board.locator(".eb-name").all_inner_texts()


def test_w130_the_board_sorts_filters_searches_and_is_live(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, STORE, RUNS)
    board = show_board(notebook)
    assert names(board) == ["report", "report", "bakery", "letter", "letter", "letter"]  # the fork behind its origin
    photograph("board-light", board)
    board.get_by_label("Search runs").fill("tides")
    expect(board.locator("tr[data-run]")).to_have_count(2)
    expect(board.locator(".eb-count")).to_have_text("2 of 6 runs")
    board.get_by_label("Search runs").fill("")
    board.get_by_label("State").select_option("failed")
    expect(board.locator(".eb-name")).to_have_text(["bakery"])
    board.get_by_label("State").select_option("")
    board.get_by_role("button", name="Began").click()
    expect(board.locator(".eb-name")).to_have_text(["report", "bakery", "letter", "letter", "letter", "report"])
    notebook.execute("letter.run()")
    expect(board.locator(".eb-name")).to_have_text(["letter", "report", "bakery", *["letter"] * 3, "report"])
    expect(board.locator(".eb-picture rect").first).to_be_attached()
    assert not notebook.page.evaluate("'hacked' in window")


def test_w130_the_board_is_back_after_a_reload_and_as_it_was_without_a_kernel(
    page: Page, open_notebook: Opener
) -> None:
    notebook = open_notebook(LOAD, STORE, RUNS)
    show_board(notebook)
    notebook.save()
    notebook.reload()
    board = notebook.cell(2).locator(".eb-board")
    board.locator("button.eb-name").nth(2).click()
    expect(board.locator(".eb-below .ensemble-timeline")).to_contain_text("no bread")
    notebook.shut_down()
    expect(board).to_contain_text("The kernel is gone")
    page.goto("about:blank")
    notebook.open()
    expect(board).to_contain_text("as they were when the notebook was saved")
    expect(board.locator("button.eb-name")).to_have_count(0)
    assert names(board) == ["report", "report", "bakery", "letter", "letter", "letter"]
    board.get_by_label("Search runs").fill("bakery")
    expect(board.locator("tr[data-run]")).to_have_count(1)
    assert find_axe_faults(board) == []


def test_w131_a_page_without_our_extension_opens_runs_by_the_widget(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, STORE, WIDGET)
    notebook.run_to_end(0, 1, 2)
    board = notebook.cell(2).locator(".eb-board")
    board.locator("button.eb-name").nth(2).click()
    expect(board.locator(".eb-below .ensemble-timeline")).to_contain_text("no bread")
    board.locator('[data-control="menu"]').first.click()
    expect(board.locator(".eb-more-row")).to_contain_text("2 of 2 done")


def test_w131_a_name_opens_the_run_below_and_two_ticks_compare(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, STORE, RUNS)
    board = show_board(notebook)
    board.locator(".eb-name").nth(2).click()
    below = board.locator(".eb-below")
    expect(below.locator(".ensemble-timeline")).to_contain_text("no bread")
    photograph("board-opened", board)
    board.locator(".eb-name").nth(3).click()
    below.get_by_role("row", name="write").click()
    expect(below.get_by_role("button", name="Change its output and go on")).to_be_visible()  # as of any run
    board.get_by_role("checkbox").nth(0).check()
    board.get_by_role("checkbox").nth(1).check()
    expect(below.locator(".eb-numbers")).to_contain_text("is_short")
    expect(below.locator(".ensemble-timeline")).to_contain_text("A · find")
    photograph("board-compared", board)
    assert find_axe_faults(board) == []
    below.get_by_role("button", name="Close", exact=True).first.click()
    expect(below).to_have_count(0)
    expect(board.locator("tr[aria-selected=true]")).to_have_count(0)


def test_w132_the_menu_forks_exports_and_forgets(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, STORE, RUNS)
    board = show_board(notebook)
    board.locator('[data-control="menu"]').first.click()
    photograph("board-menu", board)
    board.get_by_label("Export as").select_option(".html")
    expect(board.get_by_role("status")).to_contain_text(re.compile(r"Exported to report-\w+\.html \("))
    board.get_by_role("button", name="Forget…").click()
    board.get_by_role("button", name="Forget", exact=True).click()
    expect(board.locator("tr[data-run]")).to_have_count(5)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_w133_keys_walk_the_board_and_axe_finds_nothing_serious(open_in_window: Opener, theme: str) -> None:
    notebook = open_in_window(LOAD, STORE, RUNS, theme=theme)
    board = show_board(notebook)
    page = notebook.page
    board.locator(".eb-name").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    expect(board.locator(".eb-name").nth(5)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(board.locator(".eb-more-row")).to_be_visible()
    assert find_axe_faults(board) == []
    photograph(f"board-keys-{theme}", board)
    page.keyboard.press("/")
    expect(board.get_by_label("Search runs")).to_be_focused()


def test_w134_a_thousand_runs_open_in_half_a_second(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, STORE + MANY, RUNS)
    notebook.run_to_end(0, 1, 2)
    board = notebook.cell(2).locator(".eb-board")
    expect(board.locator(".eb-count")).to_have_text("1,000 runs")
    expect(board.locator("tr[data-run]")).to_have_count(50)
    taken_ms = [notebook.page.evaluate(OPEN_AGAIN) for _ in range(7)]
    assert min(taken_ms) < 500 * measure_slowness(notebook.page), taken_ms
    board.get_by_role("button", name="950 more runs").scroll_into_view_if_needed()
    expect(board.locator("tr[data-run]")).to_have_count(100)
    board.get_by_label("Search runs").fill("bakery")
    expect(board.locator(".eb-count")).to_have_text("1 of 1,000 runs")
