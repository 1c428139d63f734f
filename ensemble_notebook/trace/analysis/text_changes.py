"""Texts that differ between two runs: prompts, outputs, definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, Self

from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text

Mark = Literal["same", "removed", "added"]


class Piece(NamedTuple):
    """A part of two texts: in both, only in the first, or only in the second."""

    mark: Mark
    text: str


MOST_WORDS: Final = 3_000
"""Longer parts without a common line are not matched by words: the time for it grows with the square."""

LEAST_ALIKE: Final = 0.25
"""What has less in common, 0 to 1, is taken as rewritten."""

WORDS_AROUND: Final = 12
"""How many words are shown before and after a change."""

_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")
_GAP: Final = " […] "


def diff_words(before: str, after: str) -> list[Piece]:
    """The pieces, in order. Without the added ones they are the first text, without the removed ones the second.

    Lines are matched first, then the words of lines that differ. A part that was moved or rewritten is shown as removed
    and added as a whole, not word by word.
    """
    first, second = before.splitlines(keepends=True), after.splitlines(keepends=True)
    pieces: list[Piece] = []
    for tag, start, end, other_start, other_end in SequenceMatcher(None, first, second).get_opcodes():
        removed, added = "".join(first[start:end]), "".join(second[other_start:other_end])
        pieces += [Piece("same", removed)] if tag == "equal" else _diff_part(removed, added)
    return _join(pieces)


def shorten_same(pieces: Sequence[Piece], around: int = WORDS_AROUND) -> list[Piece]:
    """The pieces, with at most `around` unchanged words on each side of a change."""
    shown = []
    for place, piece in enumerate(pieces):
        if piece.mark != "same":
            shown.append(piece)
            continue
        words = _WORD.findall(piece.text)
        head = 0 if place == 0 else 2 * around  # a word and the space after it
        tail = 0 if place == len(pieces) - 1 else 2 * around
        if len(words) > head + tail + 2:
            kept = "".join(words[:head]).rstrip(), "".join(words[len(words) - tail :]).lstrip()
            shown.append(Piece("same", _GAP.join(kept).lstrip(" " if not kept[0] else "")))
        else:
            shown.append(piece)
    return shown


def mark_words(pieces: Iterable[Piece]) -> str:
    """The pieces as plain text, in the notation of ``git diff --word-diff``: ``[-removed-]{+added+}``."""
    marks = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
    marked = ""
    for piece in pieces:
        (begin, end), (words, line_ends) = marks.get(piece.mark, ("", "")), split_line_ends(piece.text)
        marked += f"{begin}{words}{end}{line_ends}"
    return marked


def split_line_ends(text: str) -> tuple[str, str]:
    """A text without the line feeds at its end, and those: they stand behind the mark of a change."""
    words = text.rstrip("\n")
    return words, text[len(words) :]


def _diff_part(removed: str, added: str) -> Iterator[Piece]:
    """The pieces of a part that has no line in common."""
    first, second = _WORD.findall(removed), _WORD.findall(added)
    if first and second and max(len(first), len(second)) <= MOST_WORDS:
        matcher = SequenceMatcher(str.isspace, first, second, autojunk=False)
        if matcher.ratio() >= LEAST_ALIKE:
            for tag, start, end, other_start, other_end in matcher.get_opcodes():
                if tag == "equal":
                    yield Piece("same", "".join(first[start:end]))
                else:
                    yield Piece("removed", "".join(first[start:end]))
                    yield Piece("added", "".join(second[other_start:other_end]))
            return
    yield Piece("removed", removed)
    yield Piece("added", added)


def _join(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge neighbouring pieces of a kind, and changes with only a space or a comma between them."""
    given = [piece for piece in pieces if piece.text]
    joined: list[Piece] = []
    removed, added = "", ""
    for place, (mark, text) in enumerate(given):
        between = mark == "same" and 0 < place < len(given) - 1 and (removed or added) and len(text.strip()) <= 1
        if mark != "same":
            removed, added = removed + text * (mark == "removed"), added + text * (mark == "added")
        elif between and "\n" not in text:
            removed, added = removed + text, added + text
        else:
            joined += [*_settle(removed, added), Piece("same", text)]
            removed, added = "", ""
    joined += _settle(removed, added)
    return joined


