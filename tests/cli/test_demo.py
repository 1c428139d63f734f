"""`jupyter ensemble demo`: a notebook executed without a browser, and how its runs went."""

import subprocess
import sys

import nbformat
import pytest

from ensemble_notebook.cli import demo as module
from ensemble_notebook.cli.main import DONE, FAILED, main
from ensemble_notebook.domain.package_files import find_package_file

TASKS = "%%ensemble --llm scripted\ntasks:\n  plan: Plan a page\n  write: {description: Write it, context: [plan]}"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Puts a notebook of these cells in place of the demo, and a lesson beside it."""

    def put(*sources: str):
        cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext ensemble_notebook", *sources)]
        folder = tmp_path / "notebooks"
        folder.mkdir()
        nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / module.NOTEBOOK)
        nbformat.write(nbformat.v4.new_notebook(), folder / module.LESSON)
        (folder / module.COURSE).mkdir()
        monkeypatch.setattr(module, "find_package_file", lambda name: tmp_path / name)
        return tmp_path / "result"

    return put


@pytest.fixture
def opened(monkeypatch):
    """The commands that would open something."""
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    return commands


@pytest.mark.kernel
def test_demo_runs_the_notebook_and_shows_its_runs(book, opened, capsys):
    folder = book(TASKS)
    folder.mkdir()
    (folder / module.LESSON).write_text("mine")
    assert main(["demo", "--dir", str(folder), "--no-open"]) == DONE
    assert (folder / module.LESSON).read_text() == "mine"
    shown = capsys.readouterr().out
    result = folder / module.NOTEBOOK
    assert str(result) in shown
    status, heads, *lines = shown[shown.index("✓ completed") :].splitlines()
    assert "2/2 tasks" in status
    assert heads.split()[-2:] == ["time", "tokens"]
    assert [line.split()[:2] for line in lines[:2]] == [["✓", "plan"], ["✓", "write"]]
    assert all(line.split()[-2] == "→" for line in lines[:2])
    assert "widgets" not in nbformat.read(result, as_version=4).metadata
    assert opened == []


@pytest.mark.kernel
def test_demo_opens_jupyterlab_on_the_result(book, opened):
    folder = book(TASKS)
    main(["demo", "--dir", str(folder)])
    assert [command[2:] for command in opened] == [["jupyter", "lab", str(folder / module.NOTEBOOK)]]


@pytest.mark.kernel
@pytest.mark.parametrize("variable, value", [("CI", "true"), ("DISPLAY", "")])
def test_where_nobody_looks_it_is_said_how_to_open_the_result(book, opened, monkeypatch, capsys, variable, value):
    monkeypatch.setenv(variable, value)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    folder = book(TASKS)
    main(["demo", "--dir", str(folder)])
    assert opened == []
    assert f"-m jupyter lab {folder / module.NOTEBOOK}" in capsys.readouterr().out


@pytest.mark.kernel
def test_failed_demo_keeps_the_notebook_and_fails(book, opened, capsys):
    folder = book(TASKS, "1 / 0", "never = True")
    assert main(["demo", "--dir", str(folder)]) == FAILED
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told
    assert "Traceback" not in told
    cells = nbformat.read(folder / module.NOTEBOOK, as_version=4).cells
    assert [bool(cell.execution_count) for cell in cells] == [True, True, True, False]
    assert opened == []


@pytest.mark.kernel
def test_the_demo_plays_what_ships_and_lays_the_first_lesson_beside_it_c104(tmp_path, opened, capsys, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    lesson = tmp_path / module.LESSON
    assert main(["demo", "--dir", str(tmp_path), "--no-open"]) == DONE
    shown = capsys.readouterr().out
    assert shown.count("recorded from a scripted team") == 3
    assert "Next: 01-first-team.ipynb beside it" in shown
    assert (tmp_path / module.COURSE / "__init__.py").is_file()
    assert lesson.read_bytes() == (find_package_file("notebooks") / module.LESSON).read_bytes()


def test_without_the_packages_of_notebooks_the_line_that_installs_them_is_told_c104(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "nbclient", None)
    assert main(["demo", "--dir", str(tmp_path)]) == FAILED
    told = capsys.readouterr().err
    assert "pip install 'ipykernel>=" in told
    assert "%ensemble demo" in told


def test_notebooks_and_templates_are_found():
    assert (find_package_file("notebooks") / module.NOTEBOOK).is_file()
    assert any(find_package_file("jupyter-config").iterdir())
    with pytest.raises(FileNotFoundError, match="lacks its folder 'nothing'"):
        find_package_file("nothing")
