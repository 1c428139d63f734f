"""Instants and durations as the JSON of a trace has them (T11): ISO 8601, in UTC with ``Z``; hours, never days.

Durations are read by pydantic, see `record_reader`. Written here, because pydantic writes days; instants are read here,
because the standard library does it but for digits beyond microseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_MICROSECOND: Final = timedelta(microseconds=1)


def format_instant(moment: datetime) -> str:
    """``2026-01-02T03:04:05.678Z``, in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """The moment that a text names; digits beyond microseconds are cut.

    Raises:
        ValueError: it is none.
    """
    shortened = re.sub(r"(\.\d{6})\d+", r"\1", text)
    moment = datetime.fromisoformat(shortened)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return moment.astimezone(UTC)


def format_duration(duration: timedelta) -> str:
    """``PT1H2M3.4S``: hours as many as it takes, parts that are zero left out; ``PT0S`` for nothing."""
    microseconds = duration // _MICROSECOND
    sign, microseconds = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    minutes, microseconds = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if seconds or fraction or not text:
        text += f"{seconds}.{fraction:06}".rstrip("0").rstrip(".") + "S"
    return f"{sign}PT{text}"
