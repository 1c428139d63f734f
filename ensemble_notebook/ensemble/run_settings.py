"""What one run is told beside its inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ensemble_notebook.domain.definitions.definition import is_seconds
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.errors import ValidationError

PathLike = str | os.PathLike[str]
Inputs = Mapping[str, Any] | None
ReplayTools = Literal["live"] | None
Pace = Literal["recorded"] | None

_CHOICES: Final = {"replay_tools": "live", "pace": "recorded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one run.

    Attributes:
        timeout: seconds; past them the run stops and raises. None for no limit.
        record: file that every model exchange is written to (E42).
        replay: file that every model exchange is answered from, instead of any model.
        replay_tools: ``"live"`` where a replay calls tools, whose recorded answers it gives else.
        pace: ``"recorded"`` where a replay takes the time that it took.
        listeners: of this one run, beside the ensemble's own.
        review_handler: asked where the ensemble has none of its own.
        streams: whether replies are streamed in any case.

    Raises:
        ValidationError: no duration, no path, or no such choice.
    """

    timeout: float | None = None
    record: PathLike | None = None
    replay: PathLike | None = None
    replay_tools: ReplayTools = None
    pace: Pace = None
    listeners: Sequence[Listener] = ()
    review_handler: ReviewHandler | None = None
    streams: bool = False

    def __post_init__(self) -> None:
        """Check what a person may have got wrong."""
        if self.timeout is not None and not is_seconds(self.timeout):
            raise ValidationError(f"timeout must be seconds > 0 or None, got {self.timeout!r}.")
        for name in ("record", "replay"):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, str | os.PathLike):
                raise ValidationError(
                    f"{name} must be the path of a file, got {value!r}. "
                    f"A template variable of that name goes through inputs: run({{{name!r}: ...}})."
                )
        if self.record is not None and self.replay is not None:
            raise ValidationError("A run records or replays, not both: leave out record or replay.")
        for name, choice in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value != choice:
                raise ValidationError(
                    f"{name} must be {choice!r} or None, got {value!r}. "
                    f"A template variable of that name goes through inputs: run({{{name!r}: ...}})."
                )
            if value is not None and self.replay is None:
                raise ValidationError(f"{name} is about a replay: name a recording with replay=FILE, too.")
