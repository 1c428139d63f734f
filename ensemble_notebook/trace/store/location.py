"""Where the run store is (T30): whose word counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ensemble_notebook.domain.config import config

VARIABLE: Final = "ENSEMBLE_NOTEBOOK_STORE"
AUTO: Final = "auto"
OFF: Final = "off"
FILE_NAME: Final = "runs.db"


def find_store() -> Path | None:
    """Find the file of the store; None where nothing is remembered.

    What counts is ``config.store``, else the environment variable, else ``"auto"``, which is the user data folder.
    """
    place = os.fspath(config.store) if config.store is not None else os.environ.get(VARIABLE) or AUTO
    if place.strip().casefold() == OFF:
        return None
    if place.strip().casefold() == AUTO:
        return find_default_store()
    return Path(place).expanduser().absolute()


def find_default_store() -> Path:
    """Find the file in the user data folder; it may not be there yet."""
    from platformdirs import user_data_path

    return user_data_path("ensemble-notebook", appauthor=False) / FILE_NAME
