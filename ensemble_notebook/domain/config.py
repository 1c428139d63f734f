"""Settings of this process, for all runs that say nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.domain.local_paths import read_path


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(slots=True)
class Config:
    """Settings of this process, for all runs that say nothing else; ``ensemble_notebook.config`` is the one there is.

    Attributes:
        capture_mode: ``"metadata"`` (no text at all), ``"off"``, ``"standard"`` or ``"full"``, in any case; None: what
            the environment says.
        max_table_chars: characters of a table in a prompt; rows that do not fit are left out, and said so.
        max_input_mb: the most that a text file named by ``-i NAME=@FILE`` may have, in millions of bytes.
        max_attachment_mb: the most that a picture or PDF for a model may have, in millions of bytes.
        langsmith: whether variables of the environment that switch on LangChain's tracing (``LANGSMITH_TRACING`` and
            the like) have their effect in runs.
        store: where runs are remembered: ``"auto"`` (the user data folder), ``"off"``, or the path of a file;
            None: what ``ENSEMBLE_NOTEBOOK_STORE`` says, else ``"auto"``.
        store_max_days: runs that are older are forgotten; None: never.
        store_max_mb: the most that the store may hold, in millions of bytes; the oldest runs are forgotten first. None:
            any size.

    Raises:
        ValueError: `max_table_chars` is set to something else than a whole number >= 0, `store` to no such choice or
            an address, or `max_input_mb`, `max_attachment_mb` or a limit of the store to something else than a
            number > 0.
    """

    capture_mode: str | None = None
    max_table_chars: int = 8000
    max_input_mb: float = 10.0
    max_attachment_mb: float = 20.0
    langsmith: bool = False
    store: str | os.PathLike[str] | None = None
    store_max_days: float | None = 365.0
    store_max_mb: float | None = 1000.0

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse at once what would fail in the next run."""
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if name == "max_table_chars" and not is_count:
            raise ValueError(f"config.max_table_chars must be a whole number >= 0, got {value!r}.")
        if name == "store" and value is not None and (not isinstance(value, str | os.PathLike) or not os.fspath(value)):
            raise ValueError(f'config.store must be "auto", "off", the path of a file, or None, got {value!r}.')
        if name == "store" and value is not None:
            read_path(value, "config.store")
        if name in ("store_max_days", "store_max_mb") and value is not None and not (_is_number(value) and value > 0):
            raise ValueError(f"config.{name} must be a number > 0 or None, got {value!r}.")
        if name in ("max_input_mb", "max_attachment_mb") and not (_is_number(value) and value > 0):
            raise ValueError(f"config.{name} must be a number > 0, got {value!r}.")
        object.__setattr__(self, name, value)


config: Final = Config()
