"""The form of a recording: YAML documents, in which texts stand line by line, so that people and git can read them.

Knows how values are written and read; nothing of what they mean. What is written is exactly what is read again.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.errors import ReplayError

if TYPE_CHECKING:
    from ruamel.yaml.events import Event

FORMAT: Final = 1

_TITLE: Final = "ensemble-notebook recording"
HEADER: Final = f"""{_TITLE}: {FORMAT}
# Complete: yes. What was said to models, and what they answered, secrets masked. Run again with replay=FILE.
"""
# Written in place where a recording could not be finished: as many bytes, since the disk may be full (E70).
COMPLETE: Final = b"# Complete: yes. "
INCOMPLETE: Final = b"# Complete: no.  "
_FIRST_LINE: Final = re.compile(rf"{_TITLE}: (\d+)\s*$")
# No YAML, or a line break for some readers.
_ODD: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_LONGEST_QUOTED: Final = 60
# No line is folded: what stands on one line is a text of one line, which git compares as such.
_NO_WIDTH: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class InlineValue:
    """A value that is written on one line."""

    value: Any


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file, as it was read. Lines count from 1."""

    line: int
    content: Mapping[str, Any]


def is_recording(path: Path) -> bool:
    """Whether a file begins as a recording does, of whatever version."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return _FIRST_LINE.match(file.readline(200)) is not None


def format_document(content: Mapping[str, Any]) -> str:
    """Format a document: mappings and lists in blocks, long texts line by line, everything else on one line.

    Takes about 0.3 ms for each kilobyte of text, and 10 microseconds for each value: a model that answers takes a
    thousand times as long.
    """
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.width = _NO_WIDTH
    text = io.StringIO()
    yaml.emit(_iterate_document_events(content), text)
    return text.getvalue()


def _iterate_document_events(content: Mapping[str, Any]) -> Iterator[Event]:
    """Iterate over what ruamel.yaml's emitter is told.

    Why not simply its `dump`: that would need each text and mapping wrapped in a class of its own to be told its style,
    which comes to as much code, and takes longer.
    """
    from ruamel.yaml import events

    yield events.StreamStartEvent()
    yield events.DocumentStartEvent(explicit=True)
    yield from _iterate_value_events(content, is_inline=False)
    yield events.DocumentEndEvent()
    yield events.StreamEndEvent()


def _iterate_value_events(value: Any, *, is_inline: bool) -> Iterator[Event]:
    from ruamel.yaml import events

    match value:
        case InlineValue():
            yield from _iterate_value_events(value.value, is_inline=True)
        case Mapping():
            yield events.MappingStartEvent(None, None, implicit=True, flow_style=is_inline or not value)
            for name, each in value.items():
                yield _make_scalar(str(name), '"' if is_inline else None)
                yield from _iterate_value_events(each, is_inline=is_inline)
            yield events.MappingEndEvent()
        case list() | tuple():
            yield events.SequenceStartEvent(None, None, implicit=True, flow_style=is_inline or not value)
            for each in value:
                yield from _iterate_value_events(each, is_inline=is_inline)
            yield events.SequenceEndEvent()
        case str():
            yield _make_scalar(value, "|" if not is_inline and _is_block(value) else '"')
        case float() if math.isnan(value):
            yield _make_scalar(".nan")
        case float() if math.isinf(value):
            yield _make_scalar(".inf" if value > 0 else "-.inf")
        case None | bool() | int() | float():
            yield _make_scalar(json.dumps(value))
        case _:
            yield _make_scalar(str(value), '"')


def _make_scalar(text: str, style: str | None = None) -> Event:
    """Make the event of a text; without a style it is a plain word or number."""
    from ruamel.yaml.events import ScalarEvent
    from ruamel.yaml.tag import Tag

    # The tag is what the quotes imply, and is not written; the emitter falls over an empty text that has none.
    tag = None if style is None else Tag(suffix="tag:yaml.org,2002:str")
    return ScalarEvent(None, tag, (style is None, style is not None), text, style=style)


def _is_block(text: str) -> bool:
    """Whether a text is long enough to stand by itself, and comes back from a block as it was.

    The emitter does not ask: it writes any text as a block when it is told to.
    """
    is_long = "\n" in text or len(text) > _LONGEST_QUOTED
    return is_long and _ODD.search(text) is None and not text.rstrip("\n").endswith((" ", "\t")) and bool(text.strip())


def read_documents(path: Path) -> list[Document]:
    """Read the documents of a file after its header.

    Raises:
        ReplayError: the file is not there, no recording, of a newer version, or broken; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ReplayError(f"There is no recording {path}. {describe_remedy(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"The recording {path} can't be read: {error}. {describe_remedy(path)}") from error
    first, *parts = re.split(r"^---[ \t]*\n", text, flags=re.MULTILINE)
    _check_header(path, first)
    if INCOMPLETE.decode() in first:
        raise ReplayError(
            f"The recording {path} is incomplete: not all of it could be written when it was made. "
            f"{describe_remedy(path)}"
        )
    documents, line = [], first.count("\n") + 1
    for number, part in enumerate(parts, start=1):
        documents.append(Document(line + 1, _parse_document(path, part, line, is_last=number == len(parts))))
        line += 1 + part.count("\n")
    return documents


def describe_remedy(path: Path) -> str:
    """Describe what to do where a recording is of no use."""
    return f"Record anew: run(record={str(path)!r})."


def _check_header(path: Path, first: str) -> None:
    found = _FIRST_LINE.match(first.partition("\n")[0])
    if found is None:
        raise ReplayError(
            f"{path}, line 1: this is no recording; one begins with '{_TITLE}: {FORMAT}'. {describe_remedy(path)}"
        )
    if int(found[1]) > FORMAT:
        raise ReplayError(
            f"{path}, line 1: this recording has format {found[1]}, and this version of ensemble-notebook knows "
            f"formats up to {FORMAT}. Upgrade ensemble-notebook, or record anew."
        )


def _parse_document(path: Path, text: str, line: int, *, is_last: bool) -> Mapping[str, Any]:
    """Parse the content of one document; `line` is that of its separator."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        content = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        at = line + 1 + (mark.line if mark is not None else 0)
        raise ReplayError(_describe_broken(path, at, getattr(error, "problem", None) or str(error), is_last)) from error
    if not isinstance(content, Mapping):
        raise ReplayError(_describe_broken(path, line + 1, "a document is a mapping", is_last))
    return content


def _describe_broken(path: Path, line: int, problem: str, is_last: bool) -> str:
    where = "ends in the middle of an exchange" if is_last else "is broken here"
    return f"{path}, line {line}: the recording {where} ({' '.join(problem.split())}). {describe_remedy(path)}"
