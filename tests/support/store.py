"""What tests of the run store share."""

import sqlite3
import threading
from contextlib import closing

from ensemble_notebook.trace.store.run_store import RunStore


def wait_for_store() -> None:
    """Until the thread that writes has closed the file."""
    for thread in threading.enumerate():
        if thread.name == "ensemble-store":
            thread.join(20)


def copy_runs(count: int) -> None:
    """Have the store remember its first run so many times more, under other ids, without events."""
    with closing(sqlite3.connect(RunStore.open().path)) as connection, connection:
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(runs)") if name != "number"]
        first = connection.execute(f"SELECT {', '.join(columns)} FROM runs ORDER BY number").fetchone()
        row = dict(zip(columns, first, strict=True))
        rows = []
        for number in range(count):
            run_id = f"{number:012x}"
            rows.append([*(row | {"run_id": run_id, "facts": row["facts"].replace(row["run_id"], run_id)}).values()])
        connection.executemany(
            f"INSERT INTO runs ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", rows
        )
