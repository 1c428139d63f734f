"""``%ensemble import crewai FOLDER``: a project of another tool as a new cell (C32)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ensemble_notebook.errors import ValidationError, make_readable
from ensemble_notebook.notebook.magics.new_cell import CellText, give_cell


def import_project(words: Sequence[str], shell: Any) -> CellText | None:
    """Write the agents and tasks of a crewAI project as a cell, and say what a cell does not have.

    Raises:
        ValidationError: another tool is named, or the folder has no such project. As a `CellError`: one of its files
            can't be read, or what it says can't run.
    """
    from ensemble_notebook.cell.cell_reader import read_cell
    from ensemble_notebook.cell.writing.crewai_project import write_crewai_cell

    if len(words) != 2 or words[0] != "crewai":
        raise ValidationError("%ensemble import takes `crewai` and the folder of the project.")
    text, notes = write_crewai_cell(Path(words[1]), shell.user_ns)
    read_cell(text, shell.user_ns, needs_inputs=False)
    for note in notes:
        sys.stdout.write(make_readable(f"{note}\n"))
    return give_cell(f"%%ensemble\n{text}", shell)
