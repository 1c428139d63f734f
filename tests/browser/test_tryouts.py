"""What a person tries and marks in the drawer of a run that is over, in JupyterLab (W113 to W116, W125)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.cell import HOSTILE, LOAD, REPORT, TEAM
from tests.browser.lab import find_axe_faults, photograph
from tests.support.openai_server import Answer, OpenAIServer, Request

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import Opener

SET_UP = """
import os
os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = "{url}", "none-is-needed"

def length(output):
    return len(output.raw)
"""
CELL = """%%ensemble -o report
llm: openai:gpt-4o-mini
agents:
  Writer: {goal: Write well}
  Critic: {goal: Be kind to the writer}
tasks:
  draft: {description: Write a draft about tides, agent: Writer}
  facts: {description: List three facts about tides, agent: Writer}
  critic: {description: Say what is wrong with the draft, agent: Critic, context: [draft]}
  final: {description: Revise the draft, agent: Writer, context: [draft, critic, facts]}
"""
HARD = "Be hard on the writer"


def choose(request: Request) -> Answer:
    """What the team says: the critic is kind as long as it is told so."""
    system, prompt = request.messages[0]["content"], request.prompt
    if "Revise" in prompt:
        return Answer(
            "The moon pulls the sea twice a day." if "dull" in prompt else "Tides come twice a day.",
            usage=(420, 30),
            pause=0.02,
        )
    if "Say what is wrong" in prompt:
        hard = (
            "The draft is dull, and says nothing about the moon."
            if HARD in system
            else "The draft is lovely. Nothing is wrong."
        )
        return Answer(hard, usage=(240, 18), pause=0.01)
    return Answer("Tides come twice a day, and go.", usage=(150, 60), delay=0.2, pause=0.02)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(choose=choose) as server:
        yield server


def open_call(timeline: Locator, task: str) -> Locator:
    """Open the details of the model call of a task."""
    timeline.locator(".et-row", has_text=task).first.click()
    timeline.page.keyboard.press("Enter")
    drawer = timeline.locator(".et-drawer")
    drawer.wait_for()
    drawer.get_by_role("button", name="Next span").click()
    return drawer


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_call_is_edited_and_run_again_beside_the_old_reply_and_the_run_goes_on_from_the_one_that_is_kept_w113(
    open_in_window: Opener, server: OpenAIServer, theme: str
) -> None:
    notebook = open_in_window(LOAD, SET_UP.format(url=server.url), CELL, theme=theme)
    notebook.run_to_end(0, 1, 2)
    assert len(server.requests) == 4
    view = notebook.timeline(2).first
    drawer = open_call(view, "critic")
    photograph(f"tryouts-button-{theme}", notebook.page)
    drawer.get_by_role("button", name="Edit and run again").click()
    editor = view.get_by_role("region", name="Edit and run again")
    system = editor.get_by_role("textbox", name="System prompt")
    system.wait_for()
    system.fill(system.input_value().replace("Be kind to the writer", HARD))
    editor.get_by_role("combobox", name="Times").select_option("3")
    photograph(f"tryouts-editor-{theme}", notebook.page)
    editor.get_by_role("button", name="Run again").click()
    third = editor.get_by_role("article", name="Reply 3")
    expect(third.get_by_role("button", name="Keep this reply and go on")).to_be_visible()
    expect(third.locator("ins").first).to_contain_text("dull")
    expect(third).to_contain_text("240 in")
    assert [HARD in each.messages[0]["content"] for each in server.requests[4:]] == [True] * 3
    editor.get_by_role("combobox", name="Score with").select_option("length")
    expect(third).to_contain_text("length 51")
    photograph(f"tryouts-replies-{theme}", notebook.page)
    assert find_axe_faults(view) == []
    third.get_by_role("button", name="Keep this reply and go on").click()
    fork = view.get_by_role("region", name="Fork 1")
    expect(fork.locator(".et-status")).to_contain_text("Completed", timeout=5000)
    expect(fork).to_contain_text("report_fork")
    assert [each.prompt.count("dull") for each in server.requests[7:]] == [1]  # what depends on it, and that alone
    photograph(f"tryouts-fork-{theme}", notebook.page, after_s=1)
    assert find_axe_faults(view) == []
    editor.get_by_role("button", name="Put into the cell").click()
    expect(editor.get_by_role("region", name="Put into the cell")).to_contain_text(HARD)
    editor.get_by_role("button", name="Put into the cell").scroll_into_view_if_needed()
    photograph(f"tryouts-source-{theme}", notebook.page, after_s=1)
    editor.get_by_role("button", name="Apply").click()
    expect(notebook.cell(2).locator(".cm-content")).to_contain_text("Critic: {goal: Be hard on the writer}")
    notebook.page.evaluate("jupyterapp.shell.collapseLeft()")
    notebook.page.set_viewport_size({"width": 480, "height": 1400})
    photograph(f"tryouts-narrow-{theme}", notebook.page, after_s=1)
    notebook.page.set_viewport_size({"width": 1400, "height": 1600})
    photograph(f"tryouts-wide-{theme}", notebook.page, after_s=1)
    notebook.execute("assert 'moon' in report_fork.raw and report_rerun.frame.shape[0] == 3")


def test_another_result_of_a_tool_is_gone_on_with_and_a_reload_brings_the_fork_again_w115(
    open_notebook: Opener,
) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT, "report['brief'].raw")
    notebook.run_to_end(0, 1, 2)
    view = notebook.timeline(2).first
    drawer = open_call(view, "find")
    drawer.get_by_role("button", name="Next span").click()
    drawer.get_by_role("button", name="Change its result and go on").press("Enter")
    editor = view.get_by_role("region", name="Change its result and go on")
    field = editor.get_by_role("textbox", name="Result of the tool")
    expect(field).to_be_focused()
    expect(field).to_have_value(f"three notes about tides {HOSTILE}")
    notebook.page.keyboard.press("ControlOrMeta+a")
    notebook.page.keyboard.type("d d - no notes")  # keys of the timeline, and of the notebook
    notebook.page.keyboard.press("ControlOrMeta+z")
    notebook.page.keyboard.press("ControlOrMeta+Shift+z")
    editor.get_by_role("button", name="Go on").click()
    fork = view.get_by_role("region", name="Fork 1")
    expect(fork.locator(".et-status")).to_contain_text("Completed")
    assert find_axe_faults(view) == []
    photograph("tryouts-tool", notebook.page, after_s=1)
    notebook.execute("assert report_fork['find'].raw and report.diff(report_fork)")
    notebook.save()
    notebook.reload()
    again = notebook.timeline(2).first.get_by_role("region", name="Fork 1")
    expect(again.locator(".et-status")).to_contain_text("Completed")
    assert notebook.page.evaluate("window.hacked === undefined")


def test_a_call_is_run_again_in_notebook_7_w113(open_in_notebook_7: Opener) -> None:
    notebook = open_in_notebook_7(LOAD, TEAM, REPORT)
    notebook.run_to_end(0, 1, 2)
    view = notebook.timeline(2).first
    open_call(view, "brief").get_by_role("button", name="Edit and run again").click()
    editor = view.get_by_role("region", name="Edit and run again")
    editor.get_by_role("textbox", name="System prompt").wait_for()
    editor.get_by_role("searchbox", name="Find in the prompts").fill("expected")
    notebook.page.keyboard.press("Enter")
    assert notebook.page.evaluate("getSelection().toString() || document.activeElement.value").lower().count("expected")
    editor.get_by_role("button", name="Run again").click()
    expect(editor.get_by_role("article", name="Reply 1").get_by_role("button")).to_be_visible()
    editor.get_by_role("button", name="Go on with the change").click()
    expect(view.get_by_role("region", name="Fork 1").locator(".et-status")).to_contain_text("Completed")
    photograph("tryouts-notebook-7", notebook.page, after_s=1)


def test_without_a_kernel_a_line_says_what_would_bring_the_buttons_w116(open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, TEAM, REPORT)
    notebook.run_to_end(0, 1, 2)
    notebook.shut_down()
    drawer = open_call(notebook.timeline(2).first, "find")
    expect(drawer.get_by_text("to edit this call and run it again.")).to_be_visible()
    expect(drawer.get_by_role("button", name="Edit and run again")).to_have_count(0)
    photograph("tryouts-no-kernel", notebook.page)


def test_a_span_is_marked_in_the_drawer_and_keeps_its_mark_w125(open_in_window: Opener, server: OpenAIServer) -> None:
    notebook = open_in_window(LOAD, SET_UP.format(url=server.url), CELL, theme="dark")
    notebook.run_to_end(0, 1, 2)
    view = notebook.timeline(2).first
    drawer = open_call(view, "critic")
    drawer.get_by_role("button", name="Mark as bad").click()
    expect(drawer.get_by_role("status").filter(has_text="Marked")).to_be_visible()
    drawer.get_by_role("button", name="Label and note").click()
    drawer.get_by_role("textbox", name="Label").fill("too kind")
    drawer.get_by_role("textbox", name="Note").fill("says nothing of the moon")
    photograph("marks", notebook.page)
    drawer.get_by_role("button", name="Mark", exact=True).click()
    expect(drawer.get_by_role("textbox", name="Label")).to_be_hidden()
    drawer.get_by_role("tab", name="Summary").click()
    expect(drawer.get_by_text("too kind", exact=True)).to_be_visible()
    photograph("marks-told", notebook.page)
    assert find_axe_faults(view) == []
