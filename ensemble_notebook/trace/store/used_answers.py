"""The answers to calls of tools that waited, each noted before anything is done for it: it counts once (E124)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ensemble_notebook.errors import StoreError, summarize_error
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.codec.records import read_value
from ensemble_notebook.trace.store.store_file import bring_up, transaction

_QUERY: Final = "SELECT call_id, data FROM answers WHERE call_id IN (SELECT value FROM json_each(?))"
_FORGET: Final = """DELETE FROM answers WHERE asked_in NOT IN (SELECT run_id FROM runs)
    AND used_in NOT IN (SELECT run_id FROM runs)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedAnswer:
    """An answer that was used.

    Attributes:
        used_in: the run that used it.
        at: when, in UTC.
        by: who gave it; None where nobody said.
        decision: ``"approve"``, ``"edit"`` or ``"reject"``.
    """

    used_in: str
    at: datetime
    by: str | None
    decision: str

    def __str__(self) -> str:
        """What was said, by whom and when."""
        return f"{self.decision!r} by {self.by or 'somebody'} at {self.at:%Y-%m-%d %H:%M:%S} UTC, in run {self.used_in}"


def read_answers(connection: sqlite3.Connection, call_ids: Collection[str]) -> dict[str, UsedAnswer]:
    """The answers that were used of these calls, by their ids.

    Raises:
        StoreError: one of them is damaged.
    """
    try:
        rows = connection.execute(_QUERY, (json.dumps([*call_ids]),)).fetchall()
    except sqlite3.OperationalError:  # a file of an earlier version has no such table
        return {}
    try:
        return {call_id: read_value(json.loads(data), UsedAnswer) for call_id, data in rows}
    except (KeyError, TypeError, ValueError) as error:
        message = f"An answer to a call of a tool can't be read from the store: {summarize_error(error)}"
        raise StoreError(message) from error


def use_answer(connection: sqlite3.Connection, call_id: str, asked_in: str, answer: UsedAnswer) -> UsedAnswer | None:
    """Note an answer before it is used; gives the one that was used before, which is then left as it is."""
    values = (call_id, asked_in, answer.used_in, json.dumps(to_plain(answer)))
    with transaction(connection):  # one process at a time
        bring_up(connection)
        earlier = read_answers(connection, [call_id]).get(call_id)
        if earlier is None:
            connection.execute("INSERT INTO answers (call_id, asked_in, used_in, data) VALUES (?, ?, ?, ?)", values)
    return earlier


def forget_answers(connection: sqlite3.Connection) -> None:
    """Forget those of which no run is there any more."""
    try:
        connection.execute(_FORGET)
    except sqlite3.OperationalError:  # a file of an earlier version has no such table
        return
