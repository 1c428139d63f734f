"""The lessons, each run from top to bottom in a real kernel, with its solutions; and saved with what they show.

A cell with the tag `exercise` is what a student edits; the next one with the tag `check` looks at it. The first block
of code in the text behind them, folded, is a solution: it is run behind the check, and then the check is run again.

    python -m tests.support.lessons [NAME ...]    executes lessons as they are, and saves them
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from tests.support.row_reader import read_rows

FOLDER: Final = Path(__file__).parents[2] / "notebooks"
COURSE: Final = "course"
"""The module beside the lessons: what their teams are made of, where it is not what is taught."""
TRACE: Final = "application/vnd.ensemble.trace+json"
SOLUTION: Final = re.compile(r"<details>.*?```\w*\n(.*?)\n```.*?</details>", re.DOTALL)
MAX_CELLS: Final = 25
MAX_LINES: Final = 14
"""Of a cell of Python that is no exercise: longer ones are helpers, which belong into the module beside the lessons."""


def has_tag(cell: Any, tag: str) -> bool:
    """Whether a cell has this tag."""
    return tag in cell.metadata.get("tags", ())


def text_of(output: Any) -> str:
    """An output as text."""
    return output.get("text") or "\n".join(output.get("traceback", ())) or output.get("data", {}).get("text/plain", "")


def shown_below(cell: Any) -> str:
    """All that a cell shows, as text."""
    return "\n".join(map(text_of, cell.outputs))


def list_kinds(cell: Any) -> list[list[str]]:
    """What kinds of data its outputs have, in order; text that is printed comes in as many pieces as it takes time."""
    return [kinds for kinds, _ in groupby(sorted(output.get("data", {})) for output in cell.outputs)]


def rows_of(saved: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The rows of a kind, in order."""
    return [row for row in read_rows(saved) if row["kind"] == kind]


@contextmanager
def without_models() -> Iterator[None]:
    """No kernel that is started here asks a real model or keeps its runs; scripts and recordings are always allowed."""
    settings = {"ENSEMBLE_NOTEBOOK_ALLOWED_MODELS": "scripted", "ENSEMBLE_NOTEBOOK_STORE": "off"}
    kept = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


class Lesson:
    """A lesson by the name of its file.

    Attributes:
        saved: as it lies in the folder.
        left_behind: files that a run of it leaves beside it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.saved = nbformat.read(FOLDER / name, as_version=4)
        self.left_behind: list[str] = []

    def solutions(self) -> list[tuple[int, str]]:
        """The place of the check of each exercise, and the solution."""
        found = []
        for place, cell in enumerate(self.saved.cells):
            if not has_tag(cell, "exercise"):
                continue
            behind = list(enumerate(self.saved.cells))[place + 1 :]
            check = next(at for at, each in behind if has_tag(each, "check"))
            text = next(each.source for at, each in behind if at > check and each.cell_type == "markdown")
            folded = SOLUTION.search(text)
            assert folded is not None, f"{self.name}: no solution is folded behind {cell.source[:60]!r}"
            found.append((check, folded[1]))
        return found

    def run(self, *, is_solved: bool) -> nbformat.NotebookNode:
        """Execute it in a folder of its own; solved, each check is followed by the solution and by the check again."""
        lesson = nbformat.read(FOLDER / self.name, as_version=4)
        for check, solution in reversed(self.solutions() if is_solved else []):
            again = [
                new_code_cell(text, metadata={"tags": ["solved"]}) for text in (solution, lesson.cells[check].source)
            ]
            lesson.cells[check + 1 : check + 1] = again
        with TemporaryDirectory() as folder, without_models() if self.solutions() else nullcontext():
            shutil.copytree(FOLDER / COURSE, Path(folder, COURSE), ignore=shutil.ignore_patterns("__pycache__"))
            recordings = [*FOLDER.glob(f"{Path(self.name).stem}*.yaml")]
            for recording in recordings:
                shutil.copy(recording, folder)
            brought = {COURSE, *(path.name for path in recordings)}
            where = {"metadata": {"path": folder}}
            NotebookClient(
                lesson,
                timeout=300,
                extra_arguments=["--log-level=ERROR"],
                resources=where,
                allow_errors=is_solved,
                coalesce_streams=True,  # what is printed comes in as many pieces as it happens to
            ).execute()
            self.left_behind = sorted({path.name for path in Path(folder).iterdir()} - brought)
        return lesson

    @cached_property
    def executed(self) -> nbformat.NotebookNode:
        """The lesson with its outputs and solutions; run once for all tests of a process."""
        return self.run(is_solved=True)

    @property
    def code_cells(self) -> list[Any]:
        """The cells of code that are the lesson's own, executed."""
        return [cell for cell in self.executed.cells if cell.cell_type == "code" and not has_tag(cell, "solved")]

    @property
    def texts(self) -> list[str]:
        """What each code cell shows, as text."""
        return [shown_below(cell) for cell in self.code_cells]

    @property
    def traces(self) -> list[dict[str, Any]]:
        """The saved timelines, in order."""
        outputs = [output for cell in self.code_cells for output in cell.outputs]
        return [output["data"][TRACE] for output in outputs if TRACE in output.get("data", {})]

    def trace(self, run: str) -> dict[str, Any]:
        """The saved timeline of the run of this name."""
        (found,) = (each for each in self.traces if each["run"]["name"] == run)
        return found

    def below(self, start: str) -> str:
        """What is shown below the one code cell that has this text in it."""
        (found,) = (shown_below(cell) for cell in self.code_cells if start in cell.source)
        return found


