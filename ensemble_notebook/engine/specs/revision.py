"""What an attempt at a task is to do better than the ones before it (E46)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

NO_REASON: Final = "Do it again, and better. No reason was given."


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Where a task stands that is not at its first attempt.

    Attributes:
        attempt: number of the present attempt, from 1.
        feedback: what reviews and guardrails wanted to be different so far, oldest first; empty where the task is done
            again only because something that it reads has changed, or because its handler failed.
        previous: what the task itself produced last; None where it has produced nothing.
    """

    attempt: int = 1
    feedback: tuple[str, ...] = ()
    previous: str | None = None

    def follow(self, feedback: str | None = None, previous: str | None = None) -> Revision:
        """The revision of the next attempt.

        Args:
            feedback: what it is to do better; None where nobody said anything about this task.
            previous: what the present attempt has produced; None where nothing.
        """
        kept = self.previous if previous is None else previous
        return replace(self.add(feedback), attempt=self.attempt + 1, previous=kept)

    def add(self, feedback: str | None) -> Revision:
        """The same attempt, which has not begun, with more feedback; None is nothing."""
        said = () if feedback is None else (feedback.strip() or NO_REASON,)
        return replace(self, feedback=(*self.feedback, *said))


FIRST_ATTEMPT: Final = Revision()
