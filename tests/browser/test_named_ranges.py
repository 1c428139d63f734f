"""Times of a run that a person names: in JupyterLab, in the file of the notebook, in an exported page (W135, W136)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from ensemble_notebook import Ensemble, ScriptedChatModel, Task
from tests.browser.cell import LOAD, REPORT, TEAM
from tests.browser.lab import find_axe_faults, photograph

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Opener

HOSTILE: Final = "<img src=x onerror=hacked=1> [a](javascript:hacked=1)"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_range_that_is_named_in_the_view_is_there_for_who_opens_the_notebook_w136(
    open_notebook: Opener, theme: str
) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, theme=theme)
    notebook.run_to_end(0, 1, 2)
    view = notebook.timeline(2).first
    notebook.execute("length = report.total_duration.total_seconds() * 1000; report.timeline.range = (0, length / 2)")
    marked = view.get_by_role("region", name="Marked range")
    marked.get_by_role("button", name="Mark as bad").click()
    named = view.get_by_role("group", name="Named ranges")
    bad = named.get_by_role("button", name="bad, 0 s to")
    expect(bad).to_have_attribute("aria-pressed", "true")
    notebook.execute("report.timeline.range = (length / 4, length)")
    marked.get_by_role("button", name="Label and note").click()
    marked.get_by_role("textbox", name="Label").fill("one after the other")
    marked.get_by_role("textbox", name="Note").fill(f"nothing is side by side here {HOSTILE}")
    marked.get_by_role("button", name="Mark", exact=True).click()
    label = named.get_by_role("button", name="one after the other")
    expect(label).to_have_attribute("aria-pressed", "true")
    expect(named).to_contain_text(HOSTILE)
    photograph(f"named-ranges-{theme}", notebook.page, after_s=1)
    assert find_axe_faults(view) == []
    bad.press("Enter")
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(view.get_by_role("slider", name="Start of the range")).to_have_attribute("aria-valuenow", "0")
    assert notebook.page.evaluate("window.hacked === undefined")
    notebook.save()
    notebook.shut_down()
    notebook.reload()
    named = notebook.timeline(2).first.get_by_role("group", name="Named ranges")
    expect(named.get_by_role("button")).to_have_count(2)
    named.get_by_role("button", name="one after the other").click()
    expect(named).to_contain_text("nothing is side by side here")
    expect(notebook.page.get_by_role("button", name="Mark as bad")).to_have_count(0)
    notebook.page.evaluate("jupyterapp.shell.collapseLeft()")
    notebook.page.set_viewport_size({"width": 480, "height": 1400})
    photograph(f"named-ranges-narrow-{theme}", notebook.page, after_s=1)


def test_an_exported_page_has_named_ranges_that_lead_back_to_their_times_w135(page: Page, tmp_path: Path) -> None:
    tasks = [Task.of(f"Say {name}", name=name, llm=ScriptedChatModel(default=name)) for name in ("draft", "polish")]
    run = Ensemble(tasks=tasks, name="report").run()
    length = run.total_duration.total_seconds() * 1000
    named = run.annotate(False, "mark", f"too slow {HOSTILE}", range=(length / 4, length / 2))
    named = named.annotate(0.5, "pace", range=(0, length))
    page.goto(named.export(tmp_path / "run.html").as_uri())
    ranges = page.get_by_role("group", name="Named ranges")
    expect(ranges.get_by_role("button")).to_have_count(2, timeout=20_000)
    expect(ranges.get_by_role("button", name="pace: 0.5")).to_be_visible()
    page.keyboard.press("Escape")
    for _ in range(6):  # closer, so that it is out of sight
        page.get_by_role("button", name="More").press("Enter")
        page.get_by_role("button", name="Zoom in").click()
        page.get_by_role("button", name="More").press("Enter")
    ranges.get_by_role("button", name="bad").click()
    expect(page.get_by_role("slider", name="Start of the range")).to_have_attribute(
        "aria-valuenow", str(int(length / 4 + 0.5))
    )
    expect(ranges).to_contain_text(HOSTILE)
    assert page.evaluate("window.hacked === undefined")
    assert find_axe_faults(page.locator(".ensemble-timeline")) == []