@pytest.mark.usefixtures("warm_kernels")
class NotebookTests:
    """What holds for each notebook of the folder."""

    lesson: ClassVar[Lesson]
    largest: ClassVar[int] = 350_000
    """Bytes, with the log of its messages (W120), where that has room."""

    def test_only_the_cells_that_are_wrong_on_purpose_fail(self) -> None:
        for cell in self.lesson.code_cells:
            has_failed = any(output.output_type == "error" for output in cell.outputs)
            assert has_failed <= has_tag(cell, "raises-exception"), f"{cell.source}\n\n{shown_below(cell)}"
            assert has_failed or not has_tag(cell, "raises-exception") or has_tag(cell, "exercise"), cell.source

    def test_it_leaves_no_file_behind(self) -> None:
        assert self.lesson.executed
        assert self.lesson.left_behind == []

    def test_it_is_saved_small_and_without_widgets(self) -> None:
        saved = json.dumps(self.lesson.saved)
        assert "widgets" not in self.lesson.saved.metadata
        assert "widget-view" not in saved + json.dumps(self.lesson.executed)
        assert len(saved) < self.largest

    def test_it_is_kept_with_what_it_shows(self) -> None:
        kept = [cell for cell in self.lesson.saved.cells if cell.cell_type == "code"]
        for old, new in zip(kept, self.lesson.code_cells, strict=True):
            assert list_kinds(old) == list_kinds(new), new.source


class LessonTests(NotebookTests):
    """What holds for each lesson of the course."""

    def test_it_says_first_what_one_will_be_able_to_do_and_in_how_many_minutes(self) -> None:
        first = self.lesson.saved.cells[0].source
        assert "You will be able to" in first
        minutes = re.search(r"(\d+) minutes", first)
        assert minutes is not None
        assert 20 <= int(minutes[1]) <= 40

    def test_it_is_short_and_shows_no_helpers(self) -> None:
        cells = self.lesson.saved.cells
        assert len(cells) <= MAX_CELLS
        own = [cell.source for cell in cells if cell.cell_type == "code" and not has_tag(cell, "exercise")]
        assert [text for text in own if not text.startswith("%%") and len(text.splitlines()) > MAX_LINES] == []

    def test_it_asks_to_predict_before_it_runs(self) -> None:
        texts = [cell.source.casefold() for cell in self.lesson.saved.cells if cell.cell_type == "markdown"]
        assert sum("predict" in text for text in texts) >= 2

    def test_its_three_exercises_fail_as_they_stand_and_pass_with_their_solutions(self) -> None:
        cells = [cell for cell in self.lesson.executed.cells if cell.cell_type == "code"]
        checks = [cell for cell in self.lesson.code_cells if has_tag(cell, "check")]
        assert len(checks) == 3 == len(self.lesson.solutions())
        for check in checks:
            assert "check(" in check.source
            assert any(output.get("ename") == "CheckFailed" for output in check.outputs), shown_below(check)
            solution, again = cells[cells.index(check) + 1 :][:2]
            for cell in (solution, again):
                failed = [output for output in cell.outputs if output.output_type == "error"]
                assert not failed, f"{cell.source}\n\n{shown_below(cell)}"
            assert "✗" not in shown_below(again)


def save(name: str) -> None:
    """Execute a lesson as it is, and save it with what it shows, without times that differ each time."""
    lesson = Lesson(name).run(is_solved=False)
    for cell in lesson.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(lesson, FOLDER / name)


if __name__ == "__main__":
    for each in sys.argv[1:] or sorted(path.name for path in FOLDER.glob("*.ipynb")):
        save(Path(each).name)
