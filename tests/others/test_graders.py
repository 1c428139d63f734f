"""An exercise whose test cells are checks (C121), handed out and graded by nbgrader and by otter-grader.

Right, half and wrong submissions, and three that would pass without an answer: a `check` of the student's own, test
cells without a test, and a `check` that is put into the module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from tests.others.venv import Venv

POINTS: Final = {"right": 3, "half": 2, "wrong": 0, "failed": 0, "own check": 0, "no tests": 0, "patched module": 3}
"""Of each submission. Student and test share a kernel: a changed module passes, and leaves no score in a run."""

SETUP: Final = '''
from ensemble_notebook import ScriptedChatModel, ToolUse
%load_ext ensemble_notebook

def search(query: str) -> str:
    """Search."""
    return "found"

def delete(name: str) -> str:
    """Delete."""
    return "gone"

desk = ScriptedChatModel(replies=[ToolUse("search", {"query": "tides"}), "Facts.", "A brief."])
'''.strip()
FIRST_LINE: Final = "%%ensemble -o report\n"
TEAM: Final = """llm: desk
tasks:
  gather: {description: Gather facts on tides, tools: [search, delete]}
  brief: {description: Write a brief, context: [gather]}
"""
BACKWARDS: Final = """llm: desk
tasks:
  brief: {description: Write a brief, tools: [search, delete]}
  gather: {description: Gather facts on tides}
"""
CALLS: Final = """from ensemble_notebook import check
from ensemble_notebook.scorers import called
check(report, called("search"), called("delete", at_most=0))
"""
ORDER: Final = """from ensemble_notebook import check
from ensemble_notebook.scorers import finished_before
check(report, finished_before("gather", "brief"))
"""
NO_REPORT: Final = "report = None\n"
SUBMISSIONS: Final[dict[str, tuple[str, Sequence[str]]]] = {
    "right": (TEAM, ()),
    "half": (BACKWARDS, ()),
    "wrong": (TEAM.replace("description", "descripton"), ()),
    "failed": (TEAM.replace("desk", "scripted:refuses"), ()),
    "own check": ("", [f"{NO_REPORT}def check(*given): pass"]),
    "no tests": ("", [NO_REPORT]),
    "patched module": ("", [f"{NO_REPORT}import ensemble_notebook\nensemble_notebook.check = print"]),
}
"""The body of the student's cell, and cells that are put in behind it."""


