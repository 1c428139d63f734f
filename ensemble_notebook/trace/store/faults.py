"""What can be wrong with the file of the run store, in words; and a broken one put aside (T31)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.store.schema import LOCK_LIMIT_S, UnusableStoreError, get_code, open_file

NOT_REMEMBERED: Final = "This run is not remembered from here on."


def is_damage(error: BaseException) -> bool:
    """Whether the file is a broken store, which another may replace."""
    if isinstance(error, UnusableStoreError):
        return error.is_damaged
    return isinstance(error, sqlite3.Error) and get_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def warn_of_fault(error: BaseException, path: Path) -> str:
    """What is wrong with the file, for a run that can't be written."""
    return f"{describe_fault(error, path)} {NOT_REMEMBERED}"


def describe_fault(error: BaseException, path: Path) -> str:
    """What is wrong, with the name of the file."""
    if isinstance(error, UnusableStoreError):
        return str(error)
    if isinstance(error, sqlite3.Error):
        return f"The run store {path} {_describe_code(error)}"
    reason = getattr(error, "strerror", None) or str(error)
    return f"The run store {path} can't be used: {reason}."


def _describe_code(error: sqlite3.Error) -> str:
    match get_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"is locked by another program for more than {LOCK_LIMIT_S:g} s."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return "is read-only."
        case sqlite3.SQLITE_CANTOPEN:
            return "can't be opened; see the permissions of the file and of its folder."
        case sqlite3.SQLITE_FULL:
            return "can't grow: the disk is full."
    return f"can't be used: {error}."


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The store in a file that is there, and is closed again.

    Raises:
        StoreError: it can't be opened, read or written; says why.
    """
    try:
        with closing(open_file(path, is_new_allowed=False)) as connection:
            yield connection
    except StoreError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise StoreError(describe_fault(error, path)) from error


def keep_aside(path: Path) -> str:
    """Rename a broken store, with the files beside it, so that a new one can be begun; says so in words.

    Another kernel may have done so already; then nothing is renamed.

    Raises:
        OSError: it can't be renamed.
    """
    with suppress(sqlite3.Error, OSError), closing(open_file(path, is_new_allowed=False)) as connection:
        if connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
            return f"The run store {path} was damaged; a new one is there now."
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    path.rename(aside)
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    return f"The run store {path} is damaged. It is kept as {aside.name}, and a new one is begun."
