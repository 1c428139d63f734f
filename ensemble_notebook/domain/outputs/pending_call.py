"""A call of a tool that waits until somebody allows or declines it, as data for a page, a queue or another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ensemble_notebook.domain.outputs.secrets import Record


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PendingCall(Record):
    """A call of a tool that was not made, since nobody has answered yet whether it may be.

    Attributes:
        id: by which ``run(resume=..., answers={id: ...})`` answers it. It stays the same while the call waits, however
            often the run is resumed.
        task: name of the task, or of its item, that asks for the call.
        tool: name of the tool.
        arguments: that the tool would be given, by name; secrets are masked in them.
        since: when it was asked about first, in UTC.
        agent: role of the agent that asks for it.
        row: name of the row that it is in, in a map; None elsewhere.
        is_unknown: whether it was begun once before, and nobody knows whether it was done.
    """

    id: str
    task: str | None
    tool: str
    arguments: Mapping[str, Any]
    since: datetime
    agent: str = ""
    row: str | None = None
    is_unknown: bool = False
