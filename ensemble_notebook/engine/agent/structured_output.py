"""Structured output: the schema of an output type, and values read from what a model wrote (E16).

Knows texts and types; asking a model again is `agent_runner`'s.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import typing
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.json_schema import make_validator
from ensemble_notebook.domain.value_text import DEEPEST, read_float, read_json, to_plain
from ensemble_notebook.errors import OutputParsingError

_LONGEST_FAULT: Final = 2000


class OutputFormat:
    """One output type.

    Args:
        kind: a pydantic model, a dataclass, a TypedDict, or a JSON schema of type object.

    Attributes:
        schema: JSON schema with a ``title``.
        to_json: writes a value of the type as plain data.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        if isinstance(kind, Mapping):
            self._read_float: Callable[[str], float] = float
            self.schema: dict[str, Any] = {"title": "Output", "type": "object", **kind}
            validate = make_validator(self.schema).validate
            self._check: Callable[[Any], Any] = lambda value: (validate(value), value)[1]
            self.to_json: Callable[[Any], Any] = to_plain
        else:
            from pydantic import TypeAdapter

            self._read_float = read_float  # a class may have Decimals
            adapter: TypeAdapter[Any] = TypeAdapter(_to_pydantic_type(kind))
            self.schema = {"title": kind.__name__, **adapter.json_schema()}
            self._check = adapter.validate_python
            self.to_json = functools.partial(adapter.dump_python, mode="json", by_alias=True)

    @property
    def instructions(self) -> str:
        """For the prompt of a model that is not held to the schema natively."""
        schema = json.dumps(self.schema, ensure_ascii=False, indent=2)
        return f"Reply with one JSON value that fits this schema, and with nothing else:\n```json\n{schema}\n```"

    def read(self, text: str) -> Any:
        """The one value in a reply that fits.

        Raises:
            ValueError: as `find`.
        """
        return self.find(text)[1]

    def find(self, text: str) -> tuple[Any, Any]:
        """The one value in a reply that fits, as it is written and as the type has it.

        It is the whole text, or in a fenced block or in prose; equal ones are one. A reply that quotes
        a value beside its own has said nothing yet: which of the two it means is not ours to guess.

        Raises:
            ValueError: nothing in it fits, which says what is wrong with the candidate that came first; or not one
                thing alone does.
        """
        values: dict[str, Any] = {}
        for value in find_json_values(text, parse_float=self._read_float):
            values.setdefault(json.dumps(value, sort_keys=True), value)
            if len(values) > MOST_VALUES:  # each is held to the type, which takes its time
                raise ValueError(f"it holds more than {MOST_VALUES:,} JSON values; write only one")
        fitting: list[tuple[Any, Any]] = []
        faults, attempts, required = [], [], set(self.schema.get("required", ()))
        for value in values.values():
            try:
                fitting.append((value, self._check(value)))
            except Exception as error:  # noqa: BLE001 - pydantic's, the schema validator's, or a validator of the user
                faults.append(_describe_fault(error))
                # One that is meant as of this type, and no schema.
                if isinstance(value, dict) and "properties" not in value and not required.isdisjoint(value):
                    attempts.append(faults[-1])
        if not fitting:
            raise ValueError(faults[0] if faults else "it holds no complete JSON value")
        # It may be meant in another notation than JSON, beside a value that fits.
        names = [found["name"] for found in _OTHER_NOTATION.finditer(text) if found["name"] in required]
        if names and not any(True for _ in _decode(strip_fence(text), {})):
            attempts.append(f"{names[0]}: it stands without double quotes")
        # An empty object in prose fits where all fields are optional, and is no opinion beside one that says something.
        answers = [each for each in fitting if each[0]] or fitting
        if attempts or any(answer != answers[0][1] for _, answer in answers):
            why = f"one does not fit ({attempts[0]})" if attempts else "all of them fit"
            raise ValueError(f"it holds several JSON values that differ, and {why}; write only the one that you mean")
        return answers[0]

    def read_whole(self, text: str) -> Any:
        """The value that a text is as a whole, in a fence or without: of one that was cut off, no part counts (E58).

        Raises:
            ValueError: it is no such value; says what is wrong.
        """
        return self.accept(read_whole_json(text, parse_float=self._read_float))

    def read_or_fail(self, text: str, value: Any = None) -> Any:
        """The value in a text that nobody can be asked to correct, or the one that is there already.

        Raises:
            OutputParsingError: it does not fit.
        """
        try:
            return self.read(text) if value is None else self.accept(value)
        except ValueError as error:
            raise self.make_error(text, [str(error)]) from None

    def make_error(self, text: str, faults: list[str], **facts: str) -> OutputParsingError:
        """The error of a text that can't be read, after as many attempts as there are faults."""
        return OutputParsingError(
            raw_output=text, output_type=self.kind, parse_errors=faults, attempt_count=len(faults), **facts
        )

    def accept(self, value: Any) -> Any:
        """A value that is there already, held to the type.

        Raises:
            ValueError: it does not fit; says what is wrong.
        """
        try:
            return self._check(value if isinstance(self.kind, type) else to_plain(value))  # classes know numpy
        except Exception as error:
            raise ValueError(_describe_fault(error)) from error