def write(cells: Sequence[Any], path: Path) -> None:
    notebook = new_notebook(cells=[*cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def submit(name: str, handed_out: Path, path: Path) -> None:
    """Write what a student hands in, into the notebook that was handed out."""
    body, more = SUBMISSIONS[name]
    notebook = nbformat.read(handed_out, 4)
    place = next(at for at, each in enumerate(notebook.cells) if each.source.startswith(FIRST_LINE))
    notebook.cells[place].source = FIRST_LINE + body
    notebook.cells[place + 1 : place + 1] = map(new_code_cell, more)
    if name == "no tests":
        for each in notebook.cells[place + 2 :]:
            each.source = "pass"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def add_points(add_figures: Callable[..., None], grader: str, points: dict[str, float]) -> None:
    add_figures(grader=grader, **{name: f"{given:g} of 3" for name, given in points.items()})


# --- nbgrader ---------------------------------------------------------------------------------------------------------


READ_GRADES: Final = """
import json
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print(json.dumps({each.student.id: each.score for each in book.assignment_submissions("team")}))
"""
CONFIG: Final = """
c.CourseDirectory.course_id = "agents"
c.ClearSolutions.code_stub = {"python": "# The team comes here."}
"""


@pytest.fixture(scope="module")
def course(make_venv: Callable[..., Venv], tmp_path_factory: pytest.TempPathFactory) -> tuple[Venv, Path]:
    """A course with one exercise, handed out."""
    venv = make_venv("nbgrader", "nbgrader>=0.9.6,<0.10", ours="[lab]")
    folder = tmp_path_factory.mktemp("course")
    (folder / "nbgrader_config.py").write_text(CONFIG)

    def make(source: str, grade_id: str, **facts: Any) -> Any:
        known = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "grade_id": grade_id}
        return new_code_cell(source, metadata={"nbgrader": known | facts})

    cells = [
        new_markdown_cell("Write a team that gathers facts, and then writes a brief."),
        make(SETUP, "setup", locked=True),
        make(f"{FIRST_LINE}### BEGIN SOLUTION\n{TEAM}### END SOLUTION", "team", solution=True),
        make(CALLS, "calls", grade=True, locked=True, points=2),
        make(ORDER, "order", grade=True, locked=True, points=1),
    ]
    write(cells, folder / "source" / "team" / "exercise.ipynb")
    venv.run("nbgrader", "generate_assignment", "team", cwd=folder)
    return venv, folder


def test_c121_nbgrader_gives_points_for_checks_that_hold(
    course: tuple[Venv, Path], add_figures: Callable[..., None]
) -> None:
    venv, folder = course
    handed_out = folder / "release" / "team" / "exercise.ipynb"
    for name in SUBMISSIONS:
        submit(name, handed_out, folder / "submitted" / name.replace(" ", "_") / "team" / "exercise.ipynb")
    venv.run("nbgrader", "autograde", "team", cwd=folder, limit_s=600)
    grades = json.loads(venv.run("python", "-c", READ_GRADES, cwd=folder))
    points = {name: grades[name.replace(" ", "_")] for name in SUBMISSIONS}
    add_points(add_figures, "nbgrader", points)
    assert points == POINTS


def test_c121_nbgrader_feedback_says_what_does_not_hold(course: tuple[Venv, Path]) -> None:
    venv, folder = course
    venv.run("nbgrader", "generate_feedback", "team", "--student=half", cwd=folder)
    page = (folder / "feedback" / "half" / "team" / "exercise.html").read_text()
    assert "✗ does not" in page
    assert "CheckFailed" in page


# --- otter-grader -----------------------------------------------------------------------------------------------------


ASSIGNMENT: Final = """# ASSIGNMENT CONFIG
name: team
generate: true
export_cell: false
tests: {ok_format: false}"""


def make_test(name: str, check: str) -> Any:
    """A test of otter: a function that is given the variables of the notebook by their names."""
    body = "".join(f"    {line}\n" for line in check.splitlines())
    return new_code_cell(f"def test_{name}(report):\n{body}")


def test_c121_otter_gives_points_for_checks_that_hold(
    make_venv: Callable[..., Venv], tmp_path: Path, add_figures: Callable[..., None]
) -> None:
    venv = make_venv("otter", "otter-grader>=7,<8", ours="[lab]")
    cells = [
        new_raw_cell(ASSIGNMENT),
        new_code_cell(SETUP),
        new_raw_cell("# BEGIN QUESTION\nname: team\npoints: [2, 1]"),
        new_raw_cell("# BEGIN SOLUTION"),
        new_code_cell(f"{FIRST_LINE}# BEGIN SOLUTION\n{TEAM}# END SOLUTION"),
        new_raw_cell("# END SOLUTION"),
        new_raw_cell("# BEGIN TESTS"),
        make_test("calls", CALLS),
        make_test("order", ORDER),
        new_raw_cell("# END TESTS"),
        new_raw_cell("# END QUESTION"),
    ]
    write(cells, tmp_path / "exercise.ipynb")
    venv.run("otter", "assign", "exercise.ipynb", "dist", cwd=tmp_path)  # runs the solution against its tests, too
    (grader,) = (tmp_path / "dist" / "autograder").glob("*.zip")
    points: dict[str, float] = {}
    for name in SUBMISSIONS:
        folder = tmp_path / name.replace(" ", "_")
        submit(name, tmp_path / "dist" / "student" / "exercise.ipynb", folder / "exercise.ipynb")
        venv.run("otter", "run", "-a", grader, "-o", folder, folder / "exercise.ipynb", cwd=tmp_path)
        graded = json.loads((folder / "results.json").read_text())["tests"]
        points[name] = sum(each.get("score") or 0 for each in graded)
        if name == "half":
            assert "CheckFailed: 1 of 1 expectation does not hold: finished_before('gather', 'brief')" in str(graded)
        if name == "wrong":
            assert "it is None. Run the cell that makes it first" in str(graded)
    add_points(add_figures, "otter-grader", points)
    assert points == POINTS
