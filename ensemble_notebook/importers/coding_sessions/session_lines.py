"""The lines of a session's file: which program wrote them, and what each of their values is, whatever it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from ensemble_notebook.domain.value_text import mend_value, parse_instant

Plain = Mapping[str, Any]

_LONGEST_NOTE: Final = 2_000
_LOOKED_AT: Final = 20
"""Lines in which a file has to say whose it is."""
_CODEX_TYPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_TOO_MANY: Final = 10**12
_HALF: Final = b"\\ud"
_NOTHING: Final[Plain] = {}


class Program(StrEnum):
    """Who wrote a session."""

    CLAUDE_CODE = "Claude Code"
    CODEX = "Codex"


@dataclass(slots=True)
class Lines:
    """The lines of one file.

    Attributes:
        name: of the file, for messages.
        rows: what the lines say.
        broken: number and text of the lines that are no JSON.
        is_cut: the last line is one of these: whoever wrote it was stopped, or is still writing.
    """

    name: str
    program: Program
    rows: list[Plain]
    broken: list[tuple[int, str]] = field(default_factory=list)
    is_cut: bool = False


def tell_program(content: bytes) -> Program | None:
    """Who wrote these lines; None where they are no session, as far as the first ones say."""
    for line in content.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]:
        if line.lstrip()[:1] != b"{":
            if line.strip():
                return None
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if (program := _tell_row(row)) is not None:
            return program
    return None


def _tell_row(row: Plain) -> Program | None:
    kind = read_text(row.get("type"))
    if kind in _CODEX_TYPES and isinstance(row.get("payload"), dict):
        return Program.CODEX
    if not kind and {"id", "timestamp", "instructions"} <= row.keys():  # the first version of Codex in Rust
        return Program.CODEX
    if kind and ("sessionId" in row or "leafUuid" in row or {"messageId", "snapshot"} <= row.keys()):
        return Program.CLAUDE_CODE
    return None


def read_lines(content: bytes, name: str, program: Program) -> Lines:
    """All lines of a file. What is no JSON is kept as it stands."""
    lines = Lines(name, program, [])
    numbered = enumerate(content.split(b"\n"), start=1)
    number = 0
    for number, line in numbered:
        if not line.strip():
            continue
        lines.is_cut = False
        try:
            row = json.loads(line)
            if _HALF in line:  # what was cut at some length may end within a character
                row = mend_value(row)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            lines.rows.append(row)
        else:
            lines.broken.append((number, line.decode(errors="replace")))
            lines.is_cut = row is None
    return lines


def read_text(value: object) -> str:
    """A text; empty where it is none."""
    return value if isinstance(value, str) else ""


def read_plain(value: object) -> Plain:
    """A mapping; an empty one where it is none."""
    return value if isinstance(value, dict) else _NOTHING


def read_blocks(value: object) -> Iterator[Plain]:
    """The blocks of a message: a text alone is one of these."""
    if isinstance(value, str):
        yield {"type": "text", "text": value}
    elif isinstance(value, list):
        for each in value:
            yield each if isinstance(each, dict) else {"type": "text", "text": read_text(each)}


def read_count(value: object) -> int | None:
    """A number of tokens; None where it is none that could be."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY else None


def read_moment(row: Plain) -> datetime | None:
    """When a line was written, in UTC; None where it does not say."""
    text = row.get("timestamp")
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return parse_instant(text)  # with more digits than the quick way takes
    except (ValueError, OverflowError):
        return None


def find_first_moment(rows: Iterable[Plain]) -> datetime:
    """The time of the first line that has one.

    Raises:
        StopIteration: none has.
    """
    return next(each for each in map(read_moment, rows) if each is not None)


def write_note(kind: str, value: object) -> str:
    """What is not read, as text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    more = len(text) - _LONGEST_NOTE
    return f"{kind}: {text}" if more <= 0 else f"{kind}: {text[:_LONGEST_NOTE]}… ({more:,} more characters)"


def join_texts(blocks: Iterator[Plain]) -> str:
    """The texts of blocks; what is none is told by its kind."""
    return "\n".join(filter(None, map(describe_block, blocks)))


def describe_block(block: Plain) -> str:
    """The text of a block of a message; of a picture or another file what it is, and how large."""
    kind = read_text(block.get("type"))
    if isinstance(text := block.get("text"), str):
        return text
    source = read_plain(block.get("source"))
    data = read_text(source.get("data")) or read_text(block.get("image_url"))
    if data:
        media_type = read_text(source.get("media_type")) or data.partition(";")[0].removeprefix("data:")[:40]
        return f"[{kind or 'file'} {media_type}, {len(data) * 3 // 4:,} bytes]"
    return write_note(kind or "block", {key: each for key, each in block.items() if key != "type"})
