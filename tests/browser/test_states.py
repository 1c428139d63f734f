"""Every state of a view, with markup in every text: legible, clean, and text only (W10, W11, W14, W15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.built_view import wait_for_picture
from tests.browser.lab import ROOT, find_axe_faults, photograph, wait_for, wait_for_text
from tests.support.event_builder import EventBuilder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

STATES = [
    *("pending", "empty", "running", "waiting", "completed", "warned", "error", "timeout", "interrupted", "budget"),
    *("early", "gone", "restarted", "metadata", "saved", "large", "bad", "waiting-for-data"),
]
LOST = ("gone", "restarted")
HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script><a href='http://e.example/'>x</a>"
# Every text of a message but the words of the protocol itself gets markup at its end, names of fields stay.
MAKE_HOSTILE = """
    const words = new Set(["kind", "status", "span_id", "parent_id", "run_id", "exit_reason", "capture_mode",
        "wait_kind", "currency", "verdicts", "subject", "decision", "on_timeout", "saved_at", "started_at",
        "since_ms"]);
    window.change = (value, key = "") => {
        if (typeof value === "string") return words.has(key) ? value : `${value} HOSTILE`;
        if (Array.isArray(value)) return words.has(key) ? value : value.map((each) => window.change(each, key));
        if (value === null || typeof value !== "object" || key === "kept") return value;
        return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, window.change(each, name)]));
    };
""".replace("HOSTILE", HOSTILE)
ACTIVE = "root => root.querySelectorAll('a, img, script, iframe, object, embed, form, [onerror], [href], [src]').length"
# What of the head and the notes is cut off at the right, or lies outside of the view.
FIND_CUT = """root => {
    const edge = root.getBoundingClientRect();
    return [...root.querySelectorAll(".et-status *, .et-review *")]
        .filter((each) => each.checkVisibility() && !each.closest(".et-hidden, .et-now, .et-progress"))
        .filter((each) => {
            const box = each.getBoundingClientRect();
            return box.width > 0 && (box.right > edge.right + 1 || box.left < edge.left - 1);
        })
        .map((each) => each.outerHTML.slice(0, 160));
}"""
FIND_SMALL = """root => [...root.querySelectorAll("button, select, [role=tab]")]
    .filter((each) => each.checkVisibility())
    .map((each) => [each.getBoundingClientRect(), each.outerHTML.slice(0, 120)])
    .filter(([box]) => box.width > 0 && (box.width < 24 || box.height < 24)).map(([, html]) => html)"""
FIND_CUT_SENTENCE = """root => [...root.querySelectorAll(".et-sentence")]
    .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText)"""
ANIMATIONS = "root => root.getAnimations({subtree: true}).filter(({playState}) => playState === 'running').length"


SHOW = """async ([view, state]) => {
    const [{ showState }, { default: module }] = await Promise.all([import("./states.js"), import(view)]);
    place.replaceChildren();
    showState(state, place, module, window.change);
}"""


class StatePage:
    """A page on which any state can be shown, and which may ask nobody but its own server for anything."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.strangers: list[str] = []
        self._address = address
        (file,) = (ROOT / "ensemble_notebook" / "static" / "labextension" / "static").glob("view-*.js")
        self.view = f"/{file.relative_to(ROOT)}"
        page.route("**/*", self._check)
        page.on("pageerror", lambda error: self.strangers.append(str(error)))

    def _check(self, route: Route) -> None:
        origin = self._address.split("/js/")[0]
        if route.request.url.startswith(origin):
            route.continue_()
        else:
            self.strangers.append(route.request.url)
            route.abort()

    def show(self, state: str, theme: str = "light") -> Locator:
        """Show a state in place of the last one; only the first of a page is loaded with it."""
        address = f"{self._address}?view={self.view}&theme={theme}"
        if self.page.url.startswith(address):
            self.page.evaluate(SHOW, [self.view, state])
        else:
            self.page.goto(f"{address}&state={state}")
            self.page.wait_for_selector("body[data-ready]")
        view = self.page.locator(".ensemble-timeline")
        view.wait_for()
        if state in LOST:
            view.locator(f"[data-state={state}]").wait_for()
        wait_for_picture(self.page)
        return view


def open_states(browser: Browser, address: str, **options: Any) -> Iterator[StatePage]:
    context = browser.new_context(**options)
    yield StatePage(context.new_page(), address)
    context.close()


