"""What a structured output is by now, read from the beginning of a reply that is still being written (E132).

Knows texts and types; whose reply it is, and what came before it, is `ensemble.partial_outputs`'s.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from ensemble_notebook.domain.definitions.json_schema import SCHEMA_DATA, make_validator
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.engine.agent.structured_output import JSON_START, OPENING_QUOTES, OutputFormat, scan_json

_TEXT: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(0x20)}
_IN_NUMBERS: Final = "+-.0123456789Ee"
_LONGEST_WORD: Final = len("-Infinity")
# In place of the last character of a text that is not whole. A private character stands in no word of an enumeration.
_MARK: Final = "\ue000"
# What only the whole of a value has to keep to, and not its beginning.
_OF_THE_WHOLE: Final = frozenset(
    {
        *("required", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "not"),
        *("minItems", "minLength", "minProperties", "contains", "minContains", "uniqueItems", "if", "then", "else"),
    }
)
_OF_NAMES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})


class PartialFormat:
    """What the beginning of an output has to be.

    Args:
        output_format: of the whole.
    """

    def __init__(self, output_format: OutputFormat) -> None:
        schema = output_format.schema
        self._whole = output_format
        self._validator = make_validator(_loosen(schema))
        # A class leaves out what it does not know; a schema says itself whether it takes that.
        root = schema.get("$defs", {}).get(schema.get("$ref", "").rpartition("/")[2], schema)
        is_open = isinstance(output_format.kind, Mapping) or root.get("additionalProperties")
        self._names = None if is_open else frozenset(root.get("properties", ()))

    def read_whole(self, text: str, value: Any) -> dict[str, Any] | None:
        """The fields of a finished output, as the model wrote them, or else as the type writes them.

        None where it is a list, or a class that can't be written as JSON.

        Args:
            text: of the output.
            value: the output itself.
        """
        try:
            fields = json.loads(
                json.dumps(self._whole.find(text)[0])
            )  # numbers that a Decimal is made of are floats then
            is_plain = isinstance(fields, dict) and self._validator.is_valid(fields)
        except ValueError:  # a person has worded it, or a handler, which need not write JSON
            is_plain = False
        if not is_plain:  # such as "7" where the type has 7
            try:
                fields = self._whole.to_json(value)
            except ValueError:
                return None
        return self.keep_known(fields) if isinstance(fields, dict) else None

    def keep_known(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields that the type has."""
        return fields if self._names is None else {name: each for name, each in fields.items() if name in self._names}

    def find_wrong(self, value: Any) -> list[list[str | int]]:
        """The places of what does not fit where it stands."""
        return [list(each.instance_path) for each in self._validator.iter_errors(value)]


class PartialReader:
    """Reads one reply, again and again while it grows.

    Args:
        kind: of the output.
    """

    def __init__(self, kind: PartialFormat) -> None:
        self._kind = kind
        self._start = 0

    def read(self, reply: str) -> dict[str, Any]:
        """The fields that are there by now, as JSON has them; empty where there is none.

        A text that is not whole is there as far as it is. A number, a truth, or a text that has to be one of some words
        or of some form is absent until it is whole, and so is what does not fit its place.
        """
        if "\ud800" <= reply[-1:] <= "\udbff":  # the first half of a character
            reply = reply[:-1]
        reply = mend_text(reply)
        while (found := JSON_START.search(reply, self._start)) is not None:
            self._start, is_json = found.start(), True
            try:
                if not self._is_quoted(reply) and (fields := self._read_from(reply[self._start :])):
                    return fields
            except ValueError:
                is_json = False
            regions, end = scan_json(reply, self._start)
            if regions[-1:] == [(self._start, end)]:
                self._start = end  # all of it is there, and it is something else
            elif is_json or _is_cut(reply[end:].lstrip()):
                break
            else:
                self._start = end
        return {}

    def _is_quoted(self, reply: str) -> bool:
        """Whether what begins here is quoted, which the whole of a reply is not, whatever it stands in."""
        before = reply[: self._start]
        line = before.rpartition("\n")[2].lstrip(" \t-*+.)0123456789")
        return line.startswith(">") or (before[-1:] in OPENING_QUOTES and before.strip() != before[-1])

    def _read_from(self, text: str) -> dict[str, Any]:
        """The fields of the object with which a text begins; empty where it is of another type.

        Raises:
            ValueError: it begins with no JSON.
        """
        value, closed = _parse(text, "trailing-strings"), _parse(text, "on")
        if value == closed:
            cut = text.rstrip(_IN_NUMBERS)
            if text[len(cut) :][:1] in tuple("-0123456789"):
                value = _parse(cut, "on")  # more digits may follow
            wrong = self._kind.find_wrong(value)
        else:
            holder, key = _find_last(value)
            begun = holder[key]
            holder[key] = begun[:-1] + _MARK
            wrong = self._kind.find_wrong(value)
            holder[key] = begun
            if wrong and wrong != (others := self._kind.find_wrong(closed)):
                value, wrong = closed, others  # any other end would be as wrong: it is no text of one's own words
        for path in wrong:
            if not path:
                return {}
            _remove(value, path)
        if not isinstance(value, dict):
            return {}
        return self._kind.keep_known(value)


