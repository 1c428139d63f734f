"""What views call work that nobody named, and which tasks a manager handed on (W26, W27).

A manager gets the tasks as they are written and hands on what it likes, in its own words. So who did which task is told
only where the text that was handed on names or quotes it, and never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ensemble_notebook.domain.planning.execution_plan import PlannedTask

LONGEST_TITLE: Final = 32
LEAST_QUOTE: Final = 8
"""Shorter descriptions may stand in any text."""

_NUMBERED: Final = re.compile(r"(?:^|\.)([^.]+?)_\d+(?:_\d+)?$")
_PLAIN_WORD: Final = re.compile(r"[^\W\d_]+")


def find_title(name: str, role: str | None, description: str | None, *, is_named: bool | None = None) -> str | None:
    """What views call a task that nobody named: its first words. None where somebody did, and where it has no text.

    Args:
        name: in code.
        role: of its agent.
        description: resolved.
        is_named: whether somebody chose its name; where None, as in older files, a name of the usual form is taken for
            one that nobody chose: ``writer_1``.
    """
    if is_named is None:
        found = _NUMBERED.search(name)
        is_named = found is None or _simplify(found[1]) != _simplify(role or "")
    return None if is_named else cut_words(description or "")


def cut_words(text: str) -> str | None:
    """The first words of a text: ``Describe the tide in one…``; None of an empty one."""
    words = text.split()
    kept = words[:1]
    for word in words[1:]:
        if len(" ".join([*kept, word])) > LONGEST_TITLE:
            break
        kept.append(word)
    title = " ".join(kept)[: LONGEST_TITLE + 10]
    return None if not kept else title if len(kept) == len(words) else f"{title.rstrip('.,;:')}…"


def title_written(task: PlannedTask) -> str:
    """What views call a task as it is written."""
    return task.name if task.is_named else cut_words(task.description) or task.name


def find_told(text: str | None, managed: Iterable[PlannedTask]) -> list[PlannedTask]:
    """The written tasks that a text names or quotes."""
    found, said = [], text or ""
    for task in managed:
        quote, name = _simplify(task.description), re.escape(task.name)
        # A name that is an ordinary word stands in many texts that mean nothing by it.
        pattern = rf"[`'\"]{name}[`'\"]" if _PLAIN_WORD.fullmatch(task.name) else rf"(?<![\w-]){name}(?![\w-])"
        told = _simplify(said)
        is_quoted = quote == told or (len(quote) >= LEAST_QUOTE and quote in told)
        if is_quoted or (task.is_named and re.search(pattern, said) is not None):
            found.append(task)
    return found


def _simplify(text: str) -> str:
    """A text by its words alone."""
    return " ".join(re.findall(r"\w+", text.casefold().replace("_", " ")))
