"""What is not seen: a run that is over costs the page nothing, and whoever can't see it can use it.

Holds W5 and W10 in a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.cell import LOAD, NIGHT, REPORT, SLEEPER, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, find_axe_faults, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Counts the callbacks that our modules ask for; the page's own have other addresses on their stacks.
COUNT_CALLBACKS = """
    window.ourCallbacks = 0;
    for (const name of ["requestAnimationFrame", "setInterval", "setTimeout"]) {
        const ask = window[name];
        window[name] = (act, ...rest) => {
            const isOurs = /blob:|ensemble-notebook\\/static/.test(new Error().stack);
            return ask.call(window, (...values) => {
                if (isOurs) window.ourCallbacks += 1;
                return act(...values);
            }, ...rest);
        };
    }
"""
ANIMATIONS = "root => root.getAnimations({subtree: true}).filter(({playState}) => playState === 'running').length"


def test_a_view_of_a_run_that_is_over_has_no_timers_and_no_animations(
    page: Page, open_notebook: Opener, lab: Lab
) -> None:
    page.add_init_script(COUNT_CALLBACKS)
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_rested"), "night.timeline")
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    wait_for(lambda: callbacks_in_a_second(page) > 0, 30)
    wait_for(lambda: notebook.timeline(2).evaluate(ANIMATIONS) > 0, 30)
    (lab.work / "nap_rested.wake").touch()
    notebook.wait_until_done(2)
    notebook.run_to_end(3)
    for number in (2, 3):
        wait_for_text(notebook.timeline(number), "Completed")
    page.wait_for_timeout(2500)  # the one settle pass, and the longest wait for an answer
    wait_for(lambda: callbacks_in_a_second(page) == 0, 30)
    wait_for(lambda: [notebook.timeline(number).evaluate(ANIMATIONS) for number in (2, 3)] == [0, 0], 30)


def callbacks_in_a_second(page: Page) -> int:
    page.evaluate("window.ourCallbacks = 0")
    page.wait_for_timeout(1000)
    count: int = page.evaluate("window.ourCallbacks")
    return count


def test_axe_finds_nothing_serious_in_light_and_dark(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, REPORT, "report.timeline")
    page = notebook.page
    notebook.run_to_end(0, 1, 2, 3)
    live = notebook.timeline(3)
    live.get_by_text("find", exact=True).first.click()
    live.get_by_role("tab", name="Messages").click()
    live.locator(".et-row").nth(1).click(modifiers=["Control"])
    live.locator(".et-gutter").press("[")
    live.locator(".et-range-handle").first.wait_for()
    live.locator(".et-summary").nth(1).wait_for()
    for theme in ("light", "dark"):
        page.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme.title()}'}})")
        notebook.timeline(3).and_(page.locator(f"[data-theme={theme}]")).wait_for(timeout=30_000)
        photograph(f"explored-{theme}", live)
        assert find_axe_faults(live) == []
        assert find_axe_faults(notebook.timeline(2)) == []
        live.get_by_label("Search the run").fill("tides")
        live.locator(".et-gutter").focus()
        page.keyboard.press("?")
        assert find_axe_faults(live) == []
        photograph(f"searched-{theme}", live)
        page.keyboard.press("t")
        live.get_by_role("grid").wait_for()
        assert find_axe_faults(live) == []
        page.keyboard.press("?")
        page.keyboard.press("t")
        live.get_by_label("Clear the search").click()
