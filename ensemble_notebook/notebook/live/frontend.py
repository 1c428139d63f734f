"""What the frontend tells: how a run is shown, whether a person reads it, what cells and notebook are called (E48)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from IPython.core.getipython import get_ipython
from IPython.display import display as untyped_display

from ensemble_notebook.errors import ValidationError, did_you_mean, make_readable

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_display: Any = untyped_display
ENVIRONMENT_VARIABLE: Final = "ENSEMBLE_NOTEBOOK_DISPLAY"


class DisplayMode(StrEnum):
    """How a run is shown. ``AUTO``: a widget where somebody watches a notebook, else what fits."""

    AUTO = "auto"
    WIDGET = "widget"
    STATIC = "static"
    TEXT = "text"


def write_text(text: str) -> None:
    """Write to the running cell, as plain text."""
    sys.stdout.write(make_readable(text))


def choose_display_mode(shell: InteractiveShell, wish: str = DisplayMode.AUTO) -> DisplayMode:
    """The mode for this shell: `wish`, else the environment variable, else by frontend.

    A shell without a kernel is a terminal. A frontend that allows no input has no reader: nbconvert, papermill and
    nbclient switch input off, and a widget's whole state would be written into the notebook file.

    Raises:
        ValidationError: the environment variable names no mode.
    """
    wish = (
        wish
        if wish != DisplayMode.AUTO
        else os.environ.get(ENVIRONMENT_VARIABLE, "").strip().lower() or DisplayMode.AUTO
    )
    if wish not in list(DisplayMode):
        raise ValidationError(
            f"{ENVIRONMENT_VARIABLE} can't be {wish!r}.{did_you_mean(wish, [mode.value for mode in DisplayMode])}"
        )
    if wish != DisplayMode.AUTO:
        return DisplayMode(wish)
    if getattr(shell, "kernel", None) is None:
        return DisplayMode.TEXT
    return DisplayMode.WIDGET if has_reader(shell) else DisplayMode.STATIC


def has_reader(shell: InteractiveShell) -> bool:
    """Whether the running cell was sent by a frontend that can be asked for input, so that a person reads it."""
    request: dict[str, Any] = getattr(shell, "get_parent", dict)() or {}
    return bool(request.get("content", {}).get("allow_stdin"))


def is_served_by_voila() -> bool:
    """Whether voila runs the cells: without a reader, whose page comes once they are over, and keeps the kernel."""
    return os.environ.get("SERVER_SOFTWARE", "").startswith("voila/")


def can_answer(shell: InteractiveShell) -> bool:
    """Whether somebody is at the page or the terminal of this shell who can be asked for input."""
    if getattr(shell, "kernel", None) is not None:
        return has_reader(shell)
    from ensemble_notebook.ensemble.person import is_terminal  # late, as it brings the engine along

    return is_terminal(sys.stdin) and is_terminal(sys.stdout)


def has_reader_here(_: object = None) -> bool | None:
    """The same for the shell of this process; None where it is no kernel."""
    shell: Any = get_ipython()
    return has_reader(shell) if getattr(shell, "kernel", None) is not None else None


def show_picture(shown: Any) -> None:
    """Show what has a picture: on the page of the cell that runs, in a terminal and a script as text."""
    if get_ipython() is None:
        print(shown)  # noqa: T201 - there is no page
    else:
        _display(shown)


def find_names_here(_: object = None) -> Mapping[str, Any]:
    """The variables of the notebook or terminal that runs here; empty where there is none."""
    return getattr(get_ipython(), "user_ns", {})


def find_cell_id() -> str | None:
    """The notebook's id of the cell that the kernel runs now; None where the frontend does not tell it."""
    request: dict[str, Any] = getattr(get_ipython(), "get_parent", dict)() or {}
    cell_id = request.get("metadata", {}).get("cellId")
    return cell_id if isinstance(cell_id, str) else None


_TYPED: Final = re.compile(r"<ipython-input-(\d+)-")


def name_cell(file: str) -> str | None:
    """``In[3]`` for the file of that cell; None for other files."""
    shell = get_ipython()
    name_code = getattr(getattr(shell, "compile", None), "format_code_name", None)
    if callable(name_code) and (named := name_code(file)):
        return str(named[1])
    typed = _TYPED.match(file)
    return None if typed is None else f"In[{typed[1]}]"


def find_notebook(names: Mapping[str, Any]) -> str | None:
    """The file of the notebook that has these variables, as far as its frontend tells; else None."""
    found = names.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME")
    return found if isinstance(found, str) else None


def stands_alone(shell: Any) -> bool:
    """Whether the magic is the last line of the cell, so that its value would be shown."""
    entered: list[str] = shell.history_manager.input_hist_raw[-1:] or [""]
    return entered[0].strip().rpartition("\n")[2].lstrip().startswith("%ensemble")
