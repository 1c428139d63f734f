"""The seam between the gates of calls and what notes the answers to calls that waited (E124)."""

from __future__ import annotations

from typing import Protocol

from ensemble_notebook.domain.definitions.review import ReviewAnswer


class CallAnswers(Protocol):
    """What is known of the answers to the calls that an earlier run has left pending. Thread-safe."""

    def find(self, call_id: str) -> ReviewAnswer | None:
        """The answer that was given to a call with this run; None where none was."""

    def is_used(self, call_id: str) -> bool:
        """Whether an answer to this call was used before: whether it was made is not known then."""

    def use(self, call_id: str, answer: ReviewAnswer) -> None:
        """Note that an answer is used, before anything is done for it. May wait for a disk.

        Raises:
            ValidationError: another one was used before; says by whom it was given, and when.
        """
