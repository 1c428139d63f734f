"""The end of a run changes the view in place, in a real JupyterLab (W5)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.browser.cell import LOAD, NIGHT, SLEEPER
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator

# Places in the page that a person looks at, and where the rows and the window of the view are.
LOOK = """root => ({
    top: root.getBoundingClientRect().top,
    chart: root.querySelector(".et-chart").getBoundingClientRect().top,
    drawer: root.querySelector(".et-drawer")?.getBoundingClientRect().top,
    height: root.getBoundingClientRect().height,
    selected: root.querySelector(".et-row[aria-selected=true] .et-title")?.textContent,
    hasFocus: root.contains(document.activeElement),
})"""


def test_w5_the_end_of_a_run_closes_nothing_and_moves_nothing(open_in_window: Opener, lab: Lab) -> None:
    notebook = open_in_window(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_ended"), *["1 + 1"] * 12)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    timeline = notebook.timeline(2)
    wait_for_text(timeline, "1/3 tasks")
    timeline.get_by_text("find", exact=True).first.click()
    for key in "www":
        notebook.page.keyboard.press(key)
    # As a person has it who reads the drawer: the view's head is scrolled away, cells below are in sight.
    timeline.evaluate(
        "root => root.closest('.jp-WindowedPanel-outer').scrollBy(0, root.getBoundingClientRect().top - 100)"
    )
    drawer = timeline.locator(".et-drawer")
    drawer.wait_for()
    wait_for_text(drawer, "There is a bed by the window.")
    before = look_at_rest(timeline)
    photograph("end-before-light", notebook.page)
    (lab.work / "nap_ended.wake").touch()
    notebook.wait_until_done(2)
    wait_for_text(timeline, "Completed")
    wait_for(lambda: timeline.locator(".et-drawer").count() == 1, 30)
    photograph("end-after-light", notebook.page)
    wait_for(lambda: look(timeline) == before, 30, lambda: f"{look(timeline)} is not {before}")


def look_at_rest(timeline: Locator) -> dict[str, object]:
    """Where things stand once nothing has moved for a second."""
    seen, since = look(timeline), time.monotonic()

    def rests() -> bool:
        nonlocal seen, since
        if (now := look(timeline)) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > 1

    wait_for(rests, 60)
    return seen


def look(timeline: Locator) -> dict[str, object]:
    found: dict[str, object] = timeline.evaluate(LOOK)
    return found
