"""The drawer in a real browser: all of a span, whatever is in it, while the run goes on (W5, W6, W10)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.built_view import open_view, wait_for_picture
from tests.browser.lab import find_axe_faults, measure_slowness, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

OVER = "at=15000"
HOSTILE = (
    "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>[x](javascript:alert(1)) ![y](http://e/x.png)"
)
# Markup that would be active, anywhere in the drawer.
NAMES = "a, img, script, iframe, object, embed, form, style, link, [onerror], [href], [src]"
ACTIVE = f"root => root.querySelectorAll('{NAMES}').length"
# A task of the page that takes longer than this holds up a person.
WATCH_TASKS = """() => {
    window.longest = 0;
    new PerformanceObserver(list => {
        for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
    }).observe({type: "longtask"});
}"""
# Scripted mice select text unevenly, so the range is made by hand; a person's would be the same to the page.
SELECT_WORDS = """(panel, words) => {
    const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const at = node.data.indexOf(words);
        if (at < 0) continue;
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + words.length);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        return true;
    }
    return false;
}"""
STATE = """panel => ({
    top: panel.scrollTop, most: panel.scrollHeight - panel.clientHeight, selected: String(getSelection()),
})"""
# Some 40 letters more, when the test says so: a clock would run on while the page is slow.
WRITE_ON = "model.step(model.at + 400)"
# What was said is said for a moment only, so the page keeps it.
KEEP_WHAT_IS_SAID = """drawer => new MutationObserver(() => {
    for (const {textContent} of drawer.querySelectorAll("[role=status]")) window.said?.push(textContent);
}).observe(drawer, {childList: true, characterData: true, subtree: true})"""
IS_WHOLE = "panel => panel.scrollWidth <= panel.clientWidth + 1"


def open_drawer(timeline: Locator, row: str, steps: int = 0) -> Locator:
    """Open the details of a row, or of a span so many steps into it."""
    timeline.locator(".et-row", has_text=row).first.click()
    timeline.page.keyboard.press("Enter")
    drawer = timeline.locator(".et-drawer")
    drawer.wait_for()
    for _ in range(steps):
        drawer.get_by_role("button", name="Next span").click()
    return drawer


def open_tab(drawer: Locator, name: str) -> Locator:
    drawer.get_by_role("tab", name=name).click()
    return drawer.get_by_role("tabpanel")


def height(part: Locator) -> float:
    box = part.bounding_box()
    assert box is not None
    return box["height"]


def test_tabs_and_spans_keep_the_height_and_the_tab(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER)
    drawer = open_drawer(timeline, "read the code")
    sizes = set()
    for name in ("Summary", "Messages", "Tokens & cost", "Links", "Raw"):
        open_tab(drawer, name)
        sizes.add(height(drawer))
    for _ in range(4):
        drawer.get_by_role("button", name="Next span").click()
        sizes.add(height(drawer))
        expect(drawer.get_by_role("tab", name="Raw")).to_have_attribute("aria-selected", "true")
    assert len(sizes) == 1
    splitter = drawer.get_by_role("separator", name="Height of the details")
    splitter.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    before = sizes.pop()
    wait_for(lambda: height(drawer) > before, 30)


def test_tabs_are_walked_by_arrows_and_axe_finds_nothing(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER)
    drawer = open_drawer(timeline, "search the web")
    wait_for_text(drawer, "Local models in notebooks")
    drawer.get_by_role("tab", selected=True).focus()
    names = ["summary", "messages", "tool", "spend", "links", "raw"]
    expect(drawer.get_by_role("tab")).to_have_count(len(names))
    for name in names:
        focused = page.locator(":focus")
        expect(focused).to_have_attribute("data-tab", name)
        expect(focused).to_have_attribute("aria-selected", "true")
        expect(drawer.locator("[role=tab][tabindex='0']")).to_have_count(1)
        wait_for_picture(page)
        assert find_axe_faults(drawer, even_minor=True) == []
        page.keyboard.press("ArrowRight")
    expect(page.locator(":focus")).to_have_attribute("data-tab", "summary")
    for _ in range(8):  # the switch, what copies, what makes the call again and marks it, then the text itself
        page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_attribute("role", "tabpanel")
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


def test_markdown_is_laid_out_or_shown_as_written_and_the_choice_stays(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER)
    panel = open_tab(open_drawer(timeline, "search the web"), "Messages")
    reply = panel.locator("[data-role=assistant]").last
    for part in ("table", "blockquote", "ol", "ul ul, ol ul", "pre code", "strong", "em", "s", "hr", ".et-alt"):
        reply.locator(part).first.wait_for(state="attached")
    wait_for_text(reply, "(https://example.org/a-paper)")
    wait_for_text(reply, "<script>alert('never')</script>")
    assert panel.evaluate(ACTIVE) == 0
    photograph("drawer-markdown", reply)
    timeline.get_by_role("button", name="Formatted").click()
    wait_for_text(reply, "| Model | Start | Tokens per second |")
    expect(reply.locator("table, strong, ol")).to_have_count(0)
    page.reload()
    panel = open_tab(open_drawer(page.locator(".ensemble-timeline"), "search the web"), "Messages")
    wait_for_text(panel, "# Local models in notebooks")


def test_nothing_that_is_hostile_becomes_active_in_any_tab(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    timeline = open_view(page, address, OVER)
    details = {
        "kind": "details",
        "span_id": "web",
        "messages": [
            {"role": "user", "text": HOSTILE},
            {
                "role": HOSTILE,
                "name": HOSTILE,
                "text": HOSTILE,
                "tool_calls": [{"name": HOSTILE, "arguments": HOSTILE}],
            },
        ],
        "input": HOSTILE,
        "output": "# H\n\n- H\n\n|H|\n|--|\n|H|\n\n> H\n\n```H\nH\n```".replace("H", HOSTILE),
        "error": {"type": HOSTILE, "message": HOSTILE},
    }
    drawer = open_drawer(timeline, "search the web")
    wait_for_text(drawer, "Local models in notebooks")  # its own details, which would come over the hostile ones
    before = len(asked)
    page.evaluate("content => model.post(content)", details)
    wait_for_text(drawer, "onerror")
    for tab in drawer.get_by_role("tab").all():
        tab.click()
        while (more := drawer.get_by_role("button", name="Show all")).count():
            more.first.click()
        assert drawer.evaluate(ACTIVE) == 0
    assert page.evaluate("window.hacked") is None
    assert asked[before:] == []


def test_a_reply_of_a_million_characters_is_shown_in_steps_that_hold_nobody_up(page: Page, address: str) -> None:
    timeline = open_view(page, address, OVER)
    drawer = open_drawer(timeline, "compare findings", 1)
    panel = open_tab(drawer, "Messages")
    reply = panel.locator("[data-role=assistant]").last
    wait_for_text(reply, "Show all")
    total = page.evaluate("import('./replies.js').then(({LONG}) => LONG.length)")
    assert total > 600_000
    page.evaluate(WATCH_TASKS)

    def is_smooth() -> bool:
        """Show all of it, and less again; the aim is 50 ms on a machine that does nothing else."""
        slowness = measure_slowness(page)
        page.wait_for_timeout(300)  # that was a long task itself
        page.evaluate("longest = 0")
        reply.get_by_role("button", name="Show all").click()
        wait_for(lambda: "at hour 13999" in (reply.text_content() or ""), 60)
        page.wait_for_timeout(300)
        longest: float = page.evaluate("longest")
        reply.get_by_role("button", name="Show less").click()
        wait_for_text(reply, "Show all")
        return longest < 100 * max(slowness, measure_slowness(page))

    # Something else that the machine does may hold up any one step.
    assert any(is_smooth() for _ in range(5))


def test_buttons_copy_prompts_replies_and_the_expression(page: Page, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    timeline = open_view(page, address, OVER)
    drawer = open_drawer(timeline, "compare findings", 1)
    panel = open_tab(drawer, "Messages")
    drawer.evaluate(KEEP_WHAT_IS_SAID)

    def copied(button: Locator) -> str:
        page.evaluate("window.said = []")
        button.click()
        page.wait_for_function("said.includes('Copied')")
        text: str = page.evaluate("navigator.clipboard.readText()")
        expect(drawer.get_by_text("Copied")).to_have_count(0)
        return text

    assert (
        copied(drawer.get_by_role("button", name="Copy DataFrame expression"))
        == 'report.frames.spans.loc["compare.l1"]'
    )
    assert copied(panel.get_by_role("button", name="Copy prompt").first) == "Compare all tides of two years."
    # All of it, though the page has only the beginning.
    assert len(copied(panel.get_by_role("button", name="Copy reply"))) > 600_000
    # Where the page may not use the clipboard, as by hand.
    page.evaluate(
        "Object.defineProperty(navigator.clipboard, 'writeText', {value: () => Promise.reject(new Error('no'))})"
    )
    assert copied(panel.get_by_role("button", name="Copy prompt").first) == "Compare all tides of two years."


def test_what_is_selected_and_scrolled_to_stays_while_a_reply_grows(page: Page, address: str) -> None:
    timeline = open_view(page, address, "at=4500")
    drawer = open_drawer(timeline, "read the code")
    panel = open_tab(drawer, "Messages")
    page.evaluate(WRITE_ON)
    growing = panel.locator("[data-grows=true]")
    growing.wait_for()

    def state() -> dict[str, Any]:
        found: dict[str, Any] = panel.evaluate(STATE)
        return found

    def grow() -> None:
        length = len(growing.inner_text())
        page.evaluate(WRITE_ON)
        wait_for(lambda: len(growing.inner_text()) > length, 30)

    grow()
    wait_for(lambda: state()["top"] >= state()["most"] - 2 > 0, 30)  # at the end, as the text grows
    assert panel.evaluate(SELECT_WORDS, "Local models")
    top = state()["top"]
    grow()
    wait_for(lambda: state()["selected"] == "Local models", 30)
    assert state()["top"] == top
    page.evaluate("getSelection().removeAllRanges()")
    panel.evaluate("panel => { panel.scrollTop = 0; }")
    grow()
    assert state()["top"] == 0
    panel.evaluate("panel => { panel.scrollTop = panel.scrollHeight; }")
    grow()
    wait_for(lambda: state()["top"] >= state()["most"] - 2, 30)


def test_a_typed_reply_is_a_table_while_it_grows_and_shows_nothing_that_is_half(page: Page, address: str) -> None:
    """W168."""
    timeline = open_view(page, address, "at=4500")
    drawer = open_drawer(timeline, "read the code")
    facts = [{"fact": "It turns twice", "year": 2026}, {"fact": "b", "constructor": {"by": ["A", "B"]}}]
    whole = json.dumps({"title": f"Tides {HOSTILE}", "score": 127, "kind": "good enough", "facts": facts})

    def write(end: str) -> None:
        page.evaluate(
            """reply => {
                const [call] = Object.keys(model.scene.textAt(model.at + 10));
                model.scene = {...model.scene, textAt: () => ({[call]: reply})};
                model.step(model.at + 10);
            }""",
            whole[: whole.index(end) + len(end)],
        )

    table = drawer.locator(".et-json[data-grows=true]")
    write(": 12")
    for tab in ("Summary", "Messages"):
        open_tab(drawer, tab)
        expect(table.get_by_role("row", name="title")).to_contain_text("Tides <img src=x")
        expect(table).not_to_contain_text("score")
    assert drawer.evaluate(ACTIVE) == 0
    write('"good')
    expect(table.get_by_role("row", name="score")).to_contain_text("127")
    expect(table).not_to_contain_text("kind")
    write("It turns t")
    expect(table).to_contain_text("good enough")
    expect(table.get_by_role("columnheader")).to_have_text(["fact"])
    expect(table).to_contain_text("It turns t…")
    write('"by": ["A", ')
    expect(table.get_by_role("columnheader")).to_have_text(["fact", "year", "constructor"])
    expect(table).to_contain_text("2026")
    expect(table).not_to_contain_text("function")
    fold = table.get_by_role("button", name="by")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.focus()
    page.keyboard.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "true")
    write("}]}")
    expect(fold).to_contain_text("2 items")
    expect(fold).to_have_attribute("aria-expanded", "true")  # what a person opened stays so while it grows
    assert find_axe_faults(drawer) == []
    photograph("typed-reply", drawer)
    drawer.get_by_role("button", name="Formatted").click()
    expect(drawer.locator("[data-grows=true]")).to_contain_text('"score": 127')


@pytest.mark.parametrize(
    "query, row, sentence",
    [
        ("saved", "read the code", "Left out of the saved copy"),
        ("at=6000&silent", "read the code", "The kernel is busy with its cell"),
        ("at=15000&silent", "read the code", "The kernel is busy, or was restarted"),
        ("at=15000&capture=metadata", "read the code", "No texts were kept: capture is METADATA."),
    ],
)
def test_it_says_why_texts_are_not_there(page: Page, address: str, query: str, row: str, sentence: str) -> None:
    timeline = open_view(page, address, query)
    wait_for_text(open_drawer(timeline, row), sentence)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 480, 900, 1400])
def test_every_tab_fits_its_width(page: Page, address: str, width: int, theme: str) -> None:
    timeline = open_view(page, address, f"{OVER}&theme={theme}", width=width)
    drawer = open_drawer(timeline, "search the web")
    for name in ("Summary", "Messages", "Tool I/O", "Tokens & cost", "Links", "Raw"):
        panel = open_tab(drawer, name)
        wait_for_picture(page)
        wait_for(lambda panel=panel: bool(panel.evaluate(IS_WHOLE)), 30, lambda name=name: name)  # type: ignore[misc]
        photograph(f"drawer-{name.split()[0].lower()}-{width}-{theme}", drawer)
