"""A run of another framework, in the cell that makes it, in a real JupyterLab (W171, W172, W173)."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Locator, expect

from tests.browser.cell import HOSTILE, LOAD
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, Notebook, find_axe_faults, photograph, wait_for, wait_for_text
from tests.browser.test_drawer import ACTIVE

SECRET: Final = "sk-proj-" + "a1B2c3D4" * 5
# What a framework does: the SDK of OpenTelemetry and its own names. It waits where the test has to look.
FRAMEWORK: Final = f"""
import json, time
from pathlib import Path
from opentelemetry.trace import get_tracer_provider

HOSTILE, KEY = {HOSTILE!r}, "sk-proj-" + "a1B2c3D4" * 5
tracer = get_tracer_provider().get_tracer("of a framework")

def said(role, *parts):
    return json.dumps([{{"role": role, "parts": parts}}])

def text(content):
    return {{"type": "text", "content": content}}

def span(operation, name, **told):
    named = {{f"gen_ai.{{key.replace('__', '.')}}": value for key, value in told.items()}}
    return tracer.start_as_current_span(name, attributes={{"gen_ai.operation.name": operation}} | named)

def chat(asked, *parts):
    tokens = {{"usage__input_tokens": 120, "usage__output_tokens": 30}}
    told = {{"input__messages": said("user", text(asked)), "output__messages": said("assistant", *parts)}}
    with span("chat", "chat gpt-4o-mini", request__model="gpt-4o-mini", provider__name="openai", **told, **tokens):
        time.sleep(0.05)

def pause(name):
    while not Path(f"{{name}}.wake").exists():
        time.sleep(0.02)
"""
RUN: Final = """
with span("invoke_agent", "invoke_agent Desk", agent__name="Desk"):
    ask = {"type": "tool_call", "id": "call1", "name": "ask", "arguments": {"question": f"{HOSTILE} {KEY}"}}
    chat(f"How warm is it? {HOSTILE} {KEY}", ask)
    told = {"tool__call__id": "call1", "tool__call__arguments": json.dumps(ask["arguments"])}
    with span("execute_tool", "execute_tool ask", tool__name="ask", **told) as tool:
        with span("invoke_agent", "invoke_agent Forecaster", agent__name=f"Forecaster {HOSTILE}"):
            chat("The weather, please", text(f"18 degrees {HOSTILE} {KEY}"))
            pause("forecast")
        tool.set_attribute("gen_ai.tool.call.result", f"18 degrees {HOSTILE} {KEY}")
    chat("18 degrees", text(f"It is **warm**. ![sun](x) {HOSTILE}"))
"""
TABLE: Final = """
(output,) = watched.runs
output.frames.spans.name.to_list()
"""
MARKUP: Final = "document.querySelectorAll(\"img[src='x'], .jp-Cell-outputWrapper script\").length"


def check_texts(notebook: Notebook, view: Locator, name: str) -> None:
    """While a run goes on: what was told stands in the drawer as text, and does nothing."""
    view.locator(".et-row", has_text=name).first.click()
    notebook.page.keyboard.press("Enter")
    drawer = view.locator(".et-drawer")
    drawer.wait_for()
    for tab in drawer.get_by_role("tab").all():
        tab.click()
        assert drawer.evaluate(ACTIVE) == 0
    drawer.get_by_role("tab", name="Messages").click()
    wait_for_text(drawer, HOSTILE)
    assert notebook.page.evaluate("window.hacked === undefined")
    assert notebook.page.evaluate(MARKUP) == 0
    assert SECRET not in notebook.page.content()


def test_w171_a_run_of_another_framework_is_live_in_its_cell_and_read_like_ours(
    open_in_window: Opener, lab: Lab
) -> None:
    notebook = open_in_window(f"{LOAD}\n%ensemble watch -o watched", FRAMEWORK, RUN, TABLE)
    page = notebook.page
    notebook.run_to_end(0, 1)
    wait_for_text(notebook.outputs(0), "Watching the spans of this process: a tracer provider was set up")
    notebook.run(2)
    view = notebook.timeline(2)
    # While it goes on.
    running = view.locator(".et-row[data-status=running]", has_text="Forecaster")
    running.wait_for()
    wait_for_text(view, "Running")
    assert notebook.prompt(2) == "[*]:"
    expect(view.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    clock = view.locator(".et-clock")
    shown = clock.inner_text()
    expect(clock).not_to_have_text(shown)
    photograph("watched-live-light", view)
    drawer = view.locator(".et-drawer")
    check_texts(notebook, view, "Forecaster")
    check_texts(notebook, view, "Desk")
    page.keyboard.press("Escape")
    (lab.work / "forecast.wake").touch()
    notebook.wait_until_done(2)
    wait_for_text(view, "Completed")
    photograph("watched-light", page)

    # The drawer has what the spans told, as text.
    view.locator(".et-row", has_text="Forecaster").click()
    page.keyboard.press("Enter")
    drawer.wait_for()
    for tab in drawer.get_by_role("tab").all():
        tab.click()
        photograph(f"watched-drawer-{tab.inner_text().split()[0].lower()}-light", view, after_s=0.5)
        assert drawer.evaluate(ACTIVE) == 0
    # Nobody can go on with what another framework runs; a model call can be made again.
    edits = drawer.locator(".et-try:not(.et-marks)")
    assert edits.count() == 0
    drawer.get_by_role("tab", name="Messages").click()
    wait_for_text(drawer, f"18 degrees {HOSTILE}")
    view.get_by_role("radio", name="Whole run").click()
    log = view.locator(".et-log")
    wait_for_text(log, "How warm is it?")
    wait_for_text(log, f"It is warm. sun {HOSTILE}")
    photograph("watched-messages-light", view, after_s=0.5)
    assert find_axe_faults(view) == []
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)

    view.get_by_role("radio", name="Graph", exact=True).click()
    expect(view.locator(".et-node", has_text="Forecaster")).to_be_visible()
    photograph("watched-graph-light", view, after_s=0.5)
    assert find_axe_faults(view) == []

    view.get_by_role("radio", name="Table", exact=True).click()
    expect(view.get_by_role("row").filter(has_text="Forecaster").first).to_be_visible()
    photograph("watched-table-light", view, after_s=0.5)
    assert find_axe_faults(view) == []

    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "Desk")
    wait_for_text(notebook.outputs(3), HOSTILE)
    photograph("watched-page-light", page)
    assert page.evaluate("window.hacked === undefined")
    assert page.evaluate(MARKUP) == 0
    notebook.save()
    wait_for(lambda: "Forecaster" in notebook.path.read_text(), 30)
    assert SECRET not in notebook.path.read_text()
    assert SECRET not in page.content()
