"""The startups that runs inside a run wait for: one that several of them wait for is told once in it (E57)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STARTUP: Final = "startup"  # the cause of such a wait


@dataclass(frozen=True, slots=True)
class OpenStartup:
    """A startup that goes on.

    Attributes:
        span_id: of the first that waited for it, by which it is told.
        began_s: when that one began to wait, in seconds of the run around.
        waiting: the spans of all that wait for it still.
    """

    span_id: str
    began_s: float
    waiting: set[str]


class OpenStartups:
    """Those that go on inside one run, by what is made ready. Belongs to the loop of that run."""

    def __init__(self) -> None:
        self._by_subject: dict[str, OpenStartup] = {}

    def join(self, span_id: str, subject: str, offset_s: float) -> bool:
        """A span waits for `subject` from now on.

        Returns:
            Whether it is the first, and so to be told.
        """
        subject = subject or span_id  # what has no name is nothing that others wait for, too
        if subject in self._by_subject:
            self._by_subject[subject].waiting.add(span_id)
            return False
        self._by_subject[subject] = OpenStartup(span_id, offset_s, {span_id})
        return True

    def leave(self, span_id: str) -> OpenStartup | None:
        """A span does not wait any more.

        Returns:
            The startup that is over with it, which is to be told; None while others wait for the same.
        """
        subject, startup = next(each for each in self._by_subject.items() if span_id in each[1].waiting)
        startup.waiting.discard(span_id)
        return None if startup.waiting else self._by_subject.pop(subject)
