"""What the store forgets, and when (T32). A run that goes on, in whatever process, is never forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ensemble_notebook.domain.config import config
from ensemble_notebook.trace.codec.iso_time import format_instant
from ensemble_notebook.trace.store.owner import is_alive
from ensemble_notebook.trace.store.schema import transaction

INTERVAL_S: Final = 3600.0
"""How long a process waits until it looks again whether there is something to forget."""

_STEP: Final = 20


def trim(connection: sqlite3.Connection) -> None:
    """Forget runs that are older than ``config.store_max_days``, then the oldest, until ``config.store_max_mb`` do."""
    if config.store_max_days is not None:
        oldest = format_instant(datetime.now(UTC) - timedelta(days=config.store_max_days))
        forget(connection, [run_id for run_id, started_at in _list_over(connection) if started_at < oldest])
    if config.store_max_mb is not None:
        over = [run_id for run_id, _ in _list_over(connection)]
        while over and _measure_bytes(connection) > config.store_max_mb * 1e6:
            forget(connection, over[:_STEP])
            del over[:_STEP]


def list_over(connection: sqlite3.Connection) -> list[str]:
    """The runs that are over, the oldest first."""
    return [run_id for run_id, _ in _list_over(connection)]


def forget(connection: sqlite3.Connection, run_ids: Sequence[str]) -> int:
    """Forget these runs with all that belongs to them, and give the room back; says how many there were."""
    if not run_ids:
        return 0
    with transaction(connection):
        cursor = connection.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in run_ids])
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return cursor.rowcount


def _list_over(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT run_id, started_at, status, owner, seen_at FROM runs ORDER BY number").fetchall()
    return [
        (run_id, started_at)
        for run_id, started_at, status, owner, seen_at in rows
        if status != "running" or not is_alive(owner, seen_at)
    ]


def _measure_bytes(connection: sqlite3.Connection) -> int:
    """The size of what is in the file, without room that was given up."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)
