"""``demo``: a notebook that plays recorded runs, executed without a browser and then opened in one (C104)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.package_files import find_package_file
from ensemble_notebook.errors import EnsembleError, ValidationError, say_install

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOK: Final = "00-demo.ipynb"
LESSON: Final = "01-first-team.ipynb"
"""Comes after it, with the module of the course beside it."""
COURSE: Final = "course"
_CELL_TIMEOUT_S: Final = 120
_TRACE: Final = "application/vnd.ensemble.trace+json"


def demo(folder: Path | None, *, opens: bool) -> None:
    """Execute the notebook, with the first lesson beside it, say how its runs went, and open JupyterLab on it.

    Args:
        folder: where the result goes; None: a new temporary folder.
        opens: False keeps JupyterLab closed; it stays so on CI and where there is no display.

    Raises:
        EnsembleError: a cell failed; the notebook is written as far as it came.
    """
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValidationError(f"--dir {folder}: that is no folder.")
    folder = Path(tempfile.mkdtemp(prefix="ensemble-demo-")) if folder is None else folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    source, result = find_package_file("notebooks"), folder / NOTEBOOK
    notebook = _execute(source / NOTEBOOK, result)
    if not (lesson := folder / LESSON).exists():  # one that is there may have been worked in
        shutil.copy(source / LESSON, lesson)
    no_cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source / COURSE, folder / COURSE, dirs_exist_ok=True, ignore=no_cache)
    print(f"\nThe notebook with its results is {result}\n")
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        shown = output.get("data", {})
        if _TRACE in shown:
            print(f"{shown['text/plain']}\n")
    print(f"Next: {LESSON} beside it, the first of nine lessons; it needs no key either.")
    if not opens:
        return
    if not _has_display():
        print(f"\nThere is no display here to open it on. In JupyterLab: {sys.executable} -m jupyter lab {result}")
    # `jupyter lab` would run a script of this name from anywhere in PATH. One of another environment may
    # not have this package.
    elif shutil.which("jupyter-lab", path=str(Path(sys.executable).parent)) is None:
        print(f"\nJupyterLab is not installed here: {say_install('lab')}")
    else:
        print("\nOpening JupyterLab; Ctrl-C here ends it.")
        subprocess.run([sys.executable, "-m", "jupyter", "lab", str(result)], check=False)


def _execute(source: Path, result: Path) -> NotebookNode:
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError
    except ImportError as error:
        raise EnsembleError(
            f"The notebook of the demo needs {error.name}: {say_install('lab')}\nWithout it: start ipython, and type "
            "%load_ext ensemble_notebook and then %ensemble demo."
        ) from error

    notebook: NotebookNode = nbformat.read(source, as_version=4)  # type: ignore[no-untyped-call]
    count = len(notebook.cells)

    def report_event(cell_index: int, **_: Any) -> None:
        end = "\r" if sys.stderr.isatty() and cell_index + 1 < count else "\n"
        print(f"{NOTEBOOK}: cell {cell_index + 1} of {count}", end=end, file=sys.stderr, flush=True)

    client = NotebookClient(
        notebook,
        timeout=_CELL_TIMEOUT_S,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # a kernel that nobody else talks to need not warn of its transport
        resources={"metadata": {"path": str(result.parent)}},
        on_cell_start=report_event,
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise EnsembleError(f"A cell of the demo failed: {error.ename}: {error.evalue}\nSee {result}") from None
    finally:
        nbformat.write(notebook, result)  # type: ignore[no-untyped-call]
    return notebook


def _has_display() -> bool:
    if os.environ.get("CI"):
        return False
    is_windowless = sys.platform.startswith(("linux", "freebsd"))
    return not is_windowless or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
