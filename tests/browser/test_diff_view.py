"""Two runs in one timeline (W17), in a browser: their rows stand in pairs, and the differences beside the bars."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from ensemble_notebook.notebook.picture.diff_picture import make_diff_bundle
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.browser.built_view import open_view, show_saved_view
from tests.browser.compared_runs import RATES, save_comparison
from tests.browser.lab import photograph, wait_for
from tests.support.event_builder import EventBuilder

PAIRS = ["plan", "facts", "risks", "brief"]


@pytest.mark.parametrize("width", [480, 940, 1400])
def test_two_runs_stand_one_above_the_other_with_their_differences(page: Page, address: str, width: int) -> None:
    open_view(page, address, "", width=width)
    show_saved_view(page, save_comparison())
    rows, chips = page.locator(".et-row-task"), page.locator(".et-delta")
    titles = [f"{side} · {name}" for name in PAIRS for side in "AB"]
    expect(rows.locator(".et-title")).to_have_text([*titles, "B · check"])
    expect(chips).to_have_count(5)
    expect(chips.first).to_contain_text("+720 ms")
    expect(chips.last).to_have_text("added")
    expect(rows.nth(5)).to_contain_text("+3.9 s · +48 tokens")
    for number, row in enumerate([1, 3, 5, 7, 8]):
        wait_for(lambda number=number, row=row: is_beside(page, number, row), 30)


def is_beside(page: Page, number: int, row: int) -> bool:
    """Whether a chip stands in the chart, beside its row."""
    stage, beside, chip = (
        page.locator(part).nth(place).bounding_box()
        for part, place in ((".et-stage", 0), (".et-row-task", row), (".et-delta", number))
    )
    assert stage
    assert beside
    assert chip
    return (
        beside["y"] <= chip["y"] <= chip["y"] + chip["height"] <= beside["y"] + beside["height"]
        and stage["x"] <= chip["x"] <= chip["x"] + chip["width"] <= stage["x"] + stage["width"]
    )


@pytest.mark.parametrize("width", [470, 620, 1200])
def test_amounts_of_a_comparison_stay_in_sight_beside_long_names(page: Page, width: int) -> None:
    traces = []
    for seconds in (0.248, 0.143):
        build = EventBuilder({"gather-the-key-facts-about-the-topic-and-whoever-has-written-about-it": ()})
        with build.task("gather-the-key-facts-about-the-topic-and-whoever-has-written-about-it"), build.turn():
            build.llm("Found.", seconds=seconds, input_tokens=int(2000 * seconds), output_tokens=20)
        traces.append(ExecutionTrace.from_events(build.finish(), RATES))
    page.set_viewport_size({"width": width, "height": 600})
    html = make_diff_bundle(traces[0].diff(traces[1]))["text/html"]
    page.set_content(f'<body style="margin: 0; font-family: sans-serif">{html}</body>')  # as in JupyterLab
    table = page.locator("table")
    assert table.evaluate("table => table.offsetWidth <= table.parentElement.clientWidth")
    photograph(f"comparison-{width}", page)
