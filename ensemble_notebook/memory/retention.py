"""How long entries are kept, in each scope: by count, by age, or for ever (E44)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ensemble_notebook.domain.definitions.definition import is_seconds
from ensemble_notebook.errors import ValidationError


@dataclass(frozen=True, slots=True)
class Retention:
    """Which entries of a scope are kept: the newest `max_entries`, none older than `max_age`; None sets no limit."""

    max_entries: int | None = None
    max_age: timedelta | None = None

    @classmethod
    def from_limits(cls, max_entries: Any, max_age: Any) -> Retention:
        """Make one of what a user wrote; an age is in seconds or a `timedelta`.

        Raises:
            ValidationError: a limit is none.
        """
        is_count = isinstance(max_entries, int) and not isinstance(max_entries, bool) and max_entries >= 1
        if max_entries is not None and not is_count:
            raise ValidationError(f"max_entries must be a whole number >= 1 or None, got {max_entries!r}.")
        if max_age is None:
            return cls(max_entries)
        seconds = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
        if not is_seconds(seconds):
            raise ValidationError(f"max_age must be seconds > 0, a timedelta or None, got {max_age!r}.")
        return cls(max_entries, timedelta(seconds=seconds))

    def find_oldest_allowed(self) -> datetime | None:
        """Find when an entry must have been made to be still kept now; None where age does not count."""
        return None if self.max_age is None else datetime.now(UTC) - self.max_age
