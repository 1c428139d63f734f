"""Memory that lasts across runs, in one SQLite file with a full-text index (E44)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.private_files import make_private_database
from ensemble_notebook.errors import EnsembleError, ValidationError
from ensemble_notebook.memory.full_text_store import FullTextStore, create_tables

# How long a writer waits for the others, each of which writes for milliseconds: who holds on longer is stuck.
LOCK_LIMIT_S: Final = 10.0


class SqliteMemory(FullTextStore):
    """A memory in an SQLite file, which is created if missing. Threads, processes and kernels may share the file.

    Args:
        path: of the file; ``~`` is the home folder.
        max_entries: the most entries per scope; the oldest are dropped first. None: no limit.
        max_age: seconds or a `timedelta` after which an entry is dropped; None: never.

    Raises:
        ValidationError: a limit is not a number above 0, or the file can't be used. Later errors of the file are raised
            as `EnsembleError`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_entries: int | None = None,
        max_age: float | timedelta | None = None,
    ) -> None:
        super().__init__(max_entries, max_age)
        self._path = _check_path(path)
        try:
            with self._open():
                pass
        except EnsembleError as error:
            raise ValidationError(str(error)) from error.__cause__

    @property
    def path(self) -> Path:
        """The file, with its whole path."""
        return self._path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # One connection for each operation: nothing to close, nothing that a fork or a pickle could break, and a file
        # that somebody deletes is simply made again.
        with suppress(OSError):  # SQLite says the same better
            make_private_database(self._path)
        try:
            with closing(sqlite3.connect(self._path, timeout=LOCK_LIMIT_S, isolation_level=None)) as connection:
                _set_up(connection)
                yield connection
        except sqlite3.Error as error:
            raise EnsembleError(f"The memory {self._path} {_describe_error(error)}") from error

    def __repr__(self) -> str:
        """Say its file."""
        return f"SqliteMemory({str(self._path)!r})"


def _set_up(connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        # Readers then don't wait for a writer. It is not to be had on every disk, nor while another process does the
        # same; neither matters.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    create_tables(connection)


def _check_path(path: Any) -> Path:
    """Give back the absolute path of a file that may be there or not.

    Raises:
        ValidationError: no file can be there.
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path) or os.fspath(path) == ":memory:":
        raise ValidationError(f"SqliteMemory takes the path of a file, got {path!r}. InMemoryStore() needs none.")
    file = Path(path).expanduser().absolute()
    if file.is_dir():
        raise ValidationError(f"The memory {file} is a folder. Name a file in it, such as {file / 'memory.db'}.")
    if not file.parent.is_dir():
        raise ValidationError(f"The memory {file} has no place: there is no folder {file.parent}. Make it first.")
    return file


def _describe_error(error: sqlite3.Error) -> str:
    """Describe what is wrong with the file, and what to do."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"is locked by another program for more than {LOCK_LIMIT_S:g} s. Close that, or take another file."
        case sqlite3.SQLITE_READONLY:
            return "is read-only. Make it writable, or take another file."
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return "can't be opened. Check the permissions of the file and of its folder, or take another file."
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return "is damaged, or another kind of file. Take another file; or delete this one, which forgets all."
        case sqlite3.SQLITE_FULL:
            return "can't grow: the disk is full."
    return f"can't be used: {error}."