_make_format: Final = functools.lru_cache(maxsize=256)(OutputFormat)


def get_output_format(kind: Any) -> OutputFormat:
    """The format of an output type; made once for a class."""
    return _make_format(kind) if isinstance(kind, type) else OutputFormat(kind)


def _to_pydantic_type(kind: Any) -> Any:
    """The type itself; on Python 3.11, where pydantic can't look into a ``typing.TypedDict``, one that it can."""
    if sys.version_info >= (3, 12) or not typing.is_typeddict(kind):
        return kind
    from typing_extensions import TypedDict

    make: Any = TypedDict
    return make(kind.__name__, typing.get_type_hints(kind, include_extras=True), total=kind.__total__)


def _describe_fault(error: Exception) -> str:
    """What is wrong, on one line, with the place in the value; cut where there is no end of faults."""
    if callable(errors := getattr(error, "errors", None)):
        faults = [f"{'.'.join(map(str, each['loc'])) or 'the value'}: {each['msg']}" for each in errors()]
        text = "; ".join(faults)
    elif (path := getattr(error, "instance_path", None)) is not None:
        text = f"{'.'.join(map(str, path)) or 'the value'}: {getattr(error, 'message', error)}"
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_FAULT else text[:_LONGEST_FAULT] + " ..."


# --- Finds JSON values in what a model wrote, in time that is linear in its length, whatever its shape ----------------
#
# Why not simply try a decoder at every bracket: each try that fails may have read all of the text, so that 400 kB of
# opening brackets take half a minute. Here every character is looked at a few times at most.


# A reply of more values than this, or of more brackets that begin one, is no answer: what stands last may be meant.
MOST_VALUES: Final = 1000
MOST_STARTS: Final = 200_000
# So many characters are read a second time, which is enough for any reply that people read.
_MOST_REREAD: Final = 300_000

_FENCE: Final = re.compile(r"```[\w-]*+[ \t]*+\n(.*?)```", re.DOTALL)
_ONE_FENCE: Final = re.compile(r"\s*+```[\w-]*+[ \t]*+\n((?:(?!```).)*+)```\s*+", re.DOTALL)
# A line of a quotation in Markdown, also in an item of a list.
_QUOTED_LINE: Final = re.compile(r"^[ \t]*+(?:(?:[-*+]|\d++[.)])[ \t]++)?+>.*+$", re.MULTILINE)
_QUOTES: Final = frozenset({'""', "''", "“”", "„“", "„”", "‘’", "‚‘", "«»", "»«", "‹›", "›‹", "「」", "『』"})  # noqa: RUF001
OPENING_QUOTES: Final = frozenset(pair[0] for pair in _QUOTES)
# Before a value that is a field of an object as other languages write it: {'quoted': or {quoted:
_FIELD: Final = re.compile(r"(?:[{,]\s*'[^'\n]{1,40}'|\{\s*\w{1,40})\s*:\s*\Z")
_LONGEST_FIELD: Final = 60
_OTHER_NOTATION: Final = re.compile(r"\{\s*+(?P<quote>'?)(?P<name>\w++)(?P=quote)\s*+:")
# An opening bracket, and what may stand behind it in JSON.
JSON_START: Final = re.compile(r'\{\s*+["}]|\[\s*+["\[{\]\dtfnNI-]')
_TOKEN: Final = re.compile(
    r'[ \t\n\r]*+(?:(?P<text>"[^"\\]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*+)*+")'
    r"|(?P<mark>[{}\[\]:,])"
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null|NaN|-?Infinity)"
)
_VALUES: Final = ("text", "plain", "{", "[")
_CLOSED: Final = "closed"
# What may come next, by what a scan waits for, and what it waits for then.
_GRAMMAR: Final[Mapping[str, Mapping[str, str]]] = {
    "key or end": {"text": "colon", "}": _CLOSED},
    "key": {"text": "colon"},
    "colon": {":": "field"},
    "field": dict.fromkeys(_VALUES, "after field"),
    "after field": {",": "key", "}": _CLOSED},
    "item or end": {**dict.fromkeys(_VALUES, "after item"), "]": _CLOSED},
    "item": dict.fromkeys(_VALUES, "after item"),
    "after item": {",": "item", "]": _CLOSED},
}
_FIRST: Final = {"{": "key or end", "[": "item or end"}


