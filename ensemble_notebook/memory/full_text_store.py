"""Entries in a SQLite database with a full-text index: kept, ranked by their words, and let go.

Knows tables and queries; where the database is, and what may go wrong there, is known to the stores.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import EnsembleError, summarize_error
from ensemble_notebook.memory.retention import Retention
from ensemble_notebook.memory.words import split_words

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


class FullTextStore(ABC):
    """What both of our own stores do. Thread-safe; secrets are masked before they are kept (T7)."""

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
        text = mask(_replace_surrogates(entry.text))
        metadata = json.dumps({name: mask(value) for name, value in entry.metadata.items()})
        with self._open() as connection, transaction(connection):
            row = (_replace_surrogates(scope), text, _to_utc_text(entry.created_at or datetime.now(UTC)), metadata)
            (number,) = connection.execute(_INSERT_ENTRY, row).fetchone()
            connection.execute(
                "INSERT INTO memory_word (rowid, words) VALUES (?, ?)", (number, " ".join(split_words(text)))
            )
            self._evict(connection, _replace_surrogates(scope))

    def _evict(self, connection: sqlite3.Connection, scope: str) -> None:
        connection.execute(
            "DELETE FROM memory_entry WHERE scope = ? AND created_at < ?", (scope, self._find_oldest_allowed())
        )
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
        EnsembleError: somebody has edited the file, and it is none (E71).
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
