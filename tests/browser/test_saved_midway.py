"""A notebook that is saved while a run goes on, and what is left of it once its kernel is gone (W24, W30)."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import nbformat
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from tests.browser.cell import LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, Notebook, find_axe_faults, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

TEAM = """
import asyncio
import ensemble_notebook
from pathlib import Path
from ensemble_notebook import Reply, ScriptedChatModel

ensemble_notebook.config.store = "runs.db"

async def hold(task):
    while not Path("midway.wake").exists():
        await asyncio.sleep(0.05)
    return "checked"

def look(task):
    return "seen"

def break_down(task):
    raise ValueError("broken")

model = ScriptedChatModel(default=Reply("Silt, storms, fish. " * 8, delay=0.2))
"""
REPORT = """%%ensemble -o report
llm: model
cost: {input_rate: 0.00001, output_rate: 0.00004}
phases:
  research:
    tasks: {market: Find the market, prices: Find prices, competitors: Find competitors, risks: Find risks}
  writing:
    after: [research]
    tasks:
      check: {description: Check the figures, handler: hold}
      draft: {description: Write a draft, context: [check]}
      title: {description: Find a title, context: [draft]}
  publish:
    after: [writing]
    tasks: {sign_off: Sign it off}
"""
FAULTY = """%%ensemble -o report
tasks:
  look: {description: Look, handler: look}
  break: {description: Break, handler: break_down, context: [look]}
"""
SAVED = r"running when saved, \d+:\d\d [AP]M(?: UTC| GMT[+-][\d:]+)? · 4 of 8 tasks · \d+(\.\d)? s · \$0\.0\d+"
BROKEN = SAVED.replace("running when saved", "interrupted")
_PICTURE = """() => {
    const { outputs } = jupyterapp.shell.currentWidget.content.widgets[2].model;
    return outputs.length > 0 ? String(outputs.get(0).toJSON().data?.["text/plain"]) : "";
}"""
MIME = "application/vnd.ensemble.trace+json"


def test_notebook_saved_in_the_middle_says_how_far_its_run_had_come(
    page: Page, open_notebook: Opener, lab: Lab
) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT)
    begin(notebook)
    notebook.save()
    picture = read_picture(notebook.path)
    assert find(SAVED, picture)
    assert not find("pending|0/0 tasks|not started", picture)
    assert len(picture.encode()) <= 20_000
    exported = lab.work.parent / "exported.html"
    exported.write_text(HTMLExporter().from_filename(str(notebook.path))[0])
    other = page.context.new_page()
    other.goto(exported.as_uri())
    wait_for(lambda: find(SAVED, other.inner_text("body")), 10)
    photograph("midway-nbconvert-light", other)
    # Elsewhere no kernel knows the run: what the file has is shown, and nothing of it moves.
    copied = Notebook(other, lab.url(lab.work / "copied.ipynb"), lab.work / "copied.ipynb")
    shutil.copy(notebook.path, copied.path)
    copied.open()
    view = copied.timeline(2)
    expect(view.locator(".et-word")).to_have_text("Running when saved")
    expect(view.locator(".et-sentence")).to_have_text(re.compile(f"^{SAVED}$"))
    expect(view.locator(".et-time", has_text="unknown")).not_to_have_count(0)
    expect(view).to_have_attribute("data-live", "false")
    for width in (1400, 900, 480):
        other.set_viewport_size({"width": width, "height": 900})
        view.get_by_role("button", name="Resume").scroll_into_view_if_needed()
        expect(view.get_by_role("button", name="Resume")).to_be_in_viewport(ratio=0.9)
        photograph(f"midway-saved-{width}", other)
    other.close()


def test_run_whose_kernel_was_restarted_says_what_is_left_and_is_resumed_by_a_button(
    page: Page, open_notebook: Opener, lab: Lab
) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, "print('below')")
    begin(notebook)
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    view = notebook.timeline(2)
    expect(view.locator(".et-word")).to_have_text("Kernel restarted")
    expect(view.locator(".et-sentence")).to_have_text(re.compile(f"^{BROKEN}$"))
    resume = view.locator(".et-resume")
    assert find(r"^Resume\s*4 of 8 done, \$0\.0\d+ kept$", resume.inner_text())
    assert find_axe_faults(view) == []
    for width in (1400, 900, 480):
        page.set_viewport_size({"width": width, "height": 900})
        view.get_by_role("button", name="Resume").scroll_into_view_if_needed()
        expect(view.get_by_role("button", name="Resume")).to_be_in_viewport(ratio=0.9)
        photograph(f"midway-restarted-{width}", page)
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    view.and_(page.locator("[data-theme=dark]")).wait_for(timeout=30_000)
    assert find_axe_faults(view) == []
    photograph("midway-restarted-dark", page)
    page.set_viewport_size({"width": 1400, "height": 900})
    resume.get_by_role("button", name="Resume").focus()
    for _ in range(2):  # the second time there is one already
        page.keyboard.press("Enter")
        expect(notebook.cell(3).locator(".cm-content")).to_have_text(re.compile(r"^%ensemble resume \S+ -o report$"))
        resume.get_by_role("button", name="Resume").focus()
    expect(notebook.cell(4).locator(".cm-content")).to_have_text("print('below')")
    assert notebook.prompt(3) == "[ ]:"
    notebook.save()
    picture = read_picture(notebook.path)
    assert find(BROKEN, picture)
    assert not find(SAVED, picture)
    photograph("midway-line-light", page)
    notebook.wait_until_idle()
    (lab.work / "midway.wake").touch()
    notebook.run_to_end(0, 1, 3)
    wait_for_text(notebook.timeline(3), "Completed")
    wait_for_text(notebook.timeline(3), "8 tasks in")
    expect(notebook.timeline(3).locator(".et-resume")).to_have_count(0)


def begin(notebook: Notebook) -> None:
    """Run it until half of it is done and the rest waits, and the picture beside the view tells so."""
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_until_pictured(notebook)


def wait_until_pictured(notebook: Notebook) -> None:
    """Wait until half of it is done, and the picture that would be saved tells so."""
    wait_for_text(notebook.timeline(2), "4/8 tasks")

    def read() -> str:
        return str(notebook.page.evaluate(_PICTURE))

    wait_for(lambda: find(SAVED, read()), 60, read)


def find(pattern: str, text: str) -> bool:
    """Whether a text has it, whatever spaces are in it."""
    return re.search(pattern, " ".join(text.replace("\xa0", " ").split())) is not None


def read_picture(path: Path) -> str:
    """What a notebook's file has beside the view of its third cell, as a reader of it alone sees it."""
    output = nbformat.read(path, as_version=4).cells[2].outputs[0]
    assert output.data[MIME]["kind"] in ("live", "saved")
    return output.data["text/plain"] + re.sub("<[^>]*>", "", output.data["text/html"])


