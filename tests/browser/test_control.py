"""A run that is stopped, left alone or run beside another, in a real JupyterLab (W13)."""

from __future__ import annotations

from tests.browser.cell import LOAD, NIGHT, SLEEPER
from tests.browser.conftest import Opener
from tests.browser.lab import Lab, photograph, wait_for, wait_for_text

REST = "print(night.status.value, [task.name for task in night.task_outputs], night['find'].raw)"


def test_stop_ends_a_run_while_its_cell_is_busy_and_keeps_what_was_done(open_in_window: Opener) -> None:
    notebook = open_in_window(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_stopped"), REST)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    notebook.run(3)
    timeline = notebook.timeline(2)
    wait_for_text(timeline, "1/3 tasks")
    photograph("stop-before-light", notebook.page)
    wait_for(lambda: notebook.prompt(2) == "[*]:", 30)
    timeline.get_by_role("button", name="Stop", exact=True).click(timeout=30_000)  # once it is enabled
    wait_for(lambda: "*" not in notebook.prompt(2), 30)
    wait_for_text(timeline, "Interrupted")
    wait_for_text(timeline, "1 of 3 tasks done")
    wait_for_text(notebook.outputs(2), "Stopped: 1 of 3 tasks are done and kept.")
    # The button is gone, and plain keys are still the view's (W9).
    wait_for(lambda: bool(timeline.evaluate("one => one.contains(document.activeElement)")), 30)
    wait_for(lambda: notebook.prompt(3) == "[ ]:", 30, lambda: notebook.prompt(3))  # it failed: the rest is called off
    photograph("stop-after-light", notebook.page)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "interrupted ['find'] There is a bed by the window.")


def test_a_page_reloaded_during_a_run_loses_nothing(open_notebook: Opener, lab: Lab) -> None:
    notebook = open_notebook(LOAD, SLEEPER, NIGHT.replace("NAP", "nap_reloaded"), REST)
    notebook.run_to_end(0, 1)
    notebook.run(2)
    wait_for_text(notebook.timeline(2), "1/3 tasks")
    notebook.save()
    notebook.reload()
    wait_for(lambda: notebook.kernel_status != "idle", 30)
    photograph("reloaded-during-light", notebook.page)
    (lab.work / "nap_reloaded.wake").touch()
    notebook.wait_until_idle()
    timeline = notebook.timeline(2)
    timeline.wait_for(timeout=30_000)
    wait_for_text(timeline, "Completed")
    wait_for_text(timeline, "3 tasks in ")
    photograph("reloaded-after-light", notebook.page)
    notebook.run_to_end(3)
    wait_for_text(notebook.outputs(3), "completed ['find', 'nap_reloaded', 'wake'] There is a bed")


def test_two_cells_in_the_background_each_update_their_own_output(open_in_window: Opener, lab: Lab) -> None:
    cell = "%%ensemble -b -o NAME\n- {name: NAME, description: Sleep, handler: sleep}\n"
    names = ["dawn", "noon"]
    notebook = open_in_window(LOAD, SLEEPER, *[cell.replace("NAME", name) for name in names])
    notebook.run_to_end(0, 1, 2, 3)
    timelines = [notebook.timeline(number) for number in (2, 3)]
    for timeline in timelines:
        wait_for_text(timeline, "Running")
    for name in reversed(names):
        (lab.work / f"{name}.wake").touch()
    for number, name in enumerate(names, start=2):
        wait_for_text(notebook.cell(number), f"{name} is over")
        wait_for_text(notebook.timeline(number), "Completed")
        assert all(other == name or other not in notebook.output(number) for other in names)
    photograph("background-light", notebook.page)
