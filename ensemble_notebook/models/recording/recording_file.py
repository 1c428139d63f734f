"""The file of a recording: YAML documents, in which texts stand line by line, so that people and git can read them.

Knows how values are written and read, and how the file grows; nothing of what they mean. What is written is exactly
what is read again.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.private_files import make_private
from ensemble_notebook.errors import ReplayError, ValidationError, get_message, summarize_error
from ensemble_notebook.models.recording.exchange import FOR_PEOPLE, InlineValue
from ensemble_notebook.models.recording.recorder import PendingDocument

FORMAT: Final = 2
# The first that keeps what tools answered.
TOOLS_FORMAT: Final = 2

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
_DEEPEST: Final = 100
_MOST_VALUES: Final = 1_000_000
_LONGEST_QUOTED: Final = 60
_LONGEST_KEY: Final = 120


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
    """Format a document that is not empty: mappings and lists in blocks, long texts line by line, the rest on one line.

    Why not ruamel.yaml's emitter: it takes 7 ms for a text of 10 KB, on the loop of the run; this takes a hundredth.
    """
    return f"---\n{_format_mapping(content, '')}"


def _format_mapping(mapping: Mapping[str, Any], indent: str) -> str:
    """Format the lines of a mapping; its names are our own, and need no quotes."""
    return "".join(f"{indent}{name}:{_format_after(value, indent)}" for name, value in mapping.items())


def _format_list(values: Sequence[Any], indent: str) -> str:
    return "".join(f"{indent}-{_format_item(value, indent)}" for value in values)


def _format_item(value: Any, indent: str) -> str:
    """Format what comes after a dash; the first line of a mapping or list stands beside it."""
    deeper = f"{indent}  "
    if isinstance(value, Mapping) and value:
        return f" {_format_mapping(value, deeper).removeprefix(deeper)}"
    if isinstance(value, list | tuple) and value:
        return f" {_format_list(value, deeper).removeprefix(deeper)}"
    return _format_after(value, indent)


def _format_after(value: Any, indent: str) -> str:
    """Format what comes after the name of a value, to the end of its last line."""
    match value:
        case Mapping() if value:
            return f"\n{_format_mapping(value, f'{indent}  ')}"
        case list() | tuple() if value:
            return f"\n{_format_list(value, indent)}"
        case str() if _is_block(value):
            return _format_block(value, f"{indent}  ")
        case InlineValue():
            return f" {_format_inline(value.value)}\n"
    return f" {_format_inline(value)}\n"


def _format_block(text: str, indent: str) -> str:
    """Format a text line by line; the signs after the bar say how it begins and ends."""
    has_odd_start = text[0] in " \n"
    end = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    lines = (f"{indent}{line}" if line else "" for line in text.removesuffix("\n").split("\n"))
    return f" |{2 if has_odd_start else ''}{end}\n" + "\n".join(lines) + "\n"


def _format_inline(value: Any) -> str:
    match value:
        case InlineValue():
            return _format_inline(value.value)
        case Mapping():
            pairs = ((_quote(str(name)), _format_inline(each)) for name, each in value.items())
            # A longer name has to be announced.
            told = [f"{'? ' if len(key) > _LONGEST_KEY else ''}{key}: {text}" for key, text in pairs]
            return f"{{{', '.join(told)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_format_inline, value))}]"
        case float() if math.isnan(value):
            return ".nan"
        case float() if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        case None | bool() | int() | float():
            return json.dumps(value)
    return _quote(str(value))


def _quote(text: str) -> str:
    """Quote a text as JSON does, which is YAML, but for characters that some readers take for the end of a line."""
    return _ODD.sub(lambda odd: f"\\u{ord(odd[0]):04X}", json.dumps(text, ensure_ascii=False))


def _is_block(text: str) -> bool:
    """Whether a text is long enough to stand by itself, and comes back from a block as it was."""
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
    # Split here and not by the YAML reader, which does not always tell the line of a fault, nor whether more follows.
    # No text is split in two: the lines of a block are indented, and a quoted text stands on one line.
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


def read_format(path: Path) -> int:
    """Read the number of the format of a file that `read_documents` reads."""
    with path.open(encoding="utf-8-sig") as file:
        found = _FIRST_LINE.match(file.readline())
    return int(found[1]) if found else 0


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
        raise ReplayError(
            _describe_broken(path, at, getattr(error, "problem", None) or str(error), is_last=is_last)
        ) from error
    except RecursionError as error:
        raise ReplayError(
            _describe_broken(path, line + 1, "its values lie too deep in each other", is_last=False)
        ) from error
    except Exception as error:  # a date such as 2026-99-99, a number such as 0x
        raise ReplayError(_describe_broken(path, line + 1, get_message(error), is_last=False)) from error
    if _is_tangled(content):
        raise ReplayError(_describe_broken(path, line + 1, "its values lie too deep in each other", is_last=False))
    if not isinstance(content, Mapping):
        raise ReplayError(_describe_broken(path, line + 1, "a document is a mapping", is_last=is_last))
    return content


def _is_tangled(content: Any) -> bool:
    """Whether values lie too deep in each other, or in themselves: YAML can say so, and no recording does."""
    waiting, count = [(content, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        inner = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else []
        count += len(inner)
        if depth > _DEEPEST or count > _MOST_VALUES:
            return True
        waiting += [(each, depth + 1) for each in inner]
    return False


def _describe_broken(path: Path, line: int, problem: str, *, is_last: bool) -> str:
    where = "ends in the middle of an exchange" if is_last else "is broken here"
    return f"{path}, line {line}: the recording {where} ({' '.join(problem.split())}). {describe_remedy(path)}"


# --- The file of a recording as it grows (E42, E70). Knows the form of documents and the place, not what they say -----


class RecordingFile:
    """A recording that grows. Whole after each document, whatever happens then: nothing is kept open or back.

    The first that is written replaces what the file held before, so that a run which never gets there leaves an older
    recording as it is.

    A file that can't be written costs a warning, never the run: what models answer is paid for. Nothing more is
    written then, since later documents refer to earlier ones, and the file says that it is incomplete.

    Why not on a thread: an exchange takes less than a millisecond to write, and the next one may refer to its number.

    Args:
        path: of the file; ``~`` is the home folder.

    Attributes:
        warnings: at most one: that the file could not be written.

    Raises:
        ValidationError: there can be no file, or there is one which is no recording.
    """

    keeps_pieces: Final = True
    keeps_tasks: Final = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.warnings: list[str] = []
        self._path = check_path(read_path(path, "record").absolute())
        self._whole_size = 0
        self._has_begun = False

    def write(self, document: Mapping[str, Any]) -> None:
        """Append a document."""
        self._append(lambda: format_document(document))

    def finish(self) -> None:
        """The run has completed. Where it asked nobody anything, its recording is one without documents."""
        if not self._has_begun:
            self._append(str)

    def _append(self, make_text: Callable[[], str]) -> None:
        if self.warnings:
            return
        is_first, self._has_begun = not self._has_begun, True
        try:
            text = (HEADER if is_first else "") + make_text()
            make_private(self._path)
            with self._path.open("w" if is_first else "a", encoding="utf-8", newline="\n") as file:
                file.write(text)
            self._whole_size += len(text.encode())
        except Exception as error:  # noqa: BLE001 - a full disk, or values that the format has no words for
            reason = getattr(error, "strerror", None) or summarize_error(error)
            self.warnings.append(
                f"The recording {self._path} is incomplete, since it could not be written: {reason}. The run went on; "
                f"to replay it, record anew."
            )
            self._mark_incomplete()

    async def keep_now(self) -> None:
        """All by now is in the file already."""

    def write_pending(self, pending: PendingDocument) -> None:
        """Append a document, made now."""
        self.write(pending.to_document(FOR_PEOPLE))

    def _mark_incomplete(self) -> None:
        """Cut off what is not whole, and say so in place, which needs no room; where that fails, leave no recording."""
        try:
            with self._path.open("r+b") as file:
                file.truncate(self._whole_size)
                file.seek(HEADER.encode().index(COMPLETE))
                file.write(INCOMPLETE)
            is_marked = self._whole_size > 0
        except OSError:
            is_marked = False
        if not is_marked and self._path.is_file():
            with suppress(OSError):
                self._path.unlink()


def check_path(file: Path) -> Path:
    """Give back a path at which a recording can be made.

    Raises:
        ValidationError: it is none.
    """
    if file.is_dir():
        raise ValidationError(f"The recording {file} is a folder. Name a file in it.")
    if not file.parent.is_dir():
        raise ValidationError(f"The recording {file} has no place: there is no folder {file.parent}. Make it first.")
    try:
        if file.exists() and file.stat().st_size and not is_recording(file):
            raise ValidationError(f"{file} is no recording, and would be overwritten. Record to another file.")
    except OSError as error:
        raise ValidationError(f"The recording {file} can't be made: {error.strerror}.") from error
    return file
