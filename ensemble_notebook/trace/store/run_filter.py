"""Which of many runs are wanted (T93): by name, time and status, before any of them is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.errors import ValidationError, did_you_mean

Moment = datetime | date | timedelta | str
"""A time; of a timedelta, or of a text such as ``"2 days"``, the time so long ago."""

_UNITS: Final = ("second", "minute", "hour", "day", "week")
_AGO: Final = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})s?(?:\s+ago)?\s*", re.IGNORECASE)


_NEAR: Final = timedelta(minutes=1)
"""The store notes the start of a run a little earlier than the run does, which is what its frames say."""


class RunLine(NamedTuple):
    """What is known of a run before it is read."""

    name: str | None
    started_at: datetime
    status: RunStatus


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted.

    Attributes:
        names: that they may have; None: any, or none.
        since: only those that began then or later.
        until: only those that began before.
        statuses: that they may have; None: any.
        last: only so many, those that began last; None: all.
    """

    names: Collection[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    statuses: Collection[RunStatus] | None = None
    last: int | None = None

    @classmethod
    def read(
        cls,
        name: str | Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        status: RunStatus | str | Sequence[RunStatus | str] | None = None,
        last: int | None = None,
    ) -> RunFilter:
        """Read the arguments of whoever asks for runs.

        Raises:
            ValidationError: one of them is none of its kind.
        """
        known = [each.value for each in RunStatus]
        statuses = None if status is None else _list(status, "status")
        if wrong := next((each for each in statuses or () if each not in known), None):
            raise ValidationError(f"status can't be {wrong!r}.{did_you_mean(str(wrong), known)}")
        count: Any = last
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise ValidationError(f"last is how many runs, 1 or more, got {last!r}.")
        first, end = _read_moment("since", since), _read_moment("until", until)
        if first is not None and end is not None and first >= end:
            raise ValidationError(f"No run began since {first:%Y-%m-%d %H:%M} and before {end:%Y-%m-%d %H:%M} UTC.")
        return cls(
            names=None if name is None else _list(name, "name"),
            since=first,
            until=end,
            statuses=None if statuses is None else [RunStatus(each) for each in statuses],
            last=last,
        )

    def is_near(self, moment: datetime) -> bool:
        """Whether it is so near to a bound that it has to be known exactly."""
        return any(each is not None and abs(each - moment) < _NEAR for each in (self.since, self.until))

    def choose(self, runs: Mapping[str, RunLine]) -> list[str]:
        """The ids of the runs that are wanted, in their order.

        Raises:
            ValidationError: no run is called as one of the names; names the nearest.
        """
        known = {each.name for each in runs.values() if each.name is not None}
        for each in self.names or () if runs else ():
            if each not in known:
                raise ValidationError(f"No run is called {each!r}.{did_you_mean(each, known)}")
        chosen = [run_id for run_id, line in runs.items() if self._is_wanted(line)]
        if self.last is None or len(chosen) <= self.last:
            return chosen
        newest = set(sorted(chosen, key=lambda run_id: runs[run_id].started_at)[-self.last :])
        return [run_id for run_id in chosen if run_id in newest]

    def _is_wanted(self, run: RunLine) -> bool:
        return (
            (self.names is None or run.name in self.names)
            and (self.since is None or run.started_at >= self.since)
            and (self.until is None or run.started_at < self.until)
            and (self.statuses is None or run.status in self.statuses)
        )


EVERY_RUN: Final = RunFilter()


def _list(given: Any, name: str) -> list[Any]:
    """One text, or several."""
    listed = [given] if isinstance(given, str) else [*given] if isinstance(given, Iterable) else [given]
    if wrong := [each for each in listed if not isinstance(each, str)]:
        raise ValidationError(f"{name} must be a text or a list of texts, got {wrong[0]!r}.")
    return listed


def _read_moment(name: str, given: Any) -> datetime | None:
    """A time; without a zone it is that of this machine.

    Raises:
        ValidationError: it is none.
    """
    moment: Any = given
    if isinstance(given, str):
        if ago := _AGO.fullmatch(given):
            with suppress(OverflowError):
                moment = timedelta(**{f"{ago[2].lower()}s": float(ago[1])})
        else:
            with suppress(ValueError):
                moment = datetime.fromisoformat(given.strip())
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - midnight here
    with suppress(OverflowError, ValueError, OSError):  # before the year 1, or so
        if isinstance(moment, timedelta):
            return datetime.now(UTC) - moment
        if moment is None or isinstance(moment, datetime):
            return None if moment is None else moment.astimezone(UTC)
    raise ValidationError(
        f"{name} must be a time, a date, a timedelta or ISO text as '2026-11-01', or how long ago as '2 days', got "
        f"{given!r}."
    )