def test_failed_run_is_resumed_by_a_line_below_in_notebook_7(page: Page, open_in_notebook_7: Opener) -> None:
    notebook = open_in_notebook_7(LOAD, TEAM, FAULTY, "report")
    notebook.run_to_end(0, 1, 2, 3)
    whole = notebook.timeline(3)  # an output by itself is the whole view, not a saved one
    expect(whole.locator(".et-word")).to_have_text("Failed")
    expect(whole.get_by_text("saved view")).to_have_count(0)
    view = notebook.timeline(2)
    expect(view.locator(".et-word")).to_have_text("Failed")
    assert find(r"^Resume\s*1 of 2 done$", view.locator(".et-resume").inner_text())  # handlers cost nothing
    view.get_by_role("button", name="Resume").click()
    expect(notebook.cell(3).locator(".cm-content")).to_have_text(re.compile(r"^%ensemble resume \S+ -o report$"))
    assert notebook.prompt(3) == "[ ]:"
    photograph("resume-notebook-7-light", page)
    page.keyboard.press("Shift+Enter")  # the new cell has the focus
    notebook.wait_until_idle()
    wait_for_text(notebook.timeline(3), "Failed")
    wait_for_text(notebook.timeline(3), "1 of 2 tasks reused")


def test_page_that_was_loaded_since_saves_a_picture_as_new_as_any(page: Page, open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT)
    notebook.save()
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "4/8 tasks")
    page.on("dialog", lambda dialog: dialog.accept())  # whether to leave what is not saved
    page.reload()
    wait_until_pictured(notebook)
    notebook.save()
    assert find(SAVED, read_picture(notebook.path))