@pytest.fixture
def hostile(browser: Browser, address: str) -> Iterator[StatePage]:
    for states in open_states(browser, address, viewport={"width": 900, "height": 760}):
        states.page.add_init_script(MAKE_HOSTILE)
        yield states


@pytest.fixture
def narrow(browser: Browser, address: str) -> Iterator[StatePage]:
    yield from open_states(browser, address, viewport={"width": 320, "height": 800}, has_touch=True)


@pytest.fixture
def zoomed(browser: Browser, address: str) -> Iterator[StatePage]:
    """A window of 1280 x 720 at 200 %."""
    yield from open_states(
        browser, address, viewport={"width": 640, "height": 360}, device_scale_factor=2, reduced_motion="reduce"
    )


def test_w15_markup_in_any_text_stays_text_in_every_state_and_nothing_is_asked_of_others(hostile: StatePage) -> None:
    for state in STATES:
        view = hostile.show(state)
        assert view.evaluate(ACTIVE) == 0, state
        rows = view.locator("[role=row]")
        if state not in ("empty", "bad", "waiting-for-data"):
            wait_for_text(view, HOSTILE.split()[0])
            rows.nth(3).click()
            hostile.page.keyboard.press("Enter")
            tabs = view.get_by_role("tab")
            tabs.first.wait_for()
            for number in range(tabs.count()):
                tabs.nth(number).click()
                assert view.evaluate(ACTIVE) == 0, (state, number)
    assert hostile.page.evaluate("window.hacked") is None
    assert hostile.strangers == []


def wait_until_none(view: Locator, find: str, state: str) -> None:
    """Wait until nothing is found of what must not be."""
    wait_for(lambda: view.evaluate(find) == [], 30, lambda: f"{state}: {view.evaluate(find)}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_w10_axe_finds_nothing_in_any_state(hostile: StatePage, theme: str) -> None:
    for state in STATES:
        view = hostile.show(state, theme)
        assert find_axe_faults(view, even_minor=True) == [], state


def test_w11_in_320_pixels_nothing_of_any_state_is_cut_and_a_finger_can_hit_it(narrow: StatePage) -> None:
    for state in STATES:
        view = narrow.show(state)
        for find in (FIND_CUT, FIND_SMALL):
            wait_until_none(view, find, state)
        wait_until_none(view, FIND_CUT_SENTENCE, state)


def test_w11_every_state_is_legible_at_200_percent_and_rests_where_motion_is_unwanted(zoomed: StatePage) -> None:
    for state in STATES:
        view = zoomed.show(state, "dark")
        wait_until_none(view, FIND_CUT, state)
        wait_for(lambda view=view: view.evaluate(ANIMATIONS) == 0, 30)
    photograph("state-zoomed-dark", zoomed.show("budget", "dark"))


def test_fault_4_a_saved_view_of_5000_model_calls_says_how_many_it_has_and_shows_them(hostile: StatePage) -> None:
    build = EventBuilder({f"t{number}": () for number in range(100)})
    for number in range(100):
        with build.task(f"t{number}"):
            for iteration in range(1, 51):
                with build.turn(iteration):
                    build.llm("words " * 100)
    messages = TimelineMessages(TraceFold.from_events(build.finish()), variable="report")
    saved = messages.make_saved_view()
    some, every = saved["kept"]["llm"]
    assert 0 < some < every == 5000
    hostile.show("waiting-for-data")
    hostile.page.evaluate(
        """async ([view, saved]) => {
            document.body.replaceChildren();
            (await import(view)).default.showSaved(document.body, saved);
        }""",
        [hostile.view, saved],
    )
    view = hostile.page.locator(".ensemble-timeline")
    wait_for_text(view, f"{some:,} of 5,000 calls kept here; all of them: report.timeline.")
    view.locator("[role=row]").first.click()
    hostile.page.keyboard.press("t")
    view.get_by_role("grid").get_by_text("Model call", exact=True).first.wait_for()


def test_w15_every_state_has_a_word_of_its_own(narrow: StatePage) -> None:
    words = {state: narrow.show(state).locator(".et-word").inner_text() for state in STATES}
    shared = ("metadata", "saved", "large", "waiting-for-data")  # these tell by a note, or are the state before any
    assert words["metadata"] == words["saved"] == words["error"] == "Failed"
    own = [word for state, word in words.items() if state not in shared]
    assert len(set(own)) == len(own)
    assert words["gone"] == "Kernel gone"
    assert words["restarted"] == "Kernel restarted"
