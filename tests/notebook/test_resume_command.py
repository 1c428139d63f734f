"""`%ensemble resume` in a real IPython shell (C33)."""

from pathlib import Path

import pytest

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.errors import StoreError, TaskExecutionError, ValidationError
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME
from ensemble_notebook.trace.store.run_store import RunStore

CELL = """
tasks:
  wind: {description: Report the wind, handler: report}
  advice: {description: Give advice, context: [wind], handler: advise}
"""


class Calls:
    """The calls of handlers, in a file: what handlers close over counts for their tasks (C34a)."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> list[str]:
        return self.file.read_text().split()


@pytest.fixture
def calls(tmp_path):
    return Calls(tmp_path / "calls")


@pytest.fixture
def stopped(shell, calls, tmp_path, monkeypatch):
    """A shell in which a run has failed in its second task, for a reason that is mended by now."""
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    file = calls.file

    def report(task):
        with file.open("a") as notes:
            notes.write("wind ")
        return "calm"

    def advise(task):
        with file.open("a") as notes:
            notes.write("advice ")
        if file.read_text().count("advice") == 1:
            raise OSError("the chart is gone")
        return f"sail, it is {task.context[0].raw}"

    shell.names.update(report=report, advise=advise)
    assert isinstance(shell.error(f"%%ensemble -o crossing --name sea{CELL}"), TaskExecutionError)
    return shell


def test_it_goes_on_where_the_cell_stopped_and_binds_the_usual_name(stopped, calls):
    assert stopped.run("%ensemble resume -1").success
    output = stopped.names["_ensemble"]
    assert (output.raw, calls.read()) == ("sail, it is calm", ["wind", "advice", "advice"])
    assert output["wind"].reused


@pytest.mark.parametrize("flag", ["-o", "--out"])
def test_it_binds_the_name_that_is_given(stopped, flag):
    assert stopped.run(f"%ensemble resume sea {flag} again").success
    assert stopped.names["again"].raw == "sail, it is calm"


def test_it_keeps_the_name_that_the_run_has_from_its_variable(stopped):
    assert stopped.run(f"%%ensemble -o tide{CELL}").success
    assert stopped.run("%ensemble resume tide").success
    first, again = (run.facts for run in RunStore.open().list_runs(2))
    assert first.name == again.name == "tide"
    assert stopped.names["_ensemble"].raw == "sail, it is calm"


def test_it_gives_the_output_to_what_it_stands_in(stopped):
    assert stopped.run("output = %ensemble resume sea").success
    assert stopped.names["output"] is stopped.names["_ensemble"]


def test_run_that_is_not_remembered_is_refused(stopped, calls):
    error = stopped.error("%ensemble resume seas")
    assert isinstance(error, StoreError)
    assert "No run 'seas' is remembered. Did you mean 'sea'?" in str(error)
    assert len(calls.read()) == 2


@pytest.mark.parametrize("words", ["", "sea sea", "sea -o", "sea -o 3x", "sea --redo", "sea --anyway tide"])
def test_line_that_names_no_run_or_variable_is_told_what_it_takes(stopped, words):
    error = stopped.error(f"%ensemble resume {words}")
    assert isinstance(error, ValidationError)
    assert "takes one run" in str(error)


def test_run_of_python_is_resumed_from_there(stopped):
    run_id = Ensemble(tasks=[Task.of("Look", name="look", handler=lambda task: "land")]).run().run_id
    error = stopped.error(f"%ensemble resume {run_id}")
    assert isinstance(error, ValidationError)
    assert f"ensemble.run(resume='{run_id}')" in str(error)


def test_names_that_are_missing_are_told_with_what_to_do(stopped, calls):
    del stopped.names["report"], stopped.names["advise"]
    error = stopped.error("%ensemble resume sea")
    assert isinstance(error, ValidationError)
    assert "First run the cells that define: report" in str(error)
    assert "advise" in str(error)
    assert len(calls.read()) == 2


def test_cell_with_only_keeps_the_task_that_it_asked_for(stopped, calls):
    assert stopped.run(f"%%ensemble --only wind --name part{CELL}").success
    assert stopped.run("%ensemble resume part -o again").success
    assert calls.read() == ["wind", "advice", "wind"]
    tasks = stopped.names["again"].frames.tasks.set_index("task")
    assert tasks.reuse_reason["wind"].startswith("done in run ")


def test_continued_cell_goes_on_without_the_output_that_it_was_continued_from(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    faults = [OSError("the chart is gone")]

    def advise(task):
        if shell.names["is_broken"]:
            raise faults[0]
        return "sail"

    chat = "tasks:\n- {name: chat, description: Say %s, llm: scripted}\n- {name: advice, description: x, handler: %s}\n"
    shell.names.update(advise=advise, report=lambda task: "calm", is_broken=True)
    assert shell.run("%%ensemble -o first\n" + chat % ("a", "report")).success
    assert isinstance(
        shell.error("%%ensemble -o second --continue first\n" + chat % ("b", "advise")), TaskExecutionError
    )
    del shell.names["first"]
    shell.names["is_broken"] = False
    assert shell.run("%ensemble resume second -o third").success
    third = shell.names["third"]
    assert (third.raw, third["chat"].reused) == ("sail", True)
    assert [each.role for each in third["chat"].messages] == ["system", "user", "assistant", "user", "assistant"]


def test_run_without_texts_is_refused_for_that_reason(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    shell.names["say"] = lambda task: "Said."
    assert shell.run("%%ensemble --capture metadata\n- {description: Say it, handler: say}").success
    error = shell.error("%ensemble resume -1")
    assert isinstance(error, ValidationError)
    assert "can't be resumed: capture_mode metadata keeps nothing of what was said. Run it anew." in str(error)


def test_unknown_run_is_told_in_full_where_none_is_remembered(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    shell.names["report"] = Ensemble(tasks=[Task.of("Say it", handler=lambda task: "Said.")], capture_mode="off").run()
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "others.sqlite"))
    error = shell.error("%ensemble resume reprot")
    assert isinstance(error, StoreError)
    assert str(error).startswith("No run 'reprot' is remembered: there is none yet in ")
    assert str(error).endswith(" Variables that hold an output: report.")


def test_views_of_a_run_of_a_cell_offer_to_resume_it_where_it_is_remembered_w30(stopped, monkeypatch):
    def offers(shown) -> bool:
        bundle, _ = stopped.ip.display_formatter.format(shown)
        return bundle[TRACE_MIME]["run"]["is_resumable"]

    run_id = stopped.names["crossing"].run_id
    assert stopped.seen()[0][TRACE_MIME]["run"]["is_resumable"]
    assert offers(stopped.ip.run_line_magic("ensemble", f"show {run_id}"))
    bare = Ensemble(tasks=[Task.of("Report", name="wind", handler=lambda _: "calm")]).run()
    assert not offers(stopped.ip.run_line_magic("ensemble", f"show {bare.run_id}"))  # begun in Python
    shown = stopped.ip.run_line_magic("ensemble", f"show {run_id}")
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    assert not offers(shown)
