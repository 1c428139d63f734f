"""What texts of errors go through before a person reads them: no secrets, nothing that a terminal obeys."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

# ESC, NUL and their like; line breaks and tabs stay.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_masks: Final[list[Callable[[str], str]]] = []


def register_mask(mask: Callable[[str], str]) -> None:
    """Have what errors say to people go through `mask` first (T7): what a secret is, is known above this module."""
    _masks.append(mask)


def mask_text(text: str) -> str:
    """The text without secrets."""
    for mask in _masks:
        text = mask(text)
    return text


def remove_control_characters(text: str) -> str:
    """The text without control characters, so that nobody's words move the cursor or write a title (E71)."""
    return _CONTROLS.sub("", text)


def make_readable(text: str) -> str:
    """The text as it may be shown in a terminal: without secrets and control characters."""
    return mask_text(remove_control_characters(text))
