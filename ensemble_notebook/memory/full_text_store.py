"""Memory in a SQLite database with a full-text index: entries are kept, ranked by their words, and let go (E44).

`FullTextStore` knows tables and queries; where the database is, in the process or in a file that lasts across runs, and
what may go wrong there, is known to the two stores.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import unicodedata
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.definitions.definition import is_seconds
from ensemble_notebook.domain.definitions.memory import MemoryEntry, MemoryKind
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.private_files import make_private_database
from ensemble_notebook.errors import EnsembleError, SuggestsNames, ValidationError, summarize_error

# The words are split by us before they are indexed: SQLite takes a sentence of a script without spaces for one word. So
# the index is a table of its own, and not one over `text`; the trigger keeps the two together.
_CREATE_SCHEMA: Final = (
    """CREATE TABLE memory_entry (
        id INTEGER PRIMARY KEY, scope TEXT NOT NULL, text TEXT NOT NULL, created_at TEXT NOT NULL,
        metadata TEXT NOT NULL)""",
    "CREATE INDEX memory_entry_by_age ON memory_entry (scope, created_at, id)",
    "CREATE VIRTUAL TABLE memory_word USING fts5 (words, tokenize = 'porter unicode61 remove_diacritics 2')",
    """CREATE TRIGGER memory_entry_gone AFTER DELETE ON memory_entry BEGIN
        DELETE FROM memory_word WHERE rowid = old.id;
    END""",
)
_FIND_SCHEMA: Final = "SELECT 1 FROM sqlite_master WHERE name = 'memory_entry_gone'"
_COLUMNS: Final = "memory_entry.text, memory_entry.created_at, memory_entry.metadata"
_INSERT_ENTRY: Final = "INSERT INTO memory_entry (scope, text, created_at, metadata) VALUES (?, ?, ?, ?) RETURNING id"
_SELECT_MATCHING: Final = f"""SELECT {_COLUMNS}
    FROM memory_word JOIN memory_entry ON memory_entry.id = memory_word.rowid
    WHERE memory_word MATCH ? AND scope = ? AND created_at >= ?
    ORDER BY memory_word.rank, created_at DESC, id DESC LIMIT ?"""
_SELECT_NEWEST: Final = f"""SELECT {_COLUMNS} FROM memory_entry WHERE scope = ? AND created_at >= ?
    ORDER BY created_at DESC, id DESC LIMIT ?"""
_DELETE_SURPLUS: Final = """DELETE FROM memory_entry WHERE id IN (
    SELECT id FROM memory_entry WHERE scope = ? ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)"""
# A longer query says no more, and takes its time.
_MAX_QUERY_WORDS: Final = 200


class FullTextStore(SuggestsNames, ABC):
    """What both of our own stores do. Thread-safe; secrets are masked before they are kept."""

    def __init__(self, max_entries: int | None, max_age: float | timedelta | None) -> None:
        self._retention = Retention.from_limits(max_entries, max_age)

    @property
    def retention(self) -> Retention:
        """How long entries are kept."""
        return self._retention

    @abstractmethod
    def _open(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a connection for one operation of this thread, in autocommit mode, with the tables in place."""

    def store(self, scope: str, entry: MemoryEntry, /) -> None:
        """Keep an entry; those that are too many or too old by now are let go."""
        scope, text = _replace_surrogates(scope), mask(_replace_surrogates(entry.text))
        metadata = json.dumps({name: mask(value) for name, value in entry.metadata.items()})
        with self._open() as connection, transaction(connection):
            row = (scope, text, _to_utc_text(entry.created_at or datetime.now(UTC)), metadata)
            (number,) = connection.execute(_INSERT_ENTRY, row).fetchone()
            connection.execute(
                "INSERT INTO memory_word (rowid, words) VALUES (?, ?)", (number, " ".join(split_words(text)))
            )
            outdated = (scope, self._find_oldest_allowed())
            connection.execute("DELETE FROM memory_entry WHERE scope = ? AND created_at < ?", outdated)
            if self._retention.max_entries is not None:
                connection.execute(_DELETE_SURPLUS, (scope, self._retention.max_entries))

    def retrieve(self, scope: str, query: str, limit: int, /) -> list[MemoryEntry]:
        """Find at most `limit` entries of the scope, best first.

        The best have the rarest words of the query, most often; the newer of two equals comes first. Where no entry
        has any word of the query, the newest are taken: a memory is not silent because a question is worded otherwise.
        """
        scope, limit = _replace_surrogates(scope), max(0, limit)
        asked = list(dict.fromkeys(split_words(query)))[:_MAX_QUERY_WORDS]
        oldest = self._find_oldest_allowed()
        with self._open() as connection:
            rows: list[Any] = []
            if asked:
                match = " OR ".join(f'"{word}"' for word in asked)
                rows = connection.execute(_SELECT_MATCHING, (match, scope, oldest, limit)).fetchall()
            rows = rows or connection.execute(_SELECT_NEWEST, (scope, oldest, limit)).fetchall()
        return [_make_entry(*row) for row in rows]

    def scopes(self) -> dict[str, int]:
        """Count the entries of each scope, by its name, in the order of names."""
        count = "SELECT scope, COUNT(*) FROM memory_entry WHERE created_at >= ? GROUP BY scope ORDER BY scope"
        with self._open() as connection:
            return dict(connection.execute(count, (self._find_oldest_allowed(),)).fetchall())

    def forget(self, scope: str) -> None:
        """Let go of all entries of a scope."""
        with self._open() as connection, transaction(connection):
            connection.execute("DELETE FROM memory_entry WHERE scope = ?", (_replace_surrogates(scope),))

    def _find_oldest_allowed(self) -> str:
        oldest = self._retention.find_oldest_allowed()
        return "" if oldest is None else _to_utc_text(oldest)


