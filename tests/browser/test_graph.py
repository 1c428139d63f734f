"""The run as a graph, as a person sees and walks it (W32)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from ensemble_notebook.domain.events import LlmToken
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.built_view import open_view
from tests.browser.cell import LOAD, NIGHT, SLEEPER
from tests.browser.lab import find_axe_faults, photograph, wait_for
from tests.browser.scenes import run_hier, run_report, show_saved
from tests.support.event_builder import EventBuilder
from tests.support.row_reader import read_rows

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.conftest import Opener

# The view of a run that goes on, of messages that Python has made: it asks, and the test answers.
SHOW_LIVE = """async (snapshot) => {
    const live = new FakeModel();
    Object.assign(live, { _details: model._details, _explorer: model._explorer, _views: model._views, snapshot });
    place.replaceChildren();
    window.live = live;
    await widget.initialize({ model: live, signal: end.signal });
    await widget.render({ model: live, el: place, signal: end.signal });
}"""
IS_AT = """([part, x, y]) => {
    const box = part.getBoundingClientRect();
    return Math.abs(box.x - x) < 1 && Math.abs(box.y - y) < 1;
}"""
ASKED = "(count) => window.live.sent.filter(({ kind }) => kind === 'graph').length >= count"


def node(view: Locator, title: str) -> Locator:
    """A node by its title, which its times may follow."""
    return view.get_by_role("treeitem", name=re.compile(rf"^{re.escape(title)}\s*(,| x )"))


def open_graph(view: Locator) -> None:
    view.get_by_role("radio", name="Graph", exact=True).click()
    view.locator(".et-node").first.wait_for()


def measure(part: Locator) -> tuple[float, float]:
    box = part.bounding_box()
    assert box is not None
    return box["x"], box["y"]


def place_in(sheet: Locator, part: Locator) -> tuple[float, float]:
    """Where a part stands in a sheet, by its own scale."""
    scale = sheet.evaluate("each => each.getBoundingClientRect().width / each.offsetWidth")
    (left, top), (x, y) = measure(sheet), measure(part)
    return (x - left) / scale, (y - top) / scale


def approx(x: float, y: float) -> Any:
    """To the pixel."""
    return pytest.approx((x, y), abs=1)


@pytest.mark.parametrize("theme, width", [("light", 1400), ("dark", 1400), ("light", 480), ("dark", 480)])
def test_w32_a_saved_run_is_a_graph_where_python_has_put_everything(
    page: Page, address: str, theme: str, width: int
) -> None:
    open_view(page, address, f"at=0&theme={theme}", width=width)
    view = show_saved(page, run_report())
    open_graph(view)
    saved = TimelineMessages(run_report()._fold).make_saved_view()
    rows = read_rows(saved["graphs"]["aggregated"]["nodes"])
    expect(view.locator(".et-node")).to_have_count(len(rows))
    sheet = view.locator(".et-graph-sheet")
    for row in rows:
        if row["kind"] == "task":
            place = node(view, row["title"])
            wait_for(lambda place=place, row=row: place_in(sheet, place) == approx(row["x"], row["y"]), 30)
    expect(node(view, "market")).to_contain_text("3.5 s · 154 tok · $0.00056")
    expect(node(view, "market")).to_have_attribute("data-status", "ok")
    expect(view.locator(".et-graph-words")).to_have_text(["3 rounds · kept: no retry left"])
    lines = view.locator(".et-graph-line")
    kinds = lines.evaluate_all("all => all.map((line) => line.dataset.kind)")
    assert {*kinds} == {
        "context",
        "order",
        "loop",
        "delegation",
    }
    dashed = view.locator(".et-graph-line[data-kind=order] path[stroke-dasharray]")
    expect(dashed).to_have_count(2)
    assert find_axe_faults(view) == []
    photograph(f"graph-{theme}-{width}", view)


def test_w32_keys_walk_along_the_lines_and_the_selection_is_that_of_the_rows(page: Page, address: str) -> None:
    open_view(page, address, "at=0", width=1400)
    view = show_saved(page, run_report())
    view.locator(".et-gutter").focus()
    page.keyboard.press("g")
    tree = view.get_by_role("tree", name="Graph of the run")
    expect(tree).to_be_focused()
    steps = [("ArrowRight", "research"), ("ArrowRight", "writing"), ("ArrowDown", "draft"), ("ArrowRight", "check")]
    for key, title in [*steps, ("ArrowRight", "review"), ("ArrowRight", "publish"), ("ArrowLeft", "writing")]:
        page.keyboard.press(key)
        expect(node(view, title)).to_have_attribute("data-current", "true")
        expect(tree).to_have_attribute("aria-activedescendant", node(view, title).get_attribute("id") or "")
    node(view, "check").click()
    page.keyboard.press("Enter")
    expect(view.locator(".et-drawer")).to_contain_text("check")
    page.keyboard.press("Escape")
    expect(view.locator(".et-drawer")).to_have_count(0)
    page.keyboard.press("g")
    expect(view.locator(".et-node")).to_have_count(0)
    expect(view.locator(".et-row[aria-selected=true]")).to_contain_text("check")
    expect(view.locator(".et-gutter")).to_be_focused()


def test_w32_rounds_are_boxes_where_the_graph_is_expanded(page: Page, address: str) -> None:
    open_view(page, address, "at=0", width=1400)
    view = show_saved(page, run_report())
    open_graph(view)
    view.get_by_role("button", name="Expanded").click()
    for number in (1, 2, 3):
        expect(node(view, f"round {number}")).to_have_count(1)
    expect(node(view, "draft")).to_have_count(3)
    expect(view.locator(".et-graph-words", has_text="sent back")).to_have_count(2)
    photograph("graph-expanded", view)
    view.get_by_role("button", name="Aggregated").click()
    expect(node(view, "draft")).to_have_count(1)


def test_w32_a_manager_has_its_workers_inside(page: Page, address: str) -> None:
    open_view(page, address, "at=0", width=900)
    view = show_saved(page, run_hier())
    open_graph(view)
    expect(view.get_by_role("button", name="Expanded")).to_have_count(0)
    expect(node(view, "Write a brief from them")).to_contain_text("who did it is unknown")
    expect(node(view, "Poet")).to_contain_text("refused")
    photograph("graph-manager", view)


def test_w32_the_graph_is_zoomed_dragged_and_fitted(page: Page, address: str) -> None:
    open_view(page, address, "at=0", width=1000)
    view = show_saved(page, run_report())
    open_graph(view)
    draft = node(view, "draft")
    before = measure(draft)
    pane = view.locator(".et-graph").bounding_box()
    assert pane is not None
    page.mouse.move(pane["x"] + 20, pane["y"] + pane["height"] - 20)
    page.mouse.down()
    page.mouse.move(pane["x"] + 120, pane["y"] + pane["height"] - 50, steps=4)
    page.mouse.up()
    wait_for(lambda: measure(draft) == approx(before[0] + 100, before[1] - 30), 30)
    width = draft.evaluate("each => each.getBoundingClientRect().width")
    page.keyboard.press("+")
    page.wait_for_function(f"() => document.querySelector('.et-node').getBoundingClientRect().width > {width}")
    page.keyboard.press("0")
    place = draft.element_handle()
    page.wait_for_function(IS_AT, arg=[place, *before])


def test_w32_a_live_run_fills_the_graph_and_grows_without_moving_the_rest(page: Page, address: str) -> None:
    build = EventBuilder({"lead": (), "note": (), "sum": ["lead", "note"]}, agents={"lead": "Lead"})
    messages = TimelineMessages(fold := TraceFold.from_events(build.events), lambda: build.now)
    told = len(build.events)

    def tell(until: int | None = None) -> None:
        """Tell the view what has happened since, or that up to an event."""
        nonlocal told
        since, until = messages.count, len(build.events) if until is None else until
        for event in build.events[told:until]:
            fold.add(event)
        told = until
        page.evaluate("(delta) => live.post(delta)", messages.make_delta(since))

    def answer(count: int) -> None:
        page.wait_for_function(ASKED, arg=count)
        page.evaluate("(graph) => live.post(graph)", messages.make_graph())

    open_view(page, address, "at=0", width=1200)
    page.evaluate(SHOW_LIVE, messages.make_snapshot())
    view = page.locator(".ensemble-timeline")
    view.get_by_role("radio", name="Graph", exact=True).click()
    answer(1)
    expect(node(view, "lead")).to_have_attribute("data-status", "pending")
    places = {title: measure(node(view, title)) for title in ("lead", "note", "sum")}
    with build.task("lead"), build.turn():
        tell()
        expect(node(view, "lead")).to_have_attribute("data-status", "running")
        with build.delegate("Helper", "Look it up"), build.turn():
            build.llm("The tide turns twice", stream=["The tide ", "turns twice"])
            words = [number for number, event in enumerate(build.events) if isinstance(event, LlmToken)]
            tell(words[-1] + 1)
            answer(2)
            expect(node(view, "Look it up")).to_have_attribute("data-status", "running")
            expect(node(view, "Look it up")).to_contain_text("The tide turns")
            photograph("graph-live", view)
        tell()
        expect(node(view, "Look it up")).to_have_attribute("data-status", "ok")
    tell()
    expect(node(view, "lead")).to_have_attribute("data-status", "ok")
    wait_for(lambda: measure(node(view, "lead")) == approx(*places["lead"]), 30)
    wait_for(lambda: measure(node(view, "sum")) == approx(*places["sum"]), 30)


def test_w32_three_hundred_tasks_and_more_are_shown(page: Page, address: str) -> None:
    build = EventBuilder({f"task {k}": [f"task {k - back}" for back in (9, 17) if k >= back] for k in range(300)})
    many = EventBuilder({f"t{k}": [f"t{k - 1}"] if k else () for k in range(3000)})
    open_view(page, address, "at=0", width=1200)
    for events, said in ((build.events, None), (many.events, "3,000 nodes, shown as")):
        messages = TimelineMessages(TraceFold.from_events(events))
        page.evaluate(SHOW_LIVE, messages.make_snapshot())
        view = page.locator(".ensemble-timeline")
        view.get_by_role("radio", name="Graph", exact=True).click()
        page.wait_for_function(ASKED, arg=1)
        page.evaluate("(graph) => live.post(graph)", messages.make_graph())
        shown = len(read_rows(messages.make_graph()["graphs"]["aggregated"]["nodes"]))
        expect(view.locator(".et-node")).to_have_count(shown)
        if said:
            expect(view.locator(".et-graph-note")).to_contain_text(said)
        page.keyboard.press("g")


def test_w32_a_view_that_was_saved_without_a_graph_says_so(page: Page, address: str) -> None:
    saved: dict[str, Any] = TimelineMessages(run_report()._fold).make_saved_view()
    del saved["graphs"]
    open_view(page, address, "at=0", width=900)
    page.evaluate("(saved) => { place.replaceChildren(); renderSaved(place, saved); }", saved)
    view = page.locator(".ensemble-timeline").last
    view.get_by_role("radio", name="Graph", exact=True).click()
    expect(view.locator(".et-graph")).to_contain_text("No graph of this run was kept here")


def test_w32_a_dry_run_is_the_graph_that_the_run_fills_in_jupyterlab(open_in_window: Opener) -> None:
    night = NIGHT.replace("NAP", "nap_drawn")  # a name of its own, since all tests share a folder
    notebook = open_in_window(LOAD, SLEEPER, night.replace("%%ensemble -o night", "%%ensemble --dry-run"), night)
    wake = notebook.path.parent / "nap_drawn.wake"
    notebook.run_to_end(0, 1, 2)
    plan = notebook.outputs(2)
    for name in ("find", "nap_drawn", "wake"):
        expect(plan.get_by_text(name, exact=True).first).to_be_visible()
    tops = [measure(plan.get_by_text(name, exact=True).first) for name in ("find", "nap_drawn", "wake")]
    assert tops[0][0] < tops[1][0] < tops[2][0]
    photograph("graph-dry-run", plan)
    notebook.run(3)
    view = notebook.timeline(3)
    open_graph(view)
    expect(node(view, "find")).to_have_attribute("data-status", "ok")
    expect(node(view, "nap_drawn")).to_have_attribute("data-status", "running")
    expect(node(view, "wake")).to_have_attribute("data-status", "pending")
    wake.touch()
    expect(node(view, "wake")).to_have_attribute("data-status", "ok")
    expect(view.locator(".et-node")).to_have_count(3)
