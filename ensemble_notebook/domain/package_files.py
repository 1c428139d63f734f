"""Folders that come with the package: inside an installed wheel, beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent.parent


def find_package_file(name: str) -> Path:
    """The folder of this name.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for folder in (_PACKAGE / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"This installation of ensemble-notebook lacks its folder {name!r}; install it again.")
