"""What stands in the rows while a run goes on, in a real JupyterLab: waits, streamed words, lines (W3, W19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator

STARTING: Final = "Starting the local model"
# A model of which one says when it is ready, since a real one may be there at once; then it takes its time to write.
MODEL: Final = f"""
import asyncio
from pathlib import Path
from ensemble_notebook import Reply, ScriptedChatModel
from ensemble_notebook.models.model_source import ModelSource

prepare = ModelSource.prepare

async def prepare_slowly(self, llm, notice):
    notice("{STARTING} ...")
    while not Path("ready.wake").exists():
        await asyncio.sleep(0.05)
    return await prepare(self, llm, notice)

ModelSource.prepare = prepare_slowly
# It writes a word in 50 ms for longer than any machine needs for the test, which stops it.
words = " ".join(f"word{{number}}" for number in range(6000))
model = ScriptedChatModel.match({{"## Task\\nTell": Reply(words, delay=300)}}, default="There is a bed by the window.")
"""
BED: Final = """%%ensemble -o bed
llm: model
tasks:
  find: Find a bed
  tell: {description: Tell of it, context: [find]}
"""
# The page keeps what is in the newest picture: its texts, and how many curved lines.
_WATCH: Final = """() => {
    const page = window.CanvasRenderingContext2D.prototype;
    const { clearRect, fillText, bezierCurveTo } = page;
    page.clearRect = function (...values) {
        window.picture = { texts: [], curves: 0 };
        return clearRect.apply(this, values);
    };
    page.fillText = function (...values) { window.picture.texts.push(values[0]); return fillText.apply(this, values); };
    page.bezierCurveTo = function (...values) { window.picture.curves += 1; return bezierCurveTo.apply(this, values); };
}"""
_IS_ON_ITS_LINE: Final = """row => {
    const [around, title, end] = [row, row.querySelector(".et-title"), row.querySelector(".et-end")]
        .map((part) => part.getBoundingClientRect());
    return around.top <= title.top && title.bottom <= around.bottom && end.right <= title.right + 1;
}"""
_MODEL_CALLS: Final = """canvas => canvas.listBars().filter(bar => bar.shape === "llm")"""


def test_w3_w19_rows_tell_of_startups_streamed_words_and_who_waited_for_whom(open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, MODEL, BED)
    page = notebook.page
    notebook.run_to_end(0, 1)
    page.evaluate(_WATCH)
    notebook.run(2)
    timeline = notebook.timeline(2)
    status, note = timeline.locator(".et-status"), timeline.locator(".et-preparing")
    wait_for_text(timeline, STARTING)
    wait_for_text(note, STARTING)
    wait_for_text(row_of(timeline, "find"), "waits for its model")
    photograph("startup-light", timeline)
    expect(row_of(timeline, STARTING).locator(".et-time")).not_to_contain_text(STARTING)  # which its name says already

    (lab.work / "ready.wake").touch()
    wait_for_text(status, "1/2 tasks")
    wait_for(lambda: note.count() == 0, 30)
    wait_for(lambda: STARTING not in status.inner_text(), 30)
    assert notebook.prompt(2) == "[*]:"
    startup = row_of(timeline, STARTING)
    expect(startup).to_have_attribute("data-status", "ok")
    wait_for(lambda: startup.locator(".et-time").inner_text() != "", 30)
    waits = "canvas => canvas.listBars().filter(bar => bar.shape === 'wait').length"
    # In its own row, and that of the task which had nothing else to do.
    wait_for(lambda: timeline.locator(".et-canvas").evaluate(waits) == 2, 30)
    wait_for(lambda: "turn 1" in running_now(timeline), 30)

    first = read_last_word(timeline)
    wait_for(lambda: read_last_word(timeline) > first, 30)
    photograph("streamed-light", timeline)

    page.mouse.move(5, 5)
    wait_for(lambda: picture(timeline)["curves"] == 0, 30)
    canvas = timeline.locator(".et-canvas")
    box, bar = canvas.bounding_box(), canvas.evaluate(_MODEL_CALLS)[-1]
    assert box is not None
    page.mouse.move(box["x"] + bar["x"] + 3, box["y"] + bar["y"] + bar["h"] / 2)
    wait_for(lambda: picture(timeline)["curves"] == 1, 30)
    wait_for(lambda: "output: 29 characters" in picture(timeline)["texts"], 30)
    photograph("line-light", timeline)
    page.mouse.move(5, 5)
    wait_for(lambda: picture(timeline)["curves"] == 0, 30)
    row_of(timeline, "find").locator(".et-title").click()  # beside it stands what pins the row
    wait_for(lambda: picture(timeline)["curves"] == 2, 30)  # and what it waited for itself
    timeline.get_by_role("button", name="Stop").click()
    notebook.wait_until_done(2)
    wait_for(lambda: not any("word" in text for text in picture(timeline)["texts"]), 30)
    wait_for(lambda: STARTING not in status.inner_text(), 30)


def row_of(timeline: Locator, name: str) -> Locator:
    return timeline.locator(".et-row").filter(has=timeline.page.locator(".et-title", has_text=name))


def running_now(timeline: Locator) -> str:
    return timeline.locator(".et-now").inner_text()


def picture(timeline: Locator) -> dict[str, Any]:
    found: dict[str, Any] = timeline.page.evaluate("() => window.picture")
    return found


def read_last_word(timeline: Locator) -> int:
    """The number of the last word that stands in a row."""
    found: list[int] = []

    def look() -> bool:
        texts = [text for text in picture(timeline)["texts"] if "word" in text]
        found[:] = [int(text.rsplit("word", 1)[1]) for text in texts if text.rsplit("word", 1)[1].isdigit()]
        return bool(found)

    wait_for(look, 30, lambda: str(picture(timeline)["texts"]))
    return found[-1]


def test_what_tells_items_apart_stays_in_sight_on_the_line_of_its_row(open_in_window: Opener) -> None:
    many = "%%ensemble --llm scripted\ntasks:\n  {}: {{for_each: places, description: 'See {{item}}'}}\n"
    names = "see", "see_all_of_the_places_that_were_named"
    notebook = open_in_window(LOAD, "places = ['Rome', 'Oslo']", *map(many.format, names))
    notebook.run_to_end(0, 1, 2, 3)
    for number in (2, 3):
        # The first run has one of its startup, too.
        rows = notebook.timeline(number).locator(".et-row").filter(has_not_text="Loading langchain-core")
        expect(rows).to_have_count(3)
        for place in (1, 2):
            row, end = rows.nth(place), rows.nth(place).locator(".et-end")
            expect(end).to_have_text(f"[{place - 1}]")
            wait_for(lambda row=row: bool(row.evaluate(_IS_ON_ITS_LINE)), 30)  # type: ignore[misc]
