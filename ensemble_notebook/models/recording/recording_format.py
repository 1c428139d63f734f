"""The form of a recording: YAML documents, in which texts stand line by line, so that people and git can read them.

Knows how values are written and read; nothing of what they mean. What is written is exactly what is read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.errors import ReplayError

FORMAT: Final = 1

_TITLE: Final = "ensemble-notebook recording"
_HEADER: Final = f"""{_TITLE}: {FORMAT}
# What was said to models, and what they answered, secrets masked. Run again with replay=FILE: no model is asked.
"""
_SEPARATOR: Final = "---\n"
_FIRST_LINE: Final = re.compile(rf"{_TITLE}: (\d+)\s*$")
# No YAML, or a line break for some readers.
_ODD: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_SHORT: Final = 60
# Longer keys of a mapping are marked as such.
_KEY_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class InlineValue:
    """A value that is written on one line."""

    value: Any


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file, as it was read. Lines count from 1."""

    line: int
    content: Mapping[str, Any]


def format_header() -> str:
    """How each recording begins."""
    return _HEADER


def is_recording(path: Path) -> bool:
    """Whether a file begins as a recording does, of whatever version."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return _FIRST_LINE.match(file.readline(200)) is not None


def format_document(content: Mapping[str, Any]) -> str:
    """A document: mappings and lists in blocks, long texts line by line, everything else on one line."""
    return _SEPARATOR + "".join(f"{line}\n" for line in _mapping(content, ""))


def _mapping(content: Mapping[str, Any], pad: str) -> Iterator[str]:
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            yield f"{pad}{name}:"
            yield from _mapping(value, pad + "  ")
        elif isinstance(value, list) and value:
            yield f"{pad}{name}:"
            for item in value:
                yield from _item(item, pad)
        elif isinstance(value, str) and _is_block(value):
            yield from _block(f"{pad}{name}:", value, pad + "  ")
        else:
            yield f"{pad}{name}: {_flow(value)}"


def _item(item: Any, pad: str) -> Iterator[str]:
    if isinstance(item, Mapping) and item:
        first, *others = _mapping(item, pad + "  ")
        yield f"{pad}- {first[len(pad) + 2 :]}"
        yield from others
    else:
        yield f"{pad}- {_flow(item)}"


def _is_block(text: str) -> bool:
    """Whether a text is long enough to stand by itself, and can."""
    is_long = "\n" in text or len(text) > _SHORT
    return is_long and _ODD.search(text) is None and not text.rstrip("\n").endswith((" ", "\t")) and bool(text.strip())


def _block(head: str, text: str, pad: str) -> Iterator[str]:
    indent = "2" if text[0].isspace() else ""
    body = text.removesuffix("\n")
    chomp = "-" if body == text else "+" if body.endswith("\n") else ""
    yield f"{head} |{indent}{chomp}"
    for line in body.split("\n"):
        yield pad + line if line else ""


def _flow(value: Any) -> str:
    """A value as JSON that is YAML, too."""
    match value:
        case InlineValue():
            return _flow(value.value)
        case Mapping():
            return "{" + ", ".join(f"{_key(str(name))}: {_flow(each)}" for name, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str():
            return _ODD.sub(_escaped, json.dumps(value, ensure_ascii=False))
        case float() if value != value:
            return ".nan"
        case float() if abs(value) == float("inf"):
            return ".inf" if value > 0 else "-.inf"
    return json.dumps(value, default=str)


def _key(name: str) -> str:
    return f"? {_flow(name)} " if len(name) > _KEY_LIMIT else _flow(name)


def _escaped(odd: re.Match[str]) -> str:
    return f"\\u{ord(odd.group()):04x}"


def read_documents(path: Path) -> list[Document]:
    """The documents of a file after its header.

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
    documents, line = [], first.count("\n") + 1
    for number, part in enumerate(parts, start=1):
        documents.append(Document(line + 1, _loaded(path, part, line, is_last=number == len(parts))))
        line += 1 + part.count("\n")
    return documents


def describe_remedy(path: Path) -> str:
    """What to do where a recording is of no use."""
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


def _loaded(path: Path, text: str, line: int, *, is_last: bool) -> Mapping[str, Any]:
    """The content of one document; `line` is that of its separator."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        content = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        at = line + 1 + (mark.line if mark is not None else 0)
        raise ReplayError(_broken(path, at, getattr(error, "problem", None) or str(error), is_last)) from error
    if not isinstance(content, Mapping):
        raise ReplayError(_broken(path, line + 1, "a document is a mapping", is_last))
    return content


def _broken(path: Path, line: int, problem: str, is_last: bool) -> str:
    where = "ends in the middle of an exchange" if is_last else "is broken here"
    return f"{path}, line {line}: the recording {where} ({' '.join(problem.split())}). {describe_remedy(path)}"
