"""A model's text, made safe to be shown as Markdown (C30): its formatting stays, its markup and its links do not.

The *source* is neutralised, so that it holds for every renderer: HTML shows as text, a link shows its address beside
its label, an image shows its label, and nothing is fetched. Only what every Markdown parser takes for code is left as
it is: a fenced block, and a code span that opens and closes on one line. What parsers could read in two ways is made
unambiguous first; where that can't be, the worst that happens is an ``&lt;`` that is seen as such.

Knows nothing of displays.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

# Nothing here gives back what it has taken (``*+``), since a pattern that tries again takes minutes for a long reply.
_FENCE: Final = re.compile(r"(?P<indent> *+)(?P<mark>`{3,}+|~{3,}+)(?P<info>[^`]*+)")
_DEEPEST_FENCE: Final = 3
_TAG_START: Final = re.compile(r"<(?=[A-Za-z/!?])")
_LINK: Final = re.compile(
    r"!?\[(?P<label>[^\[\]]*+)\]\(\s*+<?+(?P<address>[^\s<>()]*+(?:\([^\s()]*+\)[^\s<>()]*+)*+)>?+(?:\s++[^()]*+)?+\)"
)
_ADDRESS_MARK: Final = re.compile(r"://|www\.|@", re.IGNORECASE)
_ADDRESS_REST: Final = re.compile(r"[^\s<>`|]++")
_MAIL_REST: Final = re.compile(r"[\w-]++(?:\.[\w-]++)++")
_SCHEME_CHARACTER: Final = re.compile(r"[a-z0-9+.-]", re.IGNORECASE)
_SCHEME_START: Final = re.compile(r"[^a-z]*+", re.IGNORECASE)
_BACKSLASH: Final = re.compile(r"\\")
_MAILBOX_CHARACTER: Final = re.compile(r"[\w.+-]")
_MAIL_SCHEMES: Final = ("mailto:", "xmpp:")
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
    if fence is not None:  # what is shown below the text is no part of it
        yield _outdent(fence["mark"], fence)


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
    joined: list[str] = []
    last = ""
    for piece in pieces:
        if piece.startswith("`") and last in ("`", "\\"):
            joined.append(" ")
        joined.append(piece)
        last = piece[-1:] or last
    return "".join(joined)


def _find_code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Where a line holds code for every parser; a span with a ``|`` may be torn apart by a table, so it is none."""
    runs = [match for match in re.finditer(r"`+", line) if not _is_escaped(line, match.start())]
    pipes = [match.start() for match in re.finditer(r"\|", line)] if runs else []
    closings = _find_closings(runs)
    index = 0
    while index < len(runs):
        closing = closings[index]
        start, end = runs[index].start(), runs[closing or index].end()
        if closing is None or bisect_left(pipes, start) < bisect_left(pipes, end):
            index += 1
            continue
        yield start, end
        index = closing + 1


def _find_closings(runs: list[re.Match[str]]) -> list[int | None]:
    """For each run of backticks, the number of the next one that is as long."""
    closings: list[int | None] = [None] * len(runs)
    following: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index].end() - runs[index].start()
        closings[index] = following.get(length)
        following[length] = index
    return closings


def _is_escaped(line: str, position: int) -> bool:
    return (position - _find_run_start(line, position, _BACKSLASH, 0)) % 2 == 1


def _find_run_start(text: str, end: int, character: re.Pattern[str], least: int) -> int:
    """Where the run of such characters begins that stands before `end`, but not before `least`."""
    start = end
    while start > least and character.match(text, start - 1):
        start -= 1
    return start


def _find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Where there are addresses, of pages and of mail, that a frontend may make links of.

    From the marks that every address has, and not by one pattern, which would look for a mark from each letter on.
    """
    end = 0
    for mark in _ADDRESS_MARK.finditer(text):
        if mark.start() < end:
            continue
        start = _find_address_start(text, mark, end)
        if start is None:
            continue
        rest = (_MAIL_REST if mark[0] == "@" else _ADDRESS_REST).match(text, mark.end())
        if rest is not None:
            end = rest.end()
            yield start, end


def _find_address_start(text: str, mark: re.Match[str], least: int) -> int | None:
    """Where the address with this mark begins; None where what stands before the mark makes none."""
    if mark[0] == "@":
        start = _find_run_start(text, mark.start(), _MAILBOX_CHARACTER, least)
        if start == mark.start():
            return None
        schemes = [each for each in _MAIL_SCHEMES if text[max(least, start - len(each)) : start].lower() == each]
        return start - len(schemes[0]) if schemes else start
    if mark[0] != "://":
        return mark.start()
    run = _find_run_start(text, mark.start(), _SCHEME_CHARACTER, least)
    letter = _SCHEME_START.match(text, run, mark.start())
    return None if letter is None or letter.end() == mark.start() else letter.end()


def _neutralize_prose(text: str) -> str:
    """Formatting stays; links, images, addresses, HTML and unpaired backticks lose their meaning."""
    text = _LINK.sub(_unlink, text)
    pieces = []
    position = 0
    for start, end in _find_addresses(text):
        address = text[start:end].rstrip(_TRAILING)
        if address:
            pieces += [_escape(text[position:start]), f"`{_shorten(address)}`"]
            position = start + len(address)
    return _join_pieces([*pieces, _escape(text[position:])])


def _unlink(match: re.Match[str]) -> str:
    return f"{match['label']} ({_shorten(match['address'])})" if match["address"] else match["label"]


def _shorten(address: str) -> str:
    return address if len(address) <= _LONGEST_ADDRESS else address[: _LONGEST_ADDRESS - 3] + "..."


def _escape(text: str) -> str:
    return _TAG_START.sub("&lt;", re.sub(r"(?<!\\)((?:\\\\)*+)([\[`])", r"\1\\\2", text))
