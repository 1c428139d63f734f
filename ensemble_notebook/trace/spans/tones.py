"""Colours for pictures that can't follow a theme: a contrast of 3 and more, on white and on near-black."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ensemble_notebook.trace.spans.span_kinds import Tone

TONE_COLORS: Final[Mapping[Tone, str]] = {
    "model": "#6c6ce6",
    "tool": "#0f97a0",
    "person": "#b9801a",
    "pause": "#b9801a",
}
IDLE_COLOR: Final = "#7b8088"
ERROR_COLOR: Final = "#e0364a"
DONE_COLOR: Final = "#2f9e57"

FAINT_COLORS: Final = {"model": "#a9a9f2", "tool": "#74c4ca", "pause": "#dcb869", "idle": "#b4b8be"}
"""For a part of what has the full colour, beside it: told apart from the background by its place, not by contrast."""