def find_json_values(text: str, **how: Any) -> Iterator[Any]:
    """Find the JSON values of a text: the whole of it, else what is in fenced blocks, then those in prose.

    A value inside another one, complete or broken, is none of its own, and one in a quotation is somebody else's. `how`
    is as of `json.loads`.

    Raises:
        ValueError: it has too many brackets to tell.
    """
    whole = text.strip()
    for part in (whole, whole[1:-1] if whole[:1] + whole[-1:] in _QUOTES else ""):
        for value in _decode(part, how):
            yield value
            return
    for match in _FENCE.finditer(text):
        yield from _decode(match[1], how)
    for start, end in _find_regions(text):
        yield from _decode(text[start:end], how)


def read_whole_json(text: str, **how: Any) -> Any:
    """Read the one JSON value that a text is, in a fence or without; `how` is as of `json.loads`.

    Raises:
        ValueError: it is something else.
    """
    return read_json(strip_fence(text), strict=False, **how)


def strip_fence(text: str) -> str:
    """What stands in the one fence that a text is; the text itself where it is none."""
    fenced = _ONE_FENCE.fullmatch(text)
    return fenced[1] if fenced else text


def _decode(text: str, how: Mapping[str, Any]) -> Iterator[Any]:
    """Decode a text that is one value; nothing where it is none."""
    try:
        yield read_json(text, strict=False, **how)
    except ValueError:
        return


def _find_regions(text: str) -> Iterator[tuple[int, int]]:
    """Find where complete objects and lists begin and end, outside quotations: the outermost ones, from left to right.

    Raises:
        ValueError: it has too many brackets.
    """
    position, rereading = 0, _MOST_REREAD
    quoted = [match.span() for match in _QUOTED_LINE.finditer(text)]
    parts: dict[int, int] = {}  # of values that are broken: where they begin and end
    for _ in range(MOST_STARTS):
        start = JSON_START.search(text, position)
        if start is None:
            return
        begin = start.start()
        if begin in parts:
            position = parts[begin]
            continue
        regions, end = scan_json(text, begin)
        if regions[-1:] == [(begin, end)]:
            line = bisect_right(quoted, (begin, len(text))) - 1
            is_quoted = text[begin - 1 : begin] + text[end : end + 1] in _QUOTES or (
                line >= 0 and begin < quoted[line][1]
            )
            if not is_quoted and _FIELD.search(text, max(0, begin - _LONGEST_FIELD), begin) is None:
                yield begin, end
            position = end
            continue
        parts.update(regions)
        if rereading < end - begin:
            position = end
        else:
            # Prose has quotation marks, too: what was taken for a text may hold a value.
            rereading -= end - begin
            position = begin + 1
    raise ValueError("it has too many brackets to be read; write only one JSON value")


def scan_json(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """Read from an opening bracket until its value is complete, or until what comes is no JSON.

    A value inside that is complete would be so, too, if it was begun with. One that is not is broken at the same
    place: it need not be tried again.

    Returns:
        The complete values, the whole one or else those inside, and where to go on.
    """
    opened: list[tuple[int, str]] = []  # where, and what is waited for once it is closed
    complete: list[tuple[int, int]] = []
    position, awaited = start, "item"
    while (token := _TOKEN.match(text, position)) is not None:
        at = token.end() - 1
        kind = text[at] if token.lastgroup == "mark" else token.lastgroup or "plain"
        after = _GRAMMAR[awaited].get(kind)
        if after is None or len(opened) > DEEPEST:
            break
        position, awaited = token.end(), after
        if kind in _FIRST:
            opened.append((at, after))
            awaited = _FIRST[kind]
        elif after is _CLOSED:
            begin, awaited = opened.pop()
            while complete and complete[-1][0] > begin:
                complete.pop()
            complete.append((begin, position))
            if not opened:
                break
    return complete, max(start + 1, position)
