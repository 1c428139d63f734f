"""Looks results up in the store, one after the other over one connection: to open the file takes longer than to look.

Not the room of what results mean: `store_reader` reads them, and who asks knows why one serves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.store.faults import describe_fault
from ensemble_notebook.trace.store.run_facts import RunFacts, StoredResult
from ensemble_notebook.trace.store.schema import open_file
from ensemble_notebook.trace.store.store_reader import read_last_facts, read_last_result, read_result

T = TypeVar("T")


class ResultReader:
    """The results in one file, which is opened when the first is asked for. The caller closes.

    Args:
        path: of the file, which may not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def find(self, key: str, path: str = "") -> StoredResult | None:
        """The newest result of this key, of whatever run or kernel, that can serve again; that of this path first.

        Raises:
            StoreError: the store can't be read.
        """
        return self._read(lambda connection: read_result(connection, key, path))

    def find_last(self, name: str | None, path: str) -> StoredResult | None:
        """The result of the task at this path when it was last done in an ensemble of this name, able to serve or not.

        Raises:
            StoreError: the store can't be read.
        """
        return self._read(lambda connection: read_last_result(connection, name, path))

    def find_last_run(self, name: str | None, but: str) -> RunFacts | None:
        """What is known of the last run of an ensemble of this name, but for this one.

        Raises:
            StoreError: the store can't be read.
        """
        return self._read(lambda connection: read_last_facts(connection, name, but))

    def close(self) -> None:
        """Let go of the file; another question opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, read: Callable[[sqlite3.Connection], T | None]) -> T | None:
        try:
            if self._connection is None:
                if not self._path.exists():
                    return None
                self._connection = open_file(self._path, is_new_allowed=False)
            return read(self._connection)
        except StoreError:
            raise
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StoreError(describe_fault(error, self._path)) from error
