"""A run that Python has started, in a page (W174)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat

from tests.browser.lab import wait_for, wait_for_text

if TYPE_CHECKING:
    from tests.browser.conftest import Opener

START = """
import threading
from ensemble_notebook import Ensemble, Task

goes_on = threading.Event()
tasks = [Task.of("Say it", name="first", handler=lambda _: "said"),
         Task.of("Wait", name="second", handler=lambda _: str(goes_on.wait(60)))]
handle = Ensemble(tasks=tasks, workflow="sequential", name="team").start()
handle.timeline
"""


def test_w174_a_started_run_is_live_and_its_notebook_keeps_the_saved_view(open_notebook: Opener) -> None:
    notebook = open_notebook("%load_ext ensemble_notebook", START, "goes_on.set()", "handle.result().timeline")
    notebook.run_to_end(0, 1)
    wait_for_text(notebook.timeline(1), "1/2 tasks")
    assert notebook.timeline(1).get_by_role("button", name="Stop", exact=True).is_visible()
    notebook.run_to_end(2, 3)
    for number in (1, 3):
        wait_for_text(notebook.timeline(number), "Completed")
    kinds: list[str] = []

    def read_kinds() -> bool:
        notebook.save()
        cells = nbformat.read(notebook.path, as_version=4).cells
        outputs = [output.data for number in (1, 3) for output in cells[number].outputs]
        kinds[:] = [each["application/vnd.ensemble.trace+json"]["kind"] for each in outputs]
        return kinds == ["saved", "saved"]

    wait_for(read_kinds, 30, lambda: str(kinds))
