#!/usr/bin/env bash
# nbgrader 0.9.6 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: a test cell of nbgrader whose assertions all hold gets its points: only an error costs them.
# Seen: a test cell that writes anything to stderr gets none, though nothing fails in it and the cell has no error: a
# progress bar, a log record, a `DeprecationWarning` of a library. The same cell without that line gets all of them. The
# student sees it from `nbgrader validate`, which calls the warning "the error"; the teacher sees 0 points.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet nbgrader==0.9.6 ipykernel==7.4.0
export PATH="$folder/env/bin:$PATH"
mkdir "$folder/course"
cd "$folder/course"
echo 'c.CourseDirectory.course_id = "course"' > nbgrader_config.py
python - <<'PY'
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook


def make(source, name, **facts):
    known = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "grade_id": name}
    return new_code_cell(source, metadata={"nbgrader": known | facts})


answer = make("### BEGIN SOLUTION\nanswer = 42\n### END SOLUTION", "answer", solution=True)
quiet = make("assert answer == 42", "quiet", grade=True, locked=True, points=1)
warned = make("import warnings\nwarnings.warn('old')\nassert answer == 42", "warned", grade=True, locked=True, points=1)
notebook = new_notebook(cells=[answer, quiet, warned])
notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
path = Path("source/one/exercise.ipynb")
path.parent.mkdir(parents=True)
nbformat.write(notebook, path)
PY
nbgrader generate_assignment one > log 2>&1
python - <<'PY'
from pathlib import Path

import nbformat

notebook = nbformat.read("release/one/exercise.ipynb", 4)
notebook.cells[0].source = "answer = 42"
path = Path("submitted/ann/one/exercise.ipynb")
path.parent.mkdir(parents=True)
nbformat.write(notebook, path)
PY
nbgrader validate submitted/ann/one/exercise.ipynb > validated 2> log
nbgrader autograde one > log 2>&1
python - <<'PY'
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook

with Gradebook("sqlite:///gradebook.db") as book:
    (submission,) = book.assignment_submissions("one")
    points = {grade.name: grade.auto_score for notebook in submission.notebooks for grade in notebook.grades}
graded = nbformat.read("autograded/ann/one/exercise.ipynb", 4)
kinds = [output.output_type for cell in graded.cells for output in cell.outputs]
print(f"points: {points}; outputs: {kinds}")
assert points == {"quiet": 1.0, "warned": 0.0}
assert kinds == ["stream"]
assert "UserWarning: old" in Path("validated").read_text()
PY
