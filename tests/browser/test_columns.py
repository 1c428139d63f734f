"""Columns beside the names, the lane under the axis, and the colours of bars, as a person sees them (W33)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.wording import format_count, format_duration, format_money
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.built_view import open_view, read_picture, show_saved_view, watch_canvas
from tests.browser.cell import LOAD, REPORT, TEAM
from tests.browser.lab import find_axe_faults, photograph
from tests.browser.scenes import run_report, show_saved
from tests.support.event_builder import EventBuilder

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.conftest import Opener

_COLUMNS: Final = ("In", "Out", "Cost", "Calls")
_PRICES: Final = CostConfiguration(input_rate="0.0001", output_rate="0.0002")

_HAS_COLOR: Final = """([of, color]) => {
    const canvas = document.querySelector(of);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const [r, g, b] = color.match(/[0-9]+/g).map(Number);
    for (let k = 0; k < data.length; k += 4) {
        if (data[k] === r && data[k + 1] === g && data[k + 2] === b && data[k + 3] === 255) return true;
    }
    return false;
}"""


@functools.cache
def run_limited() -> ExecutionTrace:
    """Three tasks, two at once, with a budget of which a part is spent, and a rate limit."""
    build = EventBuilder(
        {"plan": (), "draft": ["plan"], "check": ["plan"]},
        agents={"plan": "Planner", "draft": "Writer", "check": "Critic"},
        budget=Budget(max_cost="0.06"),
        max_concurrency=2,
        rate_limit=RateLimit(60, 60),
        provider="openai",
        model="gpt-4o-mini",
    )
    with build.task("plan"), build.turn():
        build.llm("A plan.", seconds=2, input_tokens=40, output_tokens=10)
    for name in build.beside(["draft", "check"]):
        with build.task(name), build.turn():
            build.llm("Done.", seconds=4, input_tokens=50, output_tokens=20)
    return ExecutionTrace.from_events(build.finish(), _PRICES)


def open_saved(page: Page, trace: ExecutionTrace, address: str, width: int = 1400, theme: str = "light") -> Locator:
    open_view(page, address, f"theme={theme}", width=width, height=900)
    watch_canvas(page)
    return show_saved(page, trace)


def switch(view: Locator, group: str, *names: str) -> None:
    """Press switches of the panel that `View` opens."""
    if not view.locator(".et-switches").is_visible():
        view.get_by_role("button", name="View", exact=True).click()
    for name in names:
        view.get_by_role("group", name=group).get_by_role("button", name=name, exact=True).click()


def cells_of(view: Locator, name: str) -> Locator:
    row = view.locator(".et-row").filter(has=view.page.locator(".et-title").get_by_text(name, exact=True))
    return row.locator(".et-amount")


def word(record: Any, currency: str) -> list[str]:
    """The words of a record of `frames.tasks` or `frames.runs`."""
    return [
        format_count(record.input_tokens),
        format_count(record.output_tokens),
        format_money(record.cost, currency),
        f"{record.llm_call_count:,}",
    ]


def test_w33_columns_have_the_numbers_of_the_frames_and_their_head_those_of_the_run(page: Page, address: str) -> None:
    frames = run_report().frames
    run = next(frames.runs.itertuples())
    reviews = frames.tasks[frames.tasks.task == "writing.review"]
    sums = zip(_COLUMNS, word(run, run.currency), strict=True)
    view = open_saved(page, run_report(), address)
    switch(view, "Columns", *_COLUMNS)
    heads = ["Name", "State", *(f"{name} {text}" for name, text in sums), f"Time {format_duration(run.wall_ms)}"]
    expect(view.get_by_role("columnheader")).to_have_text(heads)
    for record in frames.tasks[frames.tasks.task != "writing.review"].itertuples():
        expect(cells_of(view, record.task)).to_have_text(word(record, record.currency))
    # The answers to the reviews of a phase share a row.
    expect(cells_of(view, "writing.review").nth(0)).to_have_text(format_count(reviews.input_tokens.sum()))
    expect(cells_of(view, "writing.review").nth(3)).to_have_text(str(reviews.llm_call_count.sum()))
    # What was handed on is counted in the row above: tasks alone make the sums of the head.
    worker = view.locator(".et-row", has_text="Which risk do buyers").locator(".et-amount")
    expect(worker.first).to_have_attribute("title", "In: 63, counted in the row above, too")
    own = frames.tasks[frames.tasks.item_of.isna()]
    assert own.input_tokens.sum() == run.input_tokens
    assert own.llm_call_count.sum() == run.llm_call_count
    assert own.cost.sum() == pytest.approx(run.cost)


def test_w33_the_lane_says_its_value_its_limit_and_its_scale(page: Page, address: str) -> None:
    view = open_saved(page, run_limited(), address)
    name = view.locator(".et-lane-name")
    for lane, words, text in (
        ("Cost", "Cost so far$0.024 of $0.060", "budget $0.060"),
        ("Side by side", "Tasks side by sideup to 2 of 2", "limit 2"),
        ("Requests", "Requests in 1:00up to 3 of 60", "rate limit 60 ↑"),
        ("Tokens a second", "Tokens out a secondup to 10/s", "10/s"),
    ):
        switch(view, "Lane", lane)
        expect(name).to_have_text(words)
        read_picture(page, has=text, of="et-lane")
    switch(view, "Lane", "Tokens a second")
    expect(view.locator(".et-lane")).to_have_count(0)


def test_w33_the_lane_says_what_it_was_under_the_pointer_and_where_keys_came_to(page: Page, address: str) -> None:
    view = open_saved(page, run_limited(), address)
    switch(view, "Lane", "Cost")
    name = view.locator(".et-lane-name")
    expect(name).to_have_text("Cost so far$0.024 of $0.060")
    box = view.locator(".et-stage").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    expect(name).to_have_text("Cost so far$0.0060 at 3.1 s")
    read_picture(page, has="$0.0060", of="et-lane")
    page.mouse.move(2, 2)
    expect(name).to_have_text("Cost so far$0.024 of $0.060")
    view.locator(".et-gutter").focus()
    page.keyboard.press("ArrowDown")
    expect(name).to_have_text("Cost so far$0.0060 at 2.0 s")
    # A click in it selects nothing, as one in the axis does not.
    page.mouse.click(box["x"] + box["width"] / 3, box["y"] + 60)
    expect(view.get_by_role("row", selected=True)).to_have_count(1)
    expect(view.locator(".et-drawer")).to_have_count(0)


def test_w33_bars_have_the_colours_of_the_legend_in_the_panel(page: Page, address: str) -> None:
    view = open_saved(page, run_limited(), address)
    legend = view.get_by_role("list", name="Colours").get_by_role("listitem")
    for by, words in (("Agent", ["Planner", "Writer", "Critic"]), ("Cost", ["≤ $0.0060", "≤ $0.0090"])):
        switch(view, "Bars by", by)
        expect(legend).to_have_text(words)
        for place in range(len(words)):
            color = legend.nth(place).locator("i").evaluate("each => getComputedStyle(each).backgroundColor")
            page.wait_for_function(_HAS_COLOR, arg=[".et-canvas", color])
    switch(view, "Bars by", "Kind")
    expect(legend).to_have_count(0)
    violet = view.evaluate("each => getComputedStyle(each).getPropertyValue('--et-llm')")
    color = ", ".join(str(int(violet[k : k + 2], 16)) for k in (1, 3, 5))
    page.wait_for_function(_HAS_COLOR, arg=[".et-canvas", color])


def test_w33_a_saved_view_that_left_rows_out_says_so_in_the_lane(page: Page, address: str) -> None:
    saved = TimelineMessages(TraceFold.from_events(run_report().events, _PRICES)).make_saved_view(9_000)
    assert saved["rows_left_out"] > 0
    open_view(page, address, "", width=1400, height=900)
    view = show_saved_view(page, saved)
    switch(view, "Lane", "Side by side")
    expect(view.locator(".et-lane-left")).to_have_text(f"without {saved['rows_left_out']} spans")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_w33_a_narrow_view_has_one_column_and_its_bars(page: Page, address: str, theme: str) -> None:
    view = open_saved(page, run_report(), address, 480, theme)
    switch(view, "Columns", "In", "Out", "Calls", "Cost")
    switch(view, "Lane", "Cost")
    view.get_by_role("button", name="View", exact=True).click()
    expect(view.locator(".et-column:visible")).to_have_text(["Cost $0.011"])
    expect(cells_of(view, "risks").locator("visible=true")).to_have_text(["$0.00083"])
    stage, gutter = (view.locator(part).evaluate("each => each.offsetWidth") for part in (".et-stage", ".et-gutter"))
    assert stage > gutter
    read_picture(page, has="budget $0.500 ↑", of="et-lane")
    photograph(f"columns-480-{theme}", view)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_w33_columns_are_switched_by_keys_and_axe_finds_nothing_serious(page: Page, address: str, theme: str) -> None:
    view = open_saved(page, run_report(), address, theme=theme)
    view.get_by_role("button", name="View", exact=True).focus()
    page.keyboard.press("Enter")
    chosen = view.get_by_role("group", name="Columns").get_by_role("button", name="Cost", exact=True)
    chosen.wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if chosen.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Space")
    expect(chosen).to_have_attribute("aria-pressed", "true")
    switch(view, "Lane", "Cost")
    switch(view, "Bars by", "Agent")
    view.locator(".et-lane").wait_for()
    assert find_axe_faults(view) == []
    photograph(f"columns-1400-{theme}", view)
    page.keyboard.press("Escape")
    expect(view.locator(".et-switches")).to_have_count(0)
    expect(cells_of(view, "draft")).to_have_text(["$0.0031"])


def test_w33_a_live_view_has_columns_and_a_lane_and_the_next_one_has_them_too(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, REPORT, "report.timeline", "report.timeline")
    notebook.run_to_end(0, 1, 2, 3)
    live = notebook.timeline(3)
    switch(live, "Columns", "Calls")
    switch(live, "Lane", "Tokens a second")
    expect(cells_of(live, "find")).to_have_text(["2"])
    expect(live.locator("[data-column=calls] b")).to_have_text("3")
    live.locator(".et-lane").wait_for()
    notebook.run_to_end(4)
    expect(cells_of(notebook.timeline(4), "brief")).to_have_text(["1"])
    notebook.timeline(4).locator(".et-lane").wait_for()
