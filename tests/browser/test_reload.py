"""A page that is reloaded, or opened a second time, while a run goes on: the live view is there again (W13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.cell import LOAD, NIGHT, SLEEPER
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, Notebook, comes_back_soon, photograph, wait_for, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Page

REST = "print(night.status.value, [task.name for task in night.task_outputs], night['find'].raw)"
TEAM = """
from ensemble_notebook import ScriptedChatModel

model = ScriptedChatModel(default="A long draft.")
"""
DRAFT = """%%ensemble -o report
llm: model
tasks:
  draft: {description: Write a draft, review: after}
  publish: {description: Publish, context: [draft]}
"""
KEEP_SOCKETS = """
    window.sockets = [];
    const Socket = window.WebSocket;
    window.WebSocket = class extends Socket {
        constructor(...given) {
            super(...given);
            window.sockets.push(this);
        }
    };
"""
# What is open to kernels: one connection of the page's own, and one of the view's.
COUNT_OPEN = """() => window.sockets
    .filter(({url, readyState}) => url.includes("/channels") && readyState === WebSocket.OPEN).length"""
LOSE_SOCKETS = "() => window.sockets.forEach(socket => socket.close(4000, 'asleep'))"
KINDS_OF_OUTPUTS = """number => {
    const {outputs} = jupyterapp.shell.currentWidget.content.widgets[number].model;
    return Array.from({length: outputs.length}, (_, k) => outputs.get(k).toJSON()).map(({output_type, data}) =>
        data?.["application/vnd.ensemble.trace+json"]?.kind ?? (data ? Object.keys(data).at(-1) : output_type));
}"""


def test_unsaved_view_is_back_with_its_buttons_within_a_second_of_a_reload(
    page: Page, open_notebook: Opener, lab: Lab
) -> None:
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_unsaved"), REST)
    notebook.save()
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    leave_without_saving(page)
    assert any(comes_back_soon(notebook, 2) for _ in range(5))
    photograph("reload-back-light", page)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    wait_for(lambda: notebook.kernel_status == "busy", 30)
    (lab.work / "nap_unsaved.wake").touch()
    wait_for_text(notebook.timeline(2), "Completed")
    wait_for(lambda: "There is a bed by the window." in notebook.output(2), 30, lambda: notebook.output(2))
    photograph("reload-over-light", page)
    notebook.wait_until_idle()
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "completed ['find', 'nap_unsaved', 'wake']")


def test_review_is_answered_after_a_reload(page: Page, open_notebook: Opener) -> None:
    notebook = open_notebook(LOAD, TEAM, DRAFT, "print(report.status.value, '/', report['draft'].raw)")
    notebook.save()
    notebook.run_to_end(0, 1)
    notebook.run(2)
    notebook.timeline(2).get_by_role("button", name="Approve").wait_for(timeout=30_000)
    leave_without_saving(page)
    page.reload()
    panel = notebook.timeline(2).get_by_role("region", name="Is the output of draft good?")
    approve = panel.get_by_role("button", name="Approve").and_(page.locator("[aria-disabled=false]"))
    approve.wait_for(timeout=30_000)
    photograph("reload-review-light", page)
    approve.click()
    wait_for_text(notebook.timeline(2), "Completed")
    notebook.wait_until_idle()
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "completed / A long draft.")


def test_second_tab_shows_the_run_and_stops_it(page: Page, open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_second"), REST)
    notebook.save()
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    other_page = page.context.new_page()
    other = Notebook(other_page, lab.url(notebook.path), notebook.path)
    other.show()
    stop = other.timeline(2).get_by_role("button", name="Stop", exact=True)
    stop.and_(other_page.locator("[aria-disabled=false]")).wait_for(timeout=30_000)
    photograph("second-tab-light", other_page)
    wait_for(lambda: notebook.kernel_status == other.kernel_status == "busy", 30)
    stop.click()
    for each in (notebook, other):
        wait_for_text(each.timeline(2), "Interrupted")
        wait_for(lambda each=each: "Stopped: 1 of 3 tasks are done and kept." in each.output(2), 30)
        expect(each.timeline(2)).to_have_count(1)
    photograph("second-tab-over-light", other_page)
    other_page.close()


def test_cleared_view_of_a_running_cell_comes_back_and_ends_as_any_other(open_in_window: Opener, lab: Lab) -> None:
    notebook = open_in_window(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_cleared"), REST)
    page = notebook.page
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    notebook.timeline(2).evaluate("root => { root.dataset.old = ''; }")
    page.evaluate("jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    notebook.timeline(2).and_(page.locator(":not([data-old])")).wait_for()  # the view was gone for a moment
    expect(notebook.timeline(2)).to_have_count(1)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    (lab.work / "nap_cleared.wake").touch()
    notebook.wait_until_done(2)
    wait_for_text(notebook.timeline(2), "Completed")
    page.wait_for_timeout(1500)
    wait_for(lambda: kinds_of_outputs(page, 2) == ["saved", "text/html"], 30)
    photograph("cleared-light", page)


def test_moved_cell_keeps_its_live_view(open_in_window: Opener, lab: Lab) -> None:
    notebook = open_in_window(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_moved"), "print('next')")
    page = notebook.page
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    page.evaluate("""() => {
        const {content} = jupyterapp.shell.currentWidget;
        content.activeCellIndex = 2;
        return jupyterapp.commands.execute('notebook:move-cell-down');
    }""")
    wait_for_text(notebook.timeline(3), "1/3 tasks")
    photograph("moved-light", page)
    (lab.work / "nap_moved.wake").touch()
    wait_for_text(notebook.timeline(3), "Completed")
    notebook.wait_until_idle()
    page.wait_for_timeout(1500)
    wait_for(lambda: kinds_of_outputs(page, 3) == ["saved", "text/html"], 30)


def test_view_goes_on_after_its_connection_was_lost(page: Page, open_notebook: Opener, lab: Lab) -> None:
    page.add_init_script(KEEP_SOCKETS)
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_asleep"), REST)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    connections = page.evaluate(COUNT_OPEN)
    page.evaluate(LOSE_SOCKETS)
    # What the server sends while it has not yet heard of the loss is lost to any notebook.
    wait_for(
        lambda: bool(page.evaluate(COUNT_OPEN) == connections),
        60,
        lambda: f"{page.evaluate(COUNT_OPEN)} of {connections}",
    )
    (lab.work / "nap_asleep.wake").touch()
    wait_for_text(notebook.timeline(2), "Completed")
    wait_for_text(notebook.timeline(2), "3 tasks in ")
    wait_for(lambda: "There is a bed" in notebook.output(2), 30, lambda: notebook.output(2))
    photograph("asleep-light", page)


def test_end_that_no_page_saw_is_there_when_the_notebook_is_opened(page: Page, open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_away"), REST)
    notebook.save()
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    leave_without_saving(page)
    page.goto("about:blank")
    (lab.work / "nap_away.wake").touch()
    page.wait_for_timeout(2000)
    notebook.open()
    wait_for(lambda: notebook.timeline(2).count() == 1, 30)
    wait_for_text(notebook.timeline(2), "Completed")
    wait_for(lambda: "There is a bed" in notebook.output(2), 30)
    wait_for(lambda: notebook.prompt(2) == "[3]:", 30)
    photograph("away-light", page)


def leave_without_saving(page: Page) -> None:
    """Answer the question whether to leave."""
    page.on("dialog", lambda dialog: dialog.accept())


def kinds_of_outputs(page: Page, number: int) -> list[str]:
    """What a cell's outputs are, as they would be saved."""
    kinds: list[str] = page.evaluate(KINDS_OF_OUTPUTS, number)
    return kinds
