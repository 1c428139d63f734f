"""The graph as a stage: it can be read, tells of trouble, and shows a run that goes on as it goes on (W145 to W151)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration
from ensemble_notebook.domain.events import LlmCallRetried, LlmToken
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.built_view import open_view
from tests.browser.lab import find_axe_faults, photograph, wait_for
from tests.browser.scenes import run_hier, run_report, show_saved
from tests.browser.test_graph import SHOW_LIVE, measure, node, open_graph
from tests.support.event_builder import EventBuilder

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SMALLEST = """pane => {
    const walk = document.createTreeWalker(pane, NodeFilter.SHOW_TEXT);
    let smallest = Infinity;
    for (let text = walk.nextNode(); text; text = walk.nextNode()) {
        const part = text.parentElement;
        const { width, height } = part.getBoundingClientRect();
        if (!text.data.trim() || !width || !height || part.closest(".et-hidden")) continue;
        const sheet = part.closest(".et-graph-sheet");
        const scale = sheet ? sheet.getBoundingClientRect().width / sheet.offsetWidth : 1;
        smallest = Math.min(smallest, parseFloat(getComputedStyle(part).fontSize) * scale);
    }
    return smallest;
}"""
CUT = """heads => heads.filter((head) => [...head.children].some((part) => part.scrollWidth > part.clientWidth + 1
    && !part.matches('.et-hidden'))).map((head) => head.textContent)"""


def show_report(page: Page, address: str, width: int, theme: str = "light") -> Locator:
    open_view(page, address, f"at=0&theme={theme}", width=width)
    view = show_saved(page, run_report())
    open_graph(view)
    return view


@pytest.mark.parametrize("width", [480, 1400])
def test_letters_are_never_too_small_and_what_does_not_fit_is_scrolled_w145(
    page: Page, address: str, width: int
) -> None:
    view = show_report(page, address, width)
    shape = view.locator(".et-shape-graph")
    assert shape.evaluate(SMALLEST) > 10.99
    assert view.locator(".et-node[data-look=box] > .et-node-head").evaluate_all(CUT) == []
    scroll = view.locator(".et-graph-scroll[data-axis=x]")
    expect(scroll).to_have_count(int(width < 1400))
    draft = node(view, "draft")
    before = measure(draft)
    if width < 1400:
        scroll.evaluate("each => { each.scrollLeft = 90; }")
        wait_for(lambda: abs(measure(draft)[0] - before[0] + 90) < 1.5, 30)
        pane = view.locator(".et-graph")
        was_kept = """(pane, wheel) => pane.dispatchEvent(new WheelEvent(
            'wheel', { ...wheel, bubbles: true, cancelable: true }))"""
        assert pane.evaluate(was_kept, {"deltaY": 40})
        assert not pane.evaluate(was_kept, {"deltaX": 40})
        wait_for(lambda: abs(measure(draft)[0] - before[0] + 130) < 1.5, 30)
    page.keyboard.press("0")
    page.keyboard.press("0")
    expect(scroll).to_have_count(0)
    wait_for(lambda: shape.evaluate(SMALLEST) > 10.99, 30)
    photograph(f"stage-whole-{width}", view)
    for _ in range(8):
        page.keyboard.press("-")
    wait_for(lambda: shape.evaluate(SMALLEST) > 10.99, 30)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nodes_tell_of_trouble_as_rows_do_w146(page: Page, address: str, theme: str) -> None:
    view = show_report(page, address, 1200, theme)
    prices = node(view, "prices")
    expect(prices.locator(".et-agent")).to_have_text("Re")
    expect(prices).to_have_text("prices, done, 1 error inside, 1ReResearcher3.9 s · 228 tok · $0.00078scripted")
    expect(prices.locator(".et-node-marks [data-hue=error]")).to_have_text("1")
    page.keyboard.press("c")
    expect(prices).to_have_attribute("data-dimmed", "true")
    for title in ("research", "competitors", "draft"):
        expect(node(view, title)).to_have_attribute("data-dimmed", "false")
    expect(view.locator(".et-graph-line[data-dimmed=true]")).not_to_have_count(0)
    assert find_axe_faults(view) == []
    photograph(f"stage-critical-{theme}", view)


class Live:
    """A run that goes on in the page, told as far as a test wants it."""

    def __init__(self, page: Page, build: EventBuilder) -> None:
        self._page = page
        self._build = build
        self._fold = TraceFold(CostConfiguration(input_rate=Decimal("0.0000025"), output_rate=Decimal("0.00001")))
        self._messages = TimelineMessages(self._fold, lambda: build.events[self._told - 1].time)
        self._told = 0
        self._take(2)
        page.evaluate(SHOW_LIVE, self._messages.make_snapshot())
        self.view = page.locator(".ensemble-timeline")
        self.view.get_by_text("Graph", exact=True).click()
        page.wait_for_function("() => window.live.sent.some(({ kind }) => kind === 'graph')")
        page.evaluate("(graph) => live.post(graph)", self._messages.make_graph())

    def _take(self, until: int) -> None:
        for event in self._build.events[self._told : until]:
            self._fold.add(event)
        self._told = until

    def tell(self, until: int | None = None) -> None:
        """Tell the view what has happened since, or that up to an event."""
        since = self._messages.count
        self._take(len(self._build.events) if until is None else until)
        self._page.evaluate("(delta) => live.post(delta)", self._messages.make_delta(since))

    def find_last(self, kind: type[object]) -> int:
        """How many events there are up to the last one of a kind."""
        return max(number for number, event in enumerate(self._build.events, start=1) if isinstance(event, kind))


ANIMATIONS = "view => view.getAnimations({ subtree: true }).map((each) => each.animationName)"


@pytest.mark.parametrize("theme, width", [("light", 1400), ("dark", 480)])
def test_words_come_inside_the_node_that_speaks_in_two_lines_w147(
    page: Page, address: str, theme: str, width: int
) -> None:
    build = EventBuilder({"find": (), "write": ["find"], "check": ["write"]}, agents={"find": "Ana", "write": "Bo"})
    open_view(page, address, f"at=0&theme={theme}", width=width)
    live = Live(page, build)
    said = "The tide turns twice a day and nobody knows when it will turn again, says the harbour master at noon"
    with build.task("find", output="facts " * 60), build.turn():
        build.llm(stream=[f"{word} " for word in said.split()])
        live.tell(live.find_last(LlmToken))
        words = node(live.view, "find").locator(".et-node-said")
        expect(words).to_contain_text("at noon")
        assert words.evaluate("each => each.clientHeight") == 32
        assert words.evaluate(
            "each => each.querySelector('bdi').getBoundingClientRect().bottom - each.getBoundingClientRect().bottom"
        ) == pytest.approx(0, abs=1)
        expect(node(live.view, "find").locator(".et-node-head .et-node-figures")).to_contain_text("s")
        photograph(f"stage-words-{theme}-{width}", live.view)
        assert live.view.locator(".et-shape-graph").evaluate(ANIMATIONS) == []
    live.tell()
    with build.task("write"), build.turn():
        build.llm(retries=[("429 too many requests", 60)])
        live.tell(live.find_last(LlmCallRetried))
        expect(node(live.view, "write")).to_contain_text(re.compile(r"429, \d+ s"))
        expect(node(live.view, "write").locator(".et-node-said")).to_have_attribute("data-is", "wait")
        # What began last has come into sight.
        pane, place = live.view.locator(".et-graph").bounding_box(), node(live.view, "write").bounding_box()
        assert pane is not None
        assert place is not None
        assert place["x"] + place["width"] <= pane["x"] + pane["width"]
        photograph(f"stage-wait-{theme}-{width}", live.view)


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_how_long_a_text_is_moves_along_its_line_once_w148(page: Page, address: str, motion: str) -> None:
    page.emulate_media(reduced_motion=motion)  # type: ignore[arg-type]
    build = EventBuilder({"find": (), "write": ["find"], "check": ["find"]})
    open_view(page, address, "at=0", width=1200)
    live = Live(page, build)
    with build.task("find", output="facts " * 60), build.turn():
        build.llm("facts")
    live.tell()
    sizes = live.view.locator(".et-graph-size")
    expect(node(live.view, "find")).to_have_attribute("data-status", "ok")
    expect(sizes).to_have_count(0)
    page.evaluate(
        """() => addEventListener('animationstart', ({ animationName, target }) =>
            target.closest('.et-shape-graph') && (window.begun ??= []).push(animationName))"""
    )
    with build.task("write"):
        live.tell()
        still, moving = live.view.locator(".et-graph-size:not([data-moves])"), live.view.locator("[data-moves]")
        expect(still).to_have_text(["360"])
        expect(still).to_have_attribute("title", "360 characters handed over")
        if motion == "reduce":
            expect(moving).not_to_be_visible()
        else:
            page.wait_for_function("() => window.begun?.length === 1")
        wait_for(lambda: live.view.locator(".et-shape-graph").evaluate(ANIMATIONS) == [], 30)
        live.tell()
        assert page.evaluate("() => window.begun ?? []") == ([] if motion == "reduce" else ["et-hand-over"])
    photograph(f"stage-size-{motion}", live.view)
    page.emulate_media(reduced_motion="no-preference")


def test_what_a_manager_asks_and_is_answered_stands_on_the_line_w149(page: Page, address: str) -> None:
    open_view(page, address, "at=0", width=1000)
    view = show_saved(page, run_hier())
    open_graph(view)
    asked = view.locator(".et-graph-asked:not([data-answer])")
    expect(asked).to_have_text(
        [
            "Find three facts about tides",
            "Make a poem of them",
            "Write a brief from these facts: high, low, and the moon",
        ]
    )
    answers = view.locator(".et-graph-asked[data-answer]")
    expect(answers).to_have_text(["High, low, and the moon.", "The tide turns twice a day."])
    boxes = [each.bounding_box() for each in (asked.first, node(view, "Find three facts about tides"), answers.first)]
    question, card, answer = (each for each in boxes if each is not None)
    middle = card["y"] + card["height"] / 2
    assert question["y"] + question["height"] <= middle <= answer["y"]
    assert question["x"] + question["width"] <= card["x"]
    photograph("stage-manager", view)
    slider = view.get_by_role("slider", name="Playhead")
    slider.focus()
    page.keyboard.press("Home")
    expect(answers).to_have_count(0)
    expect(asked).to_have_count(0)


@pytest.mark.parametrize("theme, width", [("light", 1400), ("dark", 480)])
def test_a_strip_has_the_whole_run_its_time_and_its_cost_w150(page: Page, address: str, theme: str, width: int) -> None:
    view = show_report(page, address, width, theme)
    strip = view.get_by_role("group", name="Time and cost")
    assert strip.evaluate("each => each.offsetHeight") == 48
    expect(strip).to_contain_text("29 s")
    expect(strip).to_contain_text("$0.011 of $0.50")
    expect(strip.locator(".et-strip-cost")).to_have_count(1)
    slider = strip.get_by_role("slider", name="Playhead")
    track = strip.locator(".et-playhead-track")
    track.click(position={"x": track.evaluate("each => each.offsetWidth") * 0.4, "y": 40})
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^1[12] s of 29 s"))
    expect(strip).to_contain_text(re.compile(r"1[12](\.\d)? s of 29 s"))
    expect(node(view, "publish")).to_have_attribute("data-status", "pending")
    expect(view.locator(".et-playback")).to_have_count(1)
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    expect(node(view, "publish")).to_have_attribute("data-status", "ok")
    strip.get_by_role("button", name="Play").click()
    expect(node(view, "research")).to_have_attribute("data-status", "running")
    strip.get_by_role("button", name="Pause").click()
    photograph(f"stage-strip-{theme}-{width}", view)
    assert find_axe_faults(view) == []


def test_the_strip_of_a_run_that_goes_on_has_no_playhead_to_move_and_its_budget_above_w150(
    page: Page, address: str
) -> None:
    build = EventBuilder({"find": (), "write": ["find"]}, budget=Budget(max_cost=0.02), model="gpt-4o")
    open_view(page, address, "at=0", width=900)
    live = Live(page, build)
    strip = live.view.get_by_role("group", name="Time and cost")
    with build.task("find"), build.turn():
        build.llm("facts", input_tokens=2000, output_tokens=800)
        live.tell()
        expect(strip.locator(".et-playhead-line")).to_have_count(1)
        expect(strip.get_by_role("slider")).to_have_count(0)
        expect(strip.get_by_role("button")).to_have_count(0)
        expect(strip).to_contain_text(" of $0.02")
        expect(strip.locator(".et-strip-limit")).to_have_count(1)
        photograph("stage-strip-live", live.view)
