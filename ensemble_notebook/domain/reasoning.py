"""What a model has thought before its reply, where it stands in tags at the beginning of the text (E14).

Servers with a parser for a model's reasoning send it beside the text; without, it comes in the tags that the model was
trained on, and a draft in it would be read as the answer.
"""

from __future__ import annotations

import re
from typing import Final

_LONE_END: Final = "</think>"
_FIRST: Final = ("<think>", "<thinking>", "<reasoning>", _LONE_END)
_OPENED: Final = re.compile(r"\s*+<(?P<tag>think|thinking|reasoning)>")
# A template that opens the reasoning itself leaves a reply with the end alone, before which no other tag stands. Types
# such as `List[int]` are written `List<int>` in some languages, and are no tags.
_ANY_TAG: Final = re.compile(r"</[A-Za-z][\w:.-]*+\s*+>|(?<!\w)<[A-Za-z][\w:.-]*+(?:\s[^<>]*+)?/?>")
_FENCE_LINE: Final = re.compile(r"^[ \t]*+(?:```|~~~)", re.MULTILINE)
_QUOTED_LINE: Final = re.compile(r"[ \t]*+(?:(?:[-*+]|\d++[.)])[ \t]++)?+>")
_QUOTED: Final = re.compile(
    r"(?<!\w)(?P<mark>[\"'`])(?:(?!(?P=mark)).)*?</think>(?:(?!(?P=mark)).)*+(?P=mark)(?!\w)"
    r"|[“„«‘「][^“”»’」\n]*?</think>[^“”»’」\n]*+[“”»’」]"  # noqa: RUF001
)
_MARKS: Final = ("``", '""', "''", "“”", "„“", "«»", "‘’", "「」")  # noqa: RUF001


def split_reasoning(text: str) -> tuple[str, str]:
    """Split a reply into the reasoning that it begins with, tags included, and what is behind it; joined they are it.

    One that never ends is the whole reply. A lone ``</think>`` ends it where it is the first tag of the reply, stands
    neither in a fence nor in a quotation, and something follows.
    """
    end = 0
    while (opened := _OPENED.match(text, end)) is not None:
        closed = _find_end(text, f"</{opened['tag']}>", opened.end())
        if closed is None:
            return (text, "") if end == 0 else _split_at(text, end)
        end = closed
    return _split_at(text, end or _find_lone_end(text))


def describe_place(reasoning: str) -> str:
    """Say by what marks reasoning was found."""
    opened = _OPENED.match(reasoning)
    return f"before a lone {_LONE_END}" if opened is None else f"in <{opened['tag']}>"


def read_streamed_answer(text: str) -> str:
    """What is behind the reasoning in the beginning of a reply, by now; what may become a tag is held back."""
    answer = split_reasoning(text)[1]
    begun = answer.lstrip()
    return "" if begun.startswith(_FIRST) or any(tag.startswith(begun) for tag in _FIRST) else answer


def _split_at(text: str, end: int) -> tuple[str, str]:
    answer = text[end:].lstrip() if end else text
    return text[: len(text) - len(answer)], answer


def _find_end(text: str, tag: str, start: int) -> int | None:
    """Find where the reasoning ends: behind the first such tag that is not quoted."""
    while (place := text.find(tag, start)) >= 0:
        start = place + len(tag)
        if text[place - 1] + text[start : start + 1] not in _MARKS:
            return start
    return None


def _find_lone_end(text: str) -> int:
    """Find where reasoning ends that was begun by nobody; 0 where there is none."""
    place = text.find(_LONE_END)
    if place < 0:
        return 0
    first, end = _ANY_TAG.search(text), place + len(_LONE_END)
    is_first = first is not None and first.start() == place
    return end if is_first and text[end:].strip() and not _is_quoted(text, place, end) else 0


def _is_quoted(text: str, place: int, end: int) -> bool:
    """Whether a tag stands in a fence, a block quote, a code span or between quotation marks of its line."""
    if len(_FENCE_LINE.findall(text, 0, place)) % 2 and _FENCE_LINE.search(text, end):
        return True
    line_start, line_end = text.rfind("\n", 0, place) + 1, text.find("\n", end)
    line = text[line_start : None if line_end < 0 else line_end]
    return (_QUOTED_LINE.match(line) or _QUOTED.search(line)) is not None