def _settle(removed: str, added: str) -> list[Piece]:
    """The pieces of one change; white space at the end that did not change is a piece of its own."""
    tail = removed[len(removed.rstrip()) :]
    while not added.endswith(tail):
        tail = tail[1:]
    removed, added = removed.removesuffix(tail), added.removesuffix(tail)
    pieces: tuple[Piece, ...] = (Piece("removed", removed), Piece("added", added), Piece("same", tail))
    return [piece for piece in pieces if piece.text]


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
            text = self.before or self.after or ""
            shown = text if len(text) <= LONGEST_ALONE else f"{text[:LONGEST_ALONE]}[…]"
            return [Piece("added" if self.before is None else "removed", shown)]
        return shorten_same(diff_words(self.before, self.after))

    def __str__(self) -> str:
        """Where it is, and below it the text with its changes marked."""
        said = "" if self.status == "changed" else f" ({self.status})"
        lines = mark_words(self.pieces).rstrip().splitlines()
        return "\n".join([f"{self.where}{said}:", *(f"  {line}".rstrip() for line in lines)])


class TextChanges(str):
    """All changed texts as one readable text; empty if nothing changed.

    Removed words are in ``[-...-]``, added words in ``{+...+}``. A notebook shows them in colour. Control characters
    are left out, so that it can be printed; `changes` has them.

    Attributes:
        changes: one for each text that differs, with both texts in full.
    """

    __slots__ = ("changes",)

    changes: tuple[TextChange, ...]

    def __new__(cls, changes: Iterable[TextChange] = ()) -> Self:
        """The text of these changes, in order."""
        given = tuple(changes)
        made = super().__new__(cls, remove_control_characters("\n\n".join(map(str, given))))
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


_NOTHING: Final[tuple[Any, ...]] = (None, "", (), {}, False)


def describe_definition(fold: TraceFold, *, has_texts: bool) -> dict[str, str]:
    """The definition of a run, part by part, as ``field: value`` lines; secrets masked.

    Args:
        fold: of a run, finished or not.
        has_texts: False leaves out what `CaptureMode.METADATA` does not keep, so that such a run can be compared with
            one that has texts.
    """
    budget = {} if fold.budget is None else fold.budget.limits
    limits = {f"budget {name}": value for name, value in budget.items()}
    facts = {"name": fold.declared_name, "workflow": fold.workflow, "max_concurrency": fold.max_concurrency, **limits}
    parts = {"ensemble": _write(facts)}
    for agent in fold.agents:
        given = {"goal": agent.goal, "background": agent.background, "system_prompt": agent.system_prompt}
        texts = given if has_texts else {}
        others = {"tools": agent.tools, "allow_delegation": agent.allow_delegation}
        parts[f"agent {clean_text(agent.role)}"] = _write({**texts, **others})
    if fold.plan is None:
        return parts
    for name, after in fold.plan.phases.items():
        parts[f"phase {name}"] = _write({"after": after, **fold.plan.phase_settings.get(name, {})})
    for task in fold.plan.tasks:
        place = task.name if task.phase is None else f"{task.phase}/{task.name}"
        texts = {name: getattr(task, name) for name in ("description", "expected_output", "when", "prompt")}
        settings: dict[str, Any] = texts if has_texts else {}
        settings.update(agent=task.agent, llm=task.llm, context=task.context)
        settings["after"] = tuple(name for name in task.depends_on if name not in task.context)
        settings |= {"max_retries": task.max_retries, "max_retry_wait": task.max_retry_wait, **task.settings}
        parts[f"task {place}"] = _write(settings)
    return parts


def describe_inputs(fold: TraceFold) -> dict[str, str]:
    """The template variables, by name, as texts."""
    return {f"input {name}": value for name, value in fold.inputs.items()}


def _write(fields: Mapping[str, Any]) -> str:
    """One line for each field that is set."""
    return "".join(f"{name}: {_write_value(value)}\n" for name, value in fields.items() if value not in _NOTHING)


def _write_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ", ".join(clean_text(str(each)) for each in value)
    return clean_text(str(value))
