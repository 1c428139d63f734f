"""A call of a reviewed tool in a real JupyterLab: asked about, edited, declined, and left waiting.

Holds W164, W165 and W166 in a page.
"""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.browser.cell import HOSTILE, LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Notebook, find_axe_faults, photograph, wait_for_text

TEAM = f"""
from typing import Literal
from ensemble_notebook import Reply, ScriptedChatModel, Tool, ToolUse

paid, said = [], []

def refund(order: str, amount: int, reason: Literal["late", "broken"] = "late", urgent: bool = False,
           lines: list[int] = []) -> str:
    '''Give the money of an order back.

    Args:
        order: its number.
        amount: in euros.
    '''
    paid.append((order, amount, reason, lines))
    return f"paid {{amount}}"

def answer(messages):
    if messages[-1].type != "tool":
        return Reply(calls=[ToolUse("refund", each) for each in CALLS])
    said[:] = [each.content for each in messages if each.type == "tool"]
    return "done"

careful = Tool(refund, review="before")
model = ScriptedChatModel(default=answer)
CALLS = [{{"order": "A\\u202e7 {HOSTILE}", "amount": 12345678901234567890, "lines": [1, 2]}},
         {{"order": "B2", "amount": 5}}, {{"order": "C3", "amount": 6}}]
"""
CELL = """%%ensemble -o claims{options}
llm: model
agents: {{Clerk: {{goal: Settle claims, tools: [careful]}}}}
tasks: {{settle: {{description: Settle it, agent: Clerk}}}}
"""
RESULT = "print(claims.status.value, paid, said)"


def ask(notebook: Notebook) -> Locator:
    """Run the team up to its first question."""
    notebook.run_to_end(0, 1)
    notebook.run(2)
    panel = notebook.timeline(2).get_by_role("region", name="May Clerk call refund?")
    expect(panel.get_by_role("button", name="Approve")).to_have_attribute("aria-disabled", "false")
    return panel


def test_arguments_are_edited_in_a_form_and_what_does_not_fit_is_told_at_its_field(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, CELL.format(options=""), RESULT)
    panel = ask(notebook)
    for said in ("A[U+202E]7", HOSTILE, "12345678901234567890", "for settle", "is not made, and waits for an answer"):
        wait_for_text(panel, said)
    assert notebook.page.evaluate("window.hacked === undefined")
    photograph("call-light", notebook.page)
    panel.get_by_role("button", name="Edit…").click()
    expect(panel.get_by_role("textbox", name="order")).to_be_focused()
    reason = panel.get_by_role("combobox", name="reason")
    reason.select_option("broken")
    lines = panel.get_by_role("textbox", name="lines")
    lines.fill('[1, "two"]')
    photograph("call-form-light", notebook.page)
    assert find_axe_faults(panel, even_minor=True) == []
    panel.get_by_role("button", name="Call with these").click()
    expect(lines).to_have_attribute("aria-invalid", "true")
    expect(lines).to_be_focused()
    photograph("call-refused-light", notebook.page)
    assert find_axe_faults(panel, even_minor=True) == []
    notebook.page.keyboard.press("ControlOrMeta+a")
    notebook.page.keyboard.type("[7]")
    notebook.page.keyboard.press("Control+Enter")
    wait_for_text(panel, "B2")
    expect(panel.get_by_role("button", name="Decline…")).to_have_attribute("aria-disabled", "false")
    panel.get_by_label("always in this run").check()
    panel.get_by_role("button", name="Decline…").click()
    panel.get_by_role("textbox", name="Why?").fill("not this one")
    panel.get_by_role("button", name="Decline", exact=True).click()
    notebook.wait_until_done(2)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "12345678901234567890, 'broken', [7])]")
    assert notebook.output(3).count("not this one") == 2  # the third call was declined alike, unasked


def test_by_keys_alone_each_question_gets_one_answer(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, TEAM, CELL.format(options=""), RESULT, theme="dark")
    panel = ask(notebook)
    photograph("call-dark", notebook.page)
    panel.get_by_role("button", name="Approve").press("Enter")
    title = panel.get_by_role("button", name="May Clerk call refund?")
    wait_for_text(panel, "B2")
    expect(panel.get_by_role("button", name="Decline…")).to_have_attribute("aria-disabled", "false")
    expect(title).to_be_focused()  # and none of the buttons: a key that is held down answers once
    panel.get_by_role("button", name="Decline…").press("Enter")
    why = panel.get_by_role("textbox", name="Why?")
    expect(why).to_be_focused()
    why.press("Control+Enter")
    wait_for_text(panel, "C3")
    expect(title).to_be_focused()
    expect(panel.get_by_role("button", name="Approve")).to_have_attribute("aria-disabled", "false")
    panel.get_by_role("button", name="Approve").press(" ")
    notebook.wait_until_done(2)
    expect(panel).to_have_count(0)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "completed")
    assert "('C3', 6," in notebook.output(3)
    assert "('B2'" not in notebook.output(3)


def test_what_was_left_waiting_stands_below_its_run_with_the_code_that_answers(open_in_window: Opener) -> None:
    load = f"{LOAD}\nfrom ensemble_notebook import leave_pending\nasks_nobody = leave_pending()"
    cell = CELL.format(options="").replace("llm: model", "llm: model\nreview_handler: asks_nobody")
    notebook = open_in_window(load, TEAM, cell)
    notebook.run_to_end(0, 1, 2)
    waiting = notebook.timeline(2).get_by_role("region", name="3 calls wait for an answer")
    code = waiting.locator("p code")
    wait_for_text(code, "claims.ensemble.run(resume=claims, answers={")
    answers = waiting.get_by_role("combobox")
    expect(answers).to_have_count(3)
    answers.nth(1).select_option("decline")
    wait_for_text(code, '"reject"}')
    wait_for_text(waiting, "A[U+202E]7 <img")
    photograph("call-waits-light", notebook.page)
    assert find_axe_faults(waiting, even_minor=True) == []
    waiting.get_by_role("button", name="Into a cell").click()
    wait_for_text(notebook.cell(3), "claims.ensemble.run(resume=claims, answers={")
    assert notebook.page.evaluate("window.hacked === undefined")
