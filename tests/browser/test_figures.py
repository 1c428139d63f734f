"""Figures are as wide as their place (T26), and the texts of a picture of a run stand beside each other (T13)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ensemble_notebook.notebook.picture.svg_picture import draw_svg
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.browser.cell import LOAD, REPORT, TEAM
from tests.browser.conftest import Opener
from tests.browser.lab import Notebook, photograph, wait_for
from tests.support.event_builder import EventBuilder

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PLOTS = ("report.plot.waterfall()", "report.plot.tokens()", "report.plot.concurrency()")
NUMBERS = (3, 4, 5)

_WIDTHS = """canvas => {
    const place = canvas.closest(".jp-OutputArea-output");
    return [canvas.getBoundingClientRect().width, place.clientWidth, place.scrollWidth];
}"""


def fits(chart: Locator, *, most: float) -> bool:
    """Whether a chart fills its place but for its margin, and nothing of it has to be scrolled to."""
    if chart.count() != 1:
        return False  # between two drawings
    width, room, needed = chart.evaluate(_WIDTHS)
    return bool(needed <= room and width == min(most, room - 48))


def wait_until_figures_fit(notebook: Notebook, *, most: float = 700) -> None:
    for number in NUMBERS:
        chart = notebook.outputs(number).locator("canvas")
        notebook.cell(number).scroll_into_view_if_needed()
        wait_for(lambda chart=chart: fits(chart, most=most), 30)  # type: ignore[misc]


def colours(notebook: Notebook) -> tuple[object, ...]:
    """The first pixel of the title that is not empty, of each figure."""
    title = """canvas => {
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, 24);
        const place = data.findIndex((value, index) => index % 4 === 3 && value === 255);
        return data[place - 3];
    }"""
    return tuple(notebook.outputs(number).locator("canvas").evaluate(title) for number in NUMBERS)


def test_figures_follow_the_window_and_the_side_panel_and_the_theme(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, REPORT, *PLOTS)
    page = notebook.page
    notebook.run_to_end(0, 1, 2, *NUMBERS)
    wait_until_figures_fit(notebook)
    photograph("figures-light", page)
    page.set_viewport_size({"width": 900, "height": 1200})
    wait_until_figures_fit(notebook)
    photograph("figures-narrow-light", page)
    page.evaluate("jupyterapp.shell.collapseLeft()")
    wait_until_figures_fit(notebook)
    page.evaluate("jupyterapp.shell.expandLeft()")
    wait_until_figures_fit(notebook)
    assert set(colours(notebook)) == {0}
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    wait_for(lambda: set(colours(notebook)) == {255}, 30)
    photograph("figures-narrow-dark", page)
    notebook.save()
    shown = json.loads(notebook.path.read_text())["cells"][NUMBERS[0]]["outputs"][0]["data"]
    assert "image/svg+xml" in shown
    assert "image/png" not in shown  # one picture is enough


def test_a_saved_figure_follows_the_window_without_a_kernel(page: Page, open_in_notebook_7: Opener) -> None:
    notebook = open_in_notebook_7(LOAD, TEAM, REPORT, *PLOTS)
    notebook.run_to_end(0, 1, 2, *NUMBERS)
    wait_until_figures_fit(notebook)
    notebook.save()
    notebook.shut_down()
    page.goto("about:blank")
    notebook.open()
    for width in (1300, 600, 1000):
        page.set_viewport_size({"width": width, "height": 1000})
        wait_until_figures_fit(notebook)
    photograph("notebook-7-figures-light", page)


# The pairs of texts of a picture that stand in one line and over each other.
_FIND_COVERED = """() => {
    const texts = [...document.querySelectorAll("text")];
    const boxes = texts.map((each) => [each.textContent, each.getBoundingClientRect()]);
    return boxes.flatMap(([one, a], k) => boxes.slice(k + 1)
        .filter(([, b]) => a.left < b.right && b.left < a.right && Math.abs(a.bottom - b.bottom) < 8)
        .map(([other]) => [one, other]));
}"""
NAMES = (
    "wwwwwwwwwwwwwwwwwwwwwwww",
    "WWWWWWWWWWWWWWWWWWWWWWWW",
    "Compare the prices of all",
    "潮汐的三个事实潮汐的三个事实潮汐的三个事实",
    "im" * 20,
)
AGENTS = (
    "MMMMMMMMMMMMMMMMMMMM",
    "Chief Financial Comptroller",
    "wwwwwwwwwwwwwwwwwww",
    "研究员研究员研究员研究员研究员",
    "Al",
)


def test_t13_no_text_of_a_picture_stands_over_another_one(page: Page) -> None:
    build = EventBuilder(dict.fromkeys(NAMES, ()), agents=dict(zip(NAMES, AGENTS, strict=True)))
    for name in NAMES:
        with build.task(name):
            build.wait(1)
    page.set_content(draw_svg(ExecutionTrace.from_events(build.finish())))
    assert page.locator("text", has_text="…").count() >= len(NAMES)
    assert page.evaluate(_FIND_COVERED) == []
    photograph("svg-names", page)