def create_tables(connection: sqlite3.Connection) -> None:
    """Put the tables in place where they are not; several processes may do so at once."""
    if connection.execute(_FIND_SCHEMA).fetchone() is None:
        with transaction(connection):
            if connection.execute(_FIND_SCHEMA).fetchone() is None:
                for statement in _CREATE_SCHEMA:
                    connection.execute(statement)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all of what is inside, or nothing.

    Asks for the right to write at once, so that it waits for others rather than fails midway.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _make_entry(text: Any, moment: Any, metadata: Any) -> MemoryEntry:
    """Make an entry of a row.

    Raises:
        EnsembleError: somebody has edited the file, and it is none.
    """
    try:
        created_at, facts = datetime.fromisoformat(moment), json.loads(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnsembleError(f"The memory holds an entry that can't be read: {summarize_error(error)}") from error
    if not (
        isinstance(text, str) and isinstance(facts, dict) and all(isinstance(each, str) for each in facts.values())
    ):
        raise EnsembleError("The memory holds an entry that can't be read: its text or what is known of it is no text")
    return MemoryEntry(text=text, created_at=created_at.astimezone(UTC), metadata=facts)


def _to_utc_text(when: datetime) -> str:
    """Write a time in UTC, of one length, so that texts are in the order of time.

    A time without a zone is taken for UTC.
    """
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def _replace_surrogates(text: str) -> str:
    """Replace halves of characters, which no database takes."""
    return text.encode(errors="replace").decode()


@dataclass(frozen=True, slots=True)
class Retention:
    """Which entries of a scope are kept: the newest `max_entries`, none older than `max_age`; None sets no limit."""

    max_entries: int | None = None
    max_age: timedelta | None = None

    @classmethod
    def from_limits(cls, max_entries: Any, max_age: Any) -> Retention:
        """Make one of what a user wrote; an age is in seconds or a `timedelta`.

        Raises:
            ValidationError: a limit is none.
        """
        is_count = isinstance(max_entries, int) and not isinstance(max_entries, bool) and max_entries >= 1
        if max_entries is not None and not is_count:
            raise ValidationError(f"max_entries must be a whole number >= 1 or None, got {max_entries!r}.")
        if max_age is None:
            return cls(max_entries)
        seconds = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
        if not is_seconds(seconds):
            raise ValidationError(f"max_age must be seconds > 0, a timedelta or None, got {max_age!r}.")
        return cls(max_entries, timedelta(seconds=seconds))

    def find_oldest_allowed(self) -> datetime | None:
        """Find when an entry must have been made to be still kept now; None where age does not count."""
        return None if self.max_age is None else datetime.now(UTC) - self.max_age


# Scripts without spaces between words: each sign is a word.
_SIGN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_SIGN}]|[^\W_{_SIGN}]+")


def split_words(text: str) -> list[str]:
    """Split a text into its words in order, in lower case; none for punctuation and emoji."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


# Why not a list: what is found, and in which order, has to be the same as in a file, so it is SQLite here too.


class InMemoryStore(FullTextStore):
    """A memory in this process that lives as long as the object. Thread-safe. A pickled copy is independent.

    Args:
        max_entries: the most entries per scope; the oldest are dropped first. None: no limit.
        max_age: seconds or a `timedelta` after which an entry is dropped; None: never.

    Raises:
        ValidationError: a limit is not a number above 0.
    """

    def __init__(self, *, max_entries: int | None = None, max_age: float | timedelta | None = None) -> None:
        super().__init__(max_entries, max_age)
        self._connect()
        create_tables(self._connection)

    def _connect(self) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._connection.close)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._connection

    def get_kind(self, _scope: str, /) -> MemoryKind:
        """Say that it lasts no longer than the process."""
        return "short_term"

    def __getstate__(self) -> tuple[Retention, bytes]:
        """Pickle the limits and the entries."""
        with self._open() as connection:
            return self._retention, connection.serialize()

    def __setstate__(self, state: tuple[Any, bytes]) -> None:
        """Make a store of its own with the same entries."""
        self._retention, content = state
        self._connect()
        self._connection.deserialize(content)

    def __repr__(self) -> str:
        """Say its kind and scopes."""
        return f"<InMemoryStore {self.scopes()}>"


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
        given: Any = path
        if not isinstance(given, str | os.PathLike) or os.fspath(given) in ("", ":memory:"):
            raise ValidationError(f"SqliteMemory takes the path of a file, got {path!r}. InMemoryStore() needs none.")
        self._path = file = read_path(path, "path").absolute()
        if file.is_dir():
            raise ValidationError(f"The memory {file} is a folder. Name a file in it, such as {file / 'memory.db'}.")
        if not file.parent.is_dir():
            raise ValidationError(f"The memory {file} has no place: there is no folder {file.parent}. Make it first.")
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
                if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                    # Readers then don't wait for a writer. It is not to be had on every disk, nor while another process
                    # does the same; neither matters.
                    with suppress(sqlite3.OperationalError):
                        connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                create_tables(connection)
                yield connection
        except sqlite3.Error as error:
            raise EnsembleError(f"The memory {self._path} {_describe_error(error)}") from error

    def __repr__(self) -> str:
        """Say its file."""
        return f"SqliteMemory({str(self._path)!r})"


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
