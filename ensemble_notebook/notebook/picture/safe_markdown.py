"""A model's text, made safe to be shown as Markdown (C30): its formatting stays, its markup and its links do not.

The *source* is neutralised, so that it holds for every renderer: HTML shows as text, a link shows its address beside
its label, an image shows its label, and nothing is fetched. Only what every Markdown parser takes for code is left as
it is: a fenced block, and a code span that opens and closes on one line. What parsers could read in two ways is made
unambiguous first; where that can't be, the worst that happens is an ``&lt;`` that is seen as such.

Knows nothing of displays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r"(?P<indent> *)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")
_DEEPEST_FENCE: Final = 3
_TAG_START: Final = re.compile(r"<(?=[A-Za-z/!?])")
_LINK: Final = re.compile(
    r"!?\[(?P<label>[^\[\]]*)\]\(\s*<?(?P<address>[^\s<>()]*(?:\([^\s()]*\)[^\s<>()]*)*)>?(?:\s+[^()]*)?\)"
)
_ADDRESS: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>`|]+|(?:mailto:|xmpp:)?[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE
)
_TRAILING: Final = ".,;:!?)]}*_\"'"
_LONGEST_ADDRESS: Final = 120


def neutralize_markdown(text: str) -> str:
    """Markdown in which nothing but formatting is left."""
    return "\n".join(_neutralize_lines(text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "").split("\n")))


def _neutralize_lines(lines: list[str]) -> Iterator[str]:
    """All lines: those in fences as they are, the others neutralised.

    A fence is moved to where every parser sees one, and closed where any of them might think that it ends: at a line
    further left, which ends the list that it may be in, and at whatever looks like its closing mark. Else the rest of
    the text could be code here and markup there.
    """
    fence: re.Match[str] | None = None
    for line in lines:
        if fence is not None and line.strip().startswith(fence["mark"]) and set(line.strip()) == {fence["mark"][0]}:
            yield _outdent(fence["mark"], fence)
            fence = None
        elif fence is not None and (line.startswith(fence["indent"]) or not line.strip()):
            yield _outdent(line[len(fence["indent"]) :], fence)
        else:
            if fence is not None:
                yield _outdent(fence["mark"], fence)
            fence = _match_fence(line)
            yield _outdent(line.strip(), fence) if fence else _neutralize_line(line)


def _match_fence(line: str) -> re.Match[str] | None:
    match = _FENCE.fullmatch(line)
    return match if match and not _TAG_START.search(match["info"]) else None


def _outdent(text: str, fence: re.Match[str]) -> str:
    """A line of a fence, at most as deep as a fence may stand."""
    return fence["indent"][:_DEEPEST_FENCE] + text


def _neutralize_line(line: str) -> str:
    pieces = []
    position = 0
    for start, end in _find_code_spans(line):
        pieces += [_neutralize_prose(line[position:start]), line[start:end]]
        position = end
    return _join_pieces([*pieces, _neutralize_prose(line[position:])])


def _join_pieces(pieces: list[str]) -> str:
    """The pieces side by side; code never touches a backtick or backslash, which would change where it begins."""
    text = ""
    for piece in pieces:
        text += " " + piece if piece.startswith("`") and text.endswith(("`", "\\")) else piece
    return text


def _find_code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Where a line holds code for every parser; a span with a ``|`` may be torn apart by a table, so it is none."""
    runs = [match for match in re.finditer(r"`+", line) if not _is_escaped(line, match.start())]
    index = 0
    while index < len(runs):
        opening = runs[index]
        closing = next((each for each in runs[index + 1 :] if len(each[0]) == len(opening[0])), None)
        if closing is None or "|" in line[opening.start() : closing.end()]:
            index += 1
            continue
        yield opening.start(), closing.end()
        index = runs.index(closing) + 1


def _is_escaped(line: str, position: int) -> bool:
    before = line[:position]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _neutralize_prose(text: str) -> str:
    """Formatting stays; links, images, addresses, HTML and unpaired backticks lose their meaning."""
    text = _LINK.sub(_unlink, text)
    pieces = []
    position = 0
    for match in _ADDRESS.finditer(text):
        address = match[0].rstrip(_TRAILING)
        if address:
            pieces += [_escape(text[position : match.start()]), f"`{_shorten(address)}`"]
            position = match.start() + len(address)
    return _join_pieces([*pieces, _escape(text[position:])])


def _unlink(match: re.Match[str]) -> str:
    return f"{match['label']} ({_shorten(match['address'])})" if match["address"] else match["label"]


def _shorten(address: str) -> str:
    return address if len(address) <= _LONGEST_ADDRESS else address[: _LONGEST_ADDRESS - 3] + "..."


def _escape(text: str) -> str:
    return _TAG_START.sub("&lt;", re.sub(r"(?<!\\)((?:\\\\)*)([\[`])", r"\1\\\2", text))
