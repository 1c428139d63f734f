"""Reads the answer of a task that reviews a phase: its first word is the verdict (E28, E46). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ensemble_notebook.domain.definitions.review import ReviewDecision, explain_answers
from ensemble_notebook.errors import did_you_mean

_MARKUP: Final = " \t\r\n*_`\"'#>~-"
_END_MARKUP: Final = " \t\r\n*_`"
_AFTER_WORD: Final = f"{_MARKUP}:.,"
_FIRST_WORD: Final = re.compile(r"\w+")
_NAME: Final = re.compile(r"[\w.\-]+")


class UndecidedError(ValueError):
    """An answer that decides nothing; says why, and how to answer instead."""


def read_answer(answer: str, tasks: Sequence[str]) -> ReviewDecision:
    """What a reviewer's answer means: ``APPROVE``, ``RETRY: feedback``, ``RETRY task: feedback``, ``REJECT: reason``.

    Letter case doesn't matter, nor does Markdown around the first word. A line that begins with ``RETRY`` and the name
    of a task is for that task, up to the next such line; what else is said is for all of them.

    Args:
        answer: of the reviewer.
        tasks: names of those that feedback may be addressed to.

    Raises:
        UndecidedError: it begins with none of the three words, or addresses a task that is not there.
    """
    text = _unquote(answer.strip()).lstrip(_MARKUP).rstrip(_END_MARKUP)
    found = _FIRST_WORD.match(text)
    word = "" if found is None else found[0]
    match word.upper():
        case "APPROVE":
            return ReviewDecision.approve()
        case "REJECT":
            return ReviewDecision.reject(text[len(word) :].lstrip(_AFTER_WORD))
        case "RETRY":
            return _read_retry(text, word, tasks)
    said = "Your answer decides nothing." if text else "Your answer was empty."
    raise UndecidedError(f"{said} {explain_answers(tasks)}")


def _unquote(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


def _read_retry(text: str, word: str, tasks: Sequence[str]) -> ReviewDecision:
    """The feedback of a retry, by the tasks that it is for; each further part begins with the same word."""
    begins = re.compile(rf"[{re.escape(_MARKUP)}]*{re.escape(word)}\b")
    for_all: list[str] = []
    by_task: dict[str, list[str]] = {}
    lines = for_all
    for line in text.splitlines():
        if (begun := begins.match(line)) is None:
            lines.append(line)
            continue
        name, feedback = _split_address(line[begun.end() :], tasks)
        lines = for_all if name is None else by_task.setdefault(name, [])
        lines.append(feedback)
    common = "\n".join(for_all).strip()
    if not by_task:
        return ReviewDecision.retry(common)
    meant = tasks if common else tuple(by_task)
    return ReviewDecision.retry({name: "\n".join([common, *by_task.get(name, ())]).strip() for name in meant})


def _split_address(rest: str, tasks: Sequence[str]) -> tuple[str | None, str]:
    """The task that a line is for, None for all, and what the line says.

    Raises:
        UndecidedError: it is for one that is not there.
    """
    address, colon, feedback = rest.partition(":")
    address = address.strip(_MARKUP)
    if colon and address:
        if (name := _find_task(address, tasks)) is not None:
            return name, feedback.lstrip(_MARKUP).rstrip(_END_MARKUP)
        if _NAME.fullmatch(address):  # one word before a colon is meant for a name; several are a sentence
            message = f"This phase has no task {address!r}.{did_you_mean(address, tasks)}"
            raise UndecidedError(f"{message} {explain_answers(tasks)}")
    return None, rest.lstrip(_AFTER_WORD).rstrip(_END_MARKUP)


def _find_task(address: str, tasks: Sequence[str]) -> str | None:
    if address in tasks:
        return address
    return next((name for name in tasks if name.casefold() == address.casefold()), None)