def continues(later: Any, earlier: Any) -> bool:
    """Whether a value only adds to an earlier one: fields, items, the rest of a text."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return all(name in later and continues(later[name], each) for name, each in earlier.items())
    if isinstance(earlier, list) and isinstance(later, list):
        return len(earlier) <= len(later) and all(map(continues, later, earlier))
    if isinstance(earlier, str) and isinstance(later, str):
        return later.startswith(earlier)
    return bool(later == earlier)


def _parse(text: str, mode: Literal["on", "trailing-strings"]) -> Any:
    """Read a JSON text as far as it has come, with its last text where that is not whole, or without.

    Raises:
        ValueError: it is no JSON, or has a field twice, of which the second would take the place of the first.
    """
    from jiter import from_json

    read = functools.partial(from_json, partial_mode=mode, allow_inf_nan=False, catch_duplicate_keys=True)
    try:
        return read(text.encode())
    except ValueError:
        if _CONTROL.search(text) is None:
            raise
        # It may have line breaks in its texts, with which replies are read.
        return read(_TEXT.sub(lambda found: found[0].translate(_ESCAPES), text).encode())


def _is_cut(rest: str) -> bool:
    """Whether what stands behind the last whole token may be the beginning of another one."""
    begun = _TEXT.match(rest)
    return len(rest) < _LONGEST_WORD if begun is None else begun.end() == len(rest)


def _find_last(value: Any) -> tuple[Any, Any]:
    """The object or list in which the last of all values stands, and where in it."""
    holder: Any = {"": value}
    key: Any = ""
    while isinstance(value, dict | list) and value:
        holder, key = value, next(reversed(value)) if isinstance(value, dict) else len(value) - 1
        value = holder[key]
    return holder, key


def _remove(value: Any, path: list[str | int]) -> None:
    """Remove what stands at a place, if it is there still; from a list all that follows, too, so that nothing moves."""
    *way, last = path
    try:
        for key in way:
            value = value[key]
        del value[last if isinstance(value, dict) else slice(last, None)]
    except (KeyError, IndexError):
        return


def _loosen(schema: Any) -> Any:
    """A schema that the beginning of whatever fits this one fits, too."""
    if isinstance(schema, list | tuple):
        return [_loosen(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for word, given in schema.items():
        if word in _OF_NAMES:
            made[word] = {name: _loosen(each) for name, each in given.items()}
        elif word not in _OF_THE_WHOLE:
            made[word] = given if word in SCHEMA_DATA else _loosen(given)
    also = list(made.get("allOf", ()))
    if "oneOf" in made:  # the beginning may fit several
        also.append({"anyOf": made.pop("oneOf")})
    if "format" in made:
        also.append({"not": {"pattern": _MARK}})
    return {**made, "allOf": also} if also else made
