"""An ensemble that does a task unfolds below it, in a real JupyterLab, in light and dark (E54)."""

from __future__ import annotations

from typing import Final

from tests.browser.cell import LOAD, SLEEPER
from tests.browser.conftest import Opener
from tests.browser.lab import photograph, wait_for, wait_for_text

INNER: Final = """%%ensemble --define -o research
llm: model
phases:
  gather: [{name: find, description: "Find beds in {place}"}, {name: rank, description: Rank them}]
  write: {after: gather, tasks: [{name: note, description: Write a note, context: rank}]}
"""
OUTER: Final = """%%ensemble -o trip
llm: model
tasks:
  place: Name a place
  beds: {ensemble: research, inputs: {place: "{context}"}, context: place}
  NAP: {description: Sleep long, handler: sleep, context: beds}
"""
INSIDE: Final = ["find", "rank", "note"]


def test_e54_the_tasks_of_an_ensemble_stand_below_the_task_that_it_does(open_notebook: Opener) -> None:
    notebook = open_notebook(
        LOAD, SLEEPER, INNER, f"%%ensemble --dry-run\n{OUTER.partition('trip')[2].lstrip()}", OUTER
    )
    notebook.run_to_end(0, 1, 2, 3)
    wait_for_text(notebook.outputs(3), "note")
    notebook.run(4)
    timeline = notebook.timeline(4)

    def list_inside() -> list[str]:
        titles = timeline.locator(".et-title").all_inner_texts()
        return [name for name in (each.partition(" ")[0] for each in titles) if name in INSIDE]

    wait_for_text(timeline, "NAP")
    wait_for(lambda: list_inside() == INSIDE, 60)
    photograph("nested-live-light", timeline)
    (notebook.path.parent / "NAP.wake").touch()
    notebook.wait_until_done(4)
    wait_for_text(timeline, "3 tasks in ")
    photograph("nested-light", timeline)
    row = timeline.get_by_role("row").filter(has_text="beds").first
    row.locator(".et-fold").click()
    wait_for(lambda: list_inside() == [], 30)
    photograph("nested-folded-light", timeline)
    row.locator(".et-fold").click()
    wait_for(lambda: list_inside() == INSIDE, 30)
    notebook.wear("dark")
    timeline.and_(notebook.page.locator("[data-theme=dark]")).wait_for()
    assert list_inside() == INSIDE
    photograph("nested-dark", timeline)
