"""Memory that lasts as long as the process (E44).

Why not a list: what is found, and in which order, has to be the same as in a file, so it is SQLite here too.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ensemble_notebook.domain.definitions.memory import MemoryKind
from ensemble_notebook.memory.full_text_store import FullTextStore, create_tables
from ensemble_notebook.memory.retention import Retention


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
        """Say that it lasts no longer than the process (T11)."""
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
