"""The file of the run store: where it is, made and opened, and what can be wrong with it, in words (T30, T31)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.private_files import make_private_database
from ensemble_notebook.errors import StoreError

# --- Where the run store is: whose word counts ------------------------------------------------------------------


VARIABLE: Final = "ENSEMBLE_NOTEBOOK_STORE"
AUTO: Final = "auto"
OFF: Final = "off"
FILE_NAME: Final = "runs.db"


def find_store() -> Path | None:
    """Find the file of the store; None where nothing is remembered.

    What counts is ``config.store``, else the environment variable, else ``"auto"``, which is the user data folder.

    Raises:
        ValidationError: it is an address.
    """
    place = os.fspath(config.store) if config.store is not None else os.environ.get(VARIABLE) or AUTO
    if place.strip().casefold() == OFF:
        return None
    if place.strip().casefold() == AUTO:
        return find_default_store()
    return read_path(place, VARIABLE if config.store is None else "config.store").absolute()


def find_default_store() -> Path:
    """Find the file in the user data folder; it may not be there yet."""
    from platformdirs import user_data_path

    return user_data_path("ensemble-notebook", appauthor=False) / FILE_NAME


APPLICATION_ID: Final = 0x454E5342
VERSION: Final = 4
"""Since 2, events of one kind stand together, see `records`; since 3, there may be scores; since 4, answers. A file of
an earlier version is read as it is, and becomes one of this version when something is written to it: code that knows
the earlier one alone could not read all of it any more."""
LOCK_LIMIT_S: Final = 3.0
"""How long the file may be locked before a run goes on without it. Each writer holds it for milliseconds."""

KEPT_TABLES: Final = """
CREATE TABLE IF NOT EXISTS kept_tables (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, name TEXT NOT NULL, mark BLOB NOT NULL,
    count INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (run_id, name)
) WITHOUT ROWID
"""
"""Of what can be made again. A file that has no such table yet gets it when there is something to keep."""

SCORES: Final = """
CREATE TABLE IF NOT EXISTS scores (
    number INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    score_id TEXT NOT NULL UNIQUE, data TEXT NOT NULL
)
"""
"""Of what was made of the outputs of a run, while it ran or later. Nothing in it is ever changed."""

ANSWERS: Final = """
CREATE TABLE IF NOT EXISTS answers (
    call_id TEXT PRIMARY KEY, asked_in TEXT NOT NULL, used_in TEXT NOT NULL, data TEXT NOT NULL
) WITHOUT ROWID
"""
"""Of the answers to calls of tools that waited, each noted before it is used. A row goes with the last of its runs."""

_TABLES: Final = f"""
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE, name TEXT, status TEXT NOT NULL,
    started_at TEXT NOT NULL, ended_at TEXT, seen_at REAL NOT NULL, owner TEXT NOT NULL, facts TEXT NOT NULL,
    summary TEXT
);
CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, seq INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE exchanges (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, number INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
CREATE TABLE results (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, path TEXT NOT NULL, key TEXT NOT NULL,
    parts TEXT NOT NULL, data BLOB NOT NULL
);
{KEPT_TABLES};
{SCORES};
{ANSWERS};
CREATE INDEX results_by_key ON results (key);
CREATE INDEX results_by_run ON results (run_id, path);
"""
_HEADER: Final = b"SQLite format 3\0"
_NAMES: Final = frozenset({"runs", "events", "exchanges", "results", "results_by_key", "results_by_run"})
_LATER_NAMES: Final = frozenset({"kept_tables", "scores", "answers"})


class UnusableStoreError(StoreError):
    """The file can't be used. `is_damaged` where it is a broken store, which another may replace."""

    is_damaged: bool = False


def open_file(path: Path, *, is_new_allowed: bool) -> sqlite3.Connection:
    """Open the store, and make it where it is not there and may be made. The caller closes.

    Raises:
        UnusableStoreError: it is no store of ours, or of a newer version, or damaged.
        OSError, sqlite3.Error: it can't be opened.
    """
    if is_new_allowed:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private_database(path)
    connection = sqlite3.connect(
        path.as_uri() + ("" if is_new_allowed else "?mode=rw"),
        uri=True,
        timeout=LOCK_LIMIT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = lambda data: data.decode(errors="replace")  # whatever somebody has written there
    try:
        _prepare(connection, path, is_written=is_new_allowed)
    except sqlite3.DatabaseError as error:
        connection.close()
        if get_code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise make_damage(path) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def make_damage(path: Path) -> UnusableStoreError:
    """Make the error for a file that is broken, or is another kind of file: nobody else keeps one in our folder."""
    with path.open("rb") as file:
        is_ours = file.read(len(_HEADER)) == _HEADER or path == find_default_store()
    if not is_ours:
        return UnusableStoreError(
            f"The file {path} is no run store. It is left alone; name another file in config.store."
        )
    error = UnusableStoreError(f"The run store {path} is damaged.")
    error.is_damaged = True
    return error


def get_code(error: sqlite3.Error) -> int:
    """The primary code of what SQLite says; 0 where it says nothing."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written inside, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _prepare(connection: sqlite3.Connection, path: Path, *, is_written: bool) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA foreign_keys = ON")
    names = _read_names(connection)
    if not names:  # new, or left so by a process that was killed before it came to the tables
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        with suppress(sqlite3.OperationalError):  # not to be had on every disk; without it all works, more slowly
            connection.execute("PRAGMA journal_mode = WAL")
        with transaction(connection):  # all or none; another kernel may do the same at this moment
            if not _read_names(connection):
                for statement in filter(str.strip, _TABLES.split(";")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
        names = _read_names(connection)
    version = _check(connection, path, names)
    if is_written and version < VERSION:
        bring_up(connection)
    connection.execute("PRAGMA synchronous = NORMAL")


def bring_up(connection: sqlite3.Connection) -> None:
    """Make the file one of this version, with the tables that earlier ones lack."""
    connection.execute(SCORES)
    connection.execute(ANSWERS)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _read_names(connection: sqlite3.Connection) -> frozenset[str]:
    rows = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    return frozenset(name if kind in ("table", "index") else f"{kind} {name}" for kind, name in rows)


def _check(connection: sqlite3.Connection, path: Path, names: frozenset[str]) -> int:
    """Check that the file is a store that this version can read, and has nothing in it that acts by itself.

    Returns:
        The version of the store.

    Raises:
        UnusableStoreError: says what it is instead.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == APPLICATION_ID and version > VERSION:
        raise UnusableStoreError(
            f"The run store {path} is of a newer version of ensemble-notebook. It is left alone; use that version, or "
            f"name another file in config.store."
        )
    if application_id != APPLICATION_ID or version < 1 or names - _LATER_NAMES != _NAMES:
        raise UnusableStoreError(
            f"The file {path} is a database, but no run store. It is left alone; name another file in config.store."
        )
    return int(version)


# --- What can be wrong with the file, in words; and a broken one put aside --------------------------------------------


NOT_REMEMBERED: Final = "This run is not remembered from here on."


def is_damage(error: BaseException) -> bool:
    """Whether the file is a broken store, which another may replace."""
    if isinstance(error, UnusableStoreError):
        return error.is_damaged
    return isinstance(error, sqlite3.Error) and get_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def describe_fault(error: BaseException, path: Path) -> str:
    """What is wrong, with the name of the file."""
    if isinstance(error, UnusableStoreError):
        return str(error)
    what = f"The run store {path}"
    match get_code(error) if isinstance(error, sqlite3.Error) else None:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"{what} is locked by another program for more than {LOCK_LIMIT_S:g} s."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return f"{what} is read-only."
        case sqlite3.SQLITE_CANTOPEN:
            return f"{what} can't be opened; see the permissions of the file and of its folder."
        case sqlite3.SQLITE_FULL:
            return f"{what} can't grow: the disk is full."
    return f"{what} can't be used: {getattr(error, 'strerror', None) or error}."


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
