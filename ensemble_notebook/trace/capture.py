"""How much of a run is recorded (T6): whose word counts."""

from __future__ import annotations

import os
import warnings
from typing import Final

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.outputs.secrets import mask

VARIABLE: Final = "AGENTENSEMBLE_CAPTURE_MODE"


def resolve_capture_mode(argument: CaptureMode | str | None = None) -> CaptureMode:
    """The mode of a run: the argument, else ``config.capture_mode``, else the environment variable, else OFF.

    Case and surrounding space don't matter. What is no mode is told in one warning, and the next source is used.
    """
    sources = (
        ("capture_mode", argument),
        ("ensemble_notebook.config.capture_mode", config.capture_mode),
        (VARIABLE, os.environ.get(VARIABLE)),
    )
    wrong = []
    mode = CaptureMode.OFF
    for name, value in sources:
        text = "" if value is None else str(value).strip().casefold()
        if text in [each.value for each in CaptureMode]:
            mode = CaptureMode(text)
            break
        if text:
            wrong.append(f"{name}={mask(str(value))!r}")
    if wrong:
        message = f"No capture mode: {', '.join(wrong)}. Use metadata, off, standard or full; {mode.value} is used now."
        warnings.warn(message, UserWarning, stacklevel=2)
    return mode
