"""The one statement that writes what a batch has of a run.

At each call of SQLite the threads of the interpreter take turns, which costs more than the call itself. So a batch is
one row for a view, and a trigger takes it apart. Both are the connection's: the file holds nothing that acts by itself.
"""

from __future__ import annotations

import sqlite3
from typing import Final

ADD_BATCH: Final = (
    "INSERT INTO batch (run_id, seq, events, exchanges, results, pieces) "
    "VALUES (:run_id, :seq, :events, :exchanges, :results, :pieces)"
)
"""Of one run: a piece of events and the number of the first, a piece of exchanges, None for none, and results.

Those are a JSON array, ``[path, key, parts, start, length]`` for each; the last two say where its piece is among all
the `pieces`, in bytes from 1.
"""

_VIEW: Final = """
CREATE TEMP VIEW batch AS
SELECT NULL AS run_id, NULL AS seq, NULL AS events, NULL AS exchanges, NULL AS results, NULL AS pieces
"""
_TRIGGER: Final = """
CREATE TEMP TRIGGER take_batch_apart INSTEAD OF INSERT ON batch BEGIN
    INSERT INTO events (run_id, seq, data)
    SELECT NEW.run_id, NEW.seq, NEW.events WHERE NEW.events IS NOT NULL;
    INSERT INTO exchanges (run_id, number, data)
    SELECT NEW.run_id, (SELECT coalesce(max(number) + 1, 0) FROM exchanges WHERE run_id = NEW.run_id), NEW.exchanges
    WHERE NEW.exchanges IS NOT NULL;
    INSERT INTO results (run_id, path, key, parts, data)
    SELECT NEW.run_id, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        substr(NEW.pieces, json_extract(value, '$[3]'), json_extract(value, '$[4]'))
    FROM json_each(NEW.results);
END
"""


_PRAGMAS: Final = (
    "PRAGMA temp_store = MEMORY",
    # The index of keys is written all over, batch by batch: each of its pages goes to its place once for many batches.
    "PRAGMA wal_autocheckpoint = 4000",  # pages, 16 MB
    "PRAGMA cache_size = -8000",  # kB
)


def take_batches(connection: sqlite3.Connection) -> None:
    """Make a connection to the store ready for `ADD_BATCH`."""
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    connection.execute(_VIEW)
    connection.execute(_TRIGGER)
