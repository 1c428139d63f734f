"""Runs are remembered (T24, T30 to T32)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from ensemble_notebook import Ensemble, RunStatus, Task, TaskInput, load_traces
from ensemble_notebook.trace.store.run_store import RunStore

HANGS_IN_ITS_SECOND_TASK = """
import sys, threading
from ensemble_notebook import Ensemble, Task

def say(task):
    return "The first is done."

def hang(task):
    print("hangs", flush=True)
    threading.Event().wait()

class Show:
    def on_event(self, event):
        if type(event).__name__ == "TaskCompleted":
            print("shown", flush=True)

first = Task(name="first", description="Say.", expected_output="It.", handler=say)
second = Task(name="second", description="Hang.", expected_output="It.", handler=hang, context=[first])
Ensemble(name="doomed", tasks=[first, second], listeners=[Show()]).run()
"""


def say(task: TaskInput) -> str:
    return "Said."


def make(name: str) -> Ensemble:
    return Ensemble(name=name, tasks=[Task(name="say", description="Say.", expected_output="It.", handler=say)])


def test_t24_runs_of_the_store_and_of_files_are_the_same_tables(store_path: Path, tmp_path: Path) -> None:
    outputs = [make("one").run(), make("two").run()]
    for number, output in enumerate(outputs):
        output.trace.save(tmp_path / f"{number}.trace.json")
    stored, filed = load_traces(), load_traces(tmp_path / "*.trace.json")
    kept = load_traces()  # which were folded the first time
    for frames in (stored, kept):
        assert frames.runs.equals(filed.runs)
        assert frames.spans.equals(filed.spans)
        assert frames.messages.equals(filed.messages)
    assert stored.spans.index.is_unique
    assert list(stored.tasks.run_id) == list(stored.runs.index) == [output.run_id for output in outputs]


def test_t30_killed_run_is_interrupted_and_what_was_shown_is_there(store_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HANGS_IN_ITS_SECOND_TASK], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert {child.stdout.readline(), child.stdout.readline()} == {"shown\n", "hangs\n"}
        store = RunStore.open()
        assert store.find_run("doomed").status is RunStatus.RUNNING
        os.kill(child.pid, signal.SIGKILL)
    found = store.find_run("doomed")
    trace = store.load_trace(found)
    assert found.status is trace.status is RunStatus.INTERRUPTED
    assert trace.task("first").output == "The first is done."
    assert trace.frames.tasks.status.tolist() == ["ok", "interrupted"]
    assert load_traces().spans.status.tolist() == ["interrupted", "ok", "interrupted"]


def test_t31_run_goes_on_where_the_store_cannot_be_written(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    place = tmp_path / "file" / "runs.db"
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(place))
    output = make("unlucky").run()
    assert output.raw == "Said."
    (warning,) = output.warnings
    assert str(place) in warning


def test_t32_clear_forgets_all_that_is_over(store_path: Path) -> None:
    make("one").run()
    make("two").run()
    assert RunStore.open().clear() == 2
    assert RunStore.open().list_runs() == []
