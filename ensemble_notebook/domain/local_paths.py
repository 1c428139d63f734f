"""Paths that people give: of files and folders of this machine, since nothing else is read or written (T13)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.errors import ValidationError

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Of a `Path`, too, in which one slash is left of two; `C:/` is a drive."""


def read_path(given: Any, name: str, wanted: str = "a path, as text or pathlib.Path") -> Path:
    """A path as it was given; ``~`` is the home folder.

    Args:
        given: to an argument.
        name: of the argument or option.
        wanted: what it takes.

    Raises:
        ValidationError: it is something else, or an address, which would become a folder ``s3:``.
    """
    if not isinstance(given, str | os.PathLike) or not isinstance(text := os.fspath(given), str):
        raise ValidationError(f"{name} must be {wanted}, got {given!r}.")
    if _ADDRESS.match(text):
        here = Path(text).name
        raise ValidationError(
            f"{name}: {text!r} is an address, and only files of this machine are read and written. Name one, such as "
            f"{here!r}, and copy it to or from there."
        )
    return Path(text).expanduser()


def list_paths(given: Any, name: str, wanted: str) -> list[str | os.PathLike[str]]:
    """One path, or some, as they were given.

    Raises:
        ValidationError: as `read_path`.
    """
    is_list = isinstance(given, Iterable) and not isinstance(given, str | bytes)
    listed = [*given] if is_list else [given]
    for each in listed:
        read_path(each, name, wanted)
    return listed
