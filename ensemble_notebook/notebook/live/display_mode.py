"""How a run is shown here: decided from the wish, the environment and the frontend."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.errors import ValidationError, did_you_mean

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

ENVIRONMENT_VARIABLE: Final = "ENSEMBLE_NOTEBOOK_DISPLAY"


class DisplayMode(StrEnum):
    """How a run is shown. ``AUTO``: a widget where somebody watches a notebook, else what fits."""

    AUTO = "auto"
    WIDGET = "widget"
    STATIC = "static"
    TEXT = "text"


def choose_display_mode(shell: InteractiveShell, wish: str = DisplayMode.AUTO) -> DisplayMode:
    """The mode for this shell: the wish, else the environment's, else what the frontend is.

    Without a kernel it is a terminal. A frontend that can't be asked for input is nobody: nbconvert, papermill and
    nbclient switch input off, and they would write a widget's whole state into the notebook's file.

    Raises:
        ValidationError: the environment names no mode.
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
    """Whether the cell that a kernel runs now was sent by somebody who can be asked for input."""
    request: dict[str, Any] = getattr(shell, "get_parent", dict)() or {}
    return bool(request.get("content", {}).get("allow_stdin"))
