"""A run that asks a person, in a real JupyterLab: by its buttons while the cell is busy, and by input without them.

Holds C35 and W13 in a page.
"""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.cell import HOSTILE, LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import find_axe_faults, photograph, wait_for, wait_for_text

TEAM = f"""
from ensemble_notebook import ScriptedChatModel

model = ScriptedChatModel.match({{
    "## Revision Instructions": "A shorter draft.",
}}, default="A long **draft**. {HOSTILE}")
"""
CELL = """%%ensemble -o report{options}
llm: model
tasks:
  draft: {{description: Write a draft, review: after}}
  publish: {{description: Publish, context: [draft]}}
"""
RESULT = "print(report.status.value, '/', report['draft'].raw)"


def test_a_click_sends_a_draft_back_and_the_next_lets_the_run_go_on_while_the_cell_is_busy(
    open_in_window: Opener,
) -> None:
    notebook = open_in_window(LOAD, TEAM, CELL.format(options=""), RESULT)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    timeline = notebook.timeline(2)
    panel = timeline.get_by_role("region", name="Is the output of draft good?")
    panel.wait_for(timeout=30_000)
    wait_for_text(timeline, "Waiting for you")
    wait_for_text(panel, HOSTILE)
    assert notebook.page.evaluate("window.hacked === undefined")
    retry = panel.get_by_role("button", name="Send back…")
    expect(retry).to_have_attribute("aria-disabled", "false", timeout=30_000)  # once the kernel has answered
    photograph("review-light", notebook.page)
    assert notebook.prompt(2) == "[*]:"
    retry.click()
    panel.get_by_role("textbox", name="What should be different?").fill("Shorter, please")
    panel.get_by_role("button", name="Send back").click()
    expect(panel).to_contain_text("A shorter draft.", timeout=30_000)
    assert notebook.prompt(2) == "[*]:"
    panel.get_by_role("button", name="Approve").press("Enter")
    notebook.wait_until_done(2)
    expect(panel).to_have_count(0)
    wait_for_text(timeline, "Completed")
    photograph("review-after-light", notebook.page)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "completed / A shorter draft.")


def test_keys_in_the_field_write_and_the_panel_is_clean(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, CELL.format(options=""), RESULT, theme="dark")
    notebook.run_to_end(0, 1)
    notebook.run(2)
    panel = notebook.timeline(2).get_by_role("region", name="Is the output of draft good?")
    edit = panel.get_by_role("button", name="Edit…")
    expect(edit).to_have_attribute("aria-disabled", "false", timeout=30_000)
    photograph("review-dark", notebook.page)
    edit.click()
    field = panel.get_by_role("textbox", name="Go on with this text")
    expect(field).to_be_focused()
    expect(field).to_have_value(f"A long **draft**. {HOSTILE}")
    notebook.page.keyboard.press("ControlOrMeta+a")
    notebook.page.keyboard.type("f+- bad d")  # keys of the timeline, and of the notebook
    assert find_axe_faults(notebook.timeline(2).locator(".et-review"), even_minor=True) == []
    small = panel.get_by_role("button").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).filter(box => box.height < 24 || box.width < 24).length"
    )
    assert small == 0
    notebook.page.keyboard.press("Control+Enter")
    notebook.wait_until_done(2)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "completed / f+- bad d")


def test_without_a_timeline_the_same_question_comes_by_input(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, CELL.format(options=" --no-timeline"), RESULT)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    field = notebook.cell(2).locator(".jp-Stdin-input")
    field.wait_for(timeout=30_000)
    wait_for_text(notebook.outputs(2), "Is the output of 'draft' good?")
    photograph("review-input-light", notebook.page)
    field.fill("r shorter")
    field.press("Enter")
    wait_for(lambda: "A shorter draft." in notebook.output(2), 30)
    # The first one may still be on its way out, with what was written in it.
    wait_for(lambda: field.evaluate_all("all => all.map(one => one.value)") == [""], 30)
    field.fill("a")
    field.press("Enter")
    notebook.wait_until_done(2)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "completed / A shorter draft.")
