"""Texts that differ between two runs: prompts, outputs, definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Self

from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.trace.comparison.word_diff import Piece, diff_words, mark_words, shorten_same

LONGEST_ALONE: Final = 2_000
"""How many characters are shown of a text that only one of the runs has."""


@dataclass(frozen=True)
class TextChange:
    """A text that differs between two runs.

    Attributes:
        where: what it is, such as ``task draft`` or ``research/facts, user prompt``.
        before: the whole text in the first run, secrets masked; None if that run has no such text.
        after: likewise, in the second run.
    """

    where: str
    before: str | None
    after: str | None

    @property
    def status(self) -> Literal["changed", "added", "removed"]:
        """Whether the text is in both runs, only in the second (added), or only in the first (removed)."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @cached_property
    def pieces(self) -> list[Piece]:
        """The unchanged, removed and added pieces, in order. Long unchanged pieces are shortened."""
        if self.before is None or self.after is None:
            text = self.after if self.before is None else self.before
            shown = (text or "")[:LONGEST_ALONE] + ("[…]" if len(text or "") > LONGEST_ALONE else "")
            return [Piece("added" if self.before is None else "removed", shown)]
        return shorten_same(diff_words(self.before, self.after))

    def __str__(self) -> str:
        """Where it is, and below it the text with its changes marked."""
        said = "" if self.status == "changed" else f" ({self.status})"
        lines = mark_words(self.pieces).rstrip().splitlines()
        return "\n".join([f"{self.where}{said}:", *(f"  {line}".rstrip() for line in lines)])


class TextChanges(str):
    """All changed texts as one readable text; empty if nothing changed.

    Removed words are in ``[-...-]``, added words in ``{+...+}``. A notebook shows them in colour.

    Attributes:
        changes: one for each text that differs, with both texts in full.
    """

    __slots__ = ("changes",)

    changes: tuple[TextChange, ...]

    def __new__(cls, changes: Iterable[TextChange] = ()) -> Self:
        """The text of these changes, in order."""
        given = tuple(changes)
        made = super().__new__(cls, "\n\n".join(map(str, given)))
        made.changes = given
        return made

    @classmethod
    def between(cls, before: Mapping[str, str], after: Mapping[str, str]) -> Self:
        """The changes between texts of the same names, in the order of the second, then of the first."""
        names = dict.fromkeys([*after, *before])
        pairs = ((name, before.get(name), after.get(name)) for name in names)
        return cls(TextChange(name, first, second) for name, first, second in pairs if first != second)

    def __getnewargs__(self) -> tuple[Any, ...]:
        """For pickles."""
        return (self.changes,)

    def __repr__(self) -> str:
        """The text itself, which a cell shows as it is."""
        return str(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("text_changes", self)
