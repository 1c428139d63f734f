"""Links to a span and to a time of a run, in an exported page (W126)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_notebook import Ensemble, ScriptedChatModel, Task

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_w126_links_lead_to_a_span_and_to_a_time_in_an_exported_page(page: Page, tmp_path: Path) -> None:
    tasks = [Task.of(f"Say {name}", name=name, llm=ScriptedChatModel(default=name)) for name in ("draft", "polish")]
    run = Ensemble(tasks=tasks, name="report").run()
    address = run.export(tmp_path / "run.html").as_uri()
    span = run.frames.spans.query("kind == 'task' and name == 'polish'").index[0]
    page.goto(f"{address}#run-span={span}")
    drawer = page.get_by_role("region", name="Details of polish")
    drawer.wait_for(timeout=20_000)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    drawer.get_by_role("button", name="Copy link to this span").click()
    page.get_by_text("Copied", exact=True).wait_for()
    other = run.frames.spans.query("kind == 'task' and name == 'draft'").index[0]
    page.evaluate("hash => location.hash = hash", f"run-span={other}")
    page.get_by_role("region", name="Details of draft").wait_for()
    page.evaluate("hash => location.hash = hash", f"run-range={run.run_id}:0-1")
    handles = page.get_by_role("slider")
    handles.first.wait_for()
    assert [handles.nth(at).get_attribute("aria-valuenow") for at in range(2)] == ["0", "1"]
    page.get_by_role("button", name="Copy link to this range").wait_for()
