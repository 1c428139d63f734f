"""A value that fits a JSON schema, for models that are none (E41).

As far as that is simple: patterns and rules between fields are left unread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

DEEPEST: Final = 6
"""Further inside, there is only what must be there, so that a type that holds itself has an end."""

_FORMATS: Final = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "nobody@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class Examples:
    """Values for a schema, which refers to nothing outside; whoever needs one to fit has to check it.

    Args:
        root: the schema.
        text: what is said wherever any text will do.
    """

    def __init__(self, root: Mapping[str, Any], text: str) -> None:
        self._root = root
        self._text = text

    def make(self, schema: Any, depth: int) -> Any:
        """The value of a part; None where nothing simple is known of it."""
        if not isinstance(schema, Mapping) or depth > 2 * DEEPEST:
            return None
        if given := self._list_given(schema):
            return given[0]
        other = self._find_other(schema, depth)
        return self._make_by_type(schema, depth) if other is None else self.make(other, depth + 1)

    def _list_given(self, schema: Mapping[str, Any]) -> Sequence[Any]:
        """The values that a part names itself, the one to take first."""
        given = [schema[name] for name in ("const", "default") if name in schema]
        return given or schema.get("enum") or schema.get("examples") or ()

    def _find_other(self, schema: Mapping[str, Any], depth: int) -> Any:
        """The schema that says what this one leaves to others; None where it says it itself."""
        if "$ref" in schema:
            return self._resolve(schema["$ref"])
        if parts := schema.get("anyOf") or schema.get("oneOf"):
            return _choose(parts, depth)
        return next(iter(schema.get("allOf", ())), None)

    def _make_by_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                return self._make_object(schema, depth)
            case "array":
                return self._make_array(schema, depth)
            case "integer" | "number":
                return self._make_number(schema)
            case "boolean":
                return self._make_flag()
            case "string":
                return self._make_text(schema)
        return None

    def _resolve(self, reference: str) -> Any:
        found: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(name) if isinstance(found, Mapping) and name else found
        return found

    def _make_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self.make(part, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if depth < DEEPEST or name in required
        }

    def _make_array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        known = [self.make(each, depth + 1) for each in schema.get("prefixItems", ())]
        wanted = max(schema.get("minItems", 0), int(depth < DEEPEST and schema.get("maxItems") != 0))
        if known or "items" not in schema:
            return known or [self._text] * wanted
        return [self.make(schema["items"], depth + 1) for _ in range(wanted)]

    def _make_flag(self) -> bool:
        return False

    def _make_number(self, schema: Mapping[str, Any]) -> float:
        """0, else a number next to a bound, or between the two."""
        return next(_list_numbers(schema), 0)

    def _make_text(self, schema: Mapping[str, Any]) -> str:
        text = _FORMATS.get(schema.get("format", ""), self._text)
        return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]


def _choose(parts: list[Any], depth: int) -> Any:
    """The first that is something; deep inside nothing, where that will do."""
    nothing = [each for each in parts if isinstance(each, Mapping) and each.get("type") == "null"]
    something = [each for each in parts if each not in nothing]
    first, second = (nothing, something) if depth >= DEEPEST else (something, nothing)
    return (first or second)[0]


def _list_numbers(schema: Mapping[str, Any]) -> Iterator[float]:
    """0, the numbers next to a bound and one between the two, as far as they are allowed."""
    step = schema.get("multipleOf", 1)
    lows = [schema[name] for name in ("minimum", "exclusiveMinimum") if name in schema]
    highs = [schema[name] for name in ("maximum", "exclusiveMaximum") if name in schema]
    numbers = [(bound // step + offset) * step for bound in (*lows, *highs) for offset in (0, 1, -1)]
    if lows and highs:
        numbers.append((max(lows) + min(highs)) / 2)
    least, most = max(lows, default=-math.inf), min(highs, default=math.inf)
    excluded = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    return (each for each in (0, *numbers) if least <= each <= most and each not in excluded)


_PRAISE: Final = ("pass", "approve", "accept", "yes", "good")


class Praise(Examples):
    """The best value for a schema: yes, a word of praise, the top of a range, whatever the default is."""

    def _list_given(self, schema: Mapping[str, Any]) -> Sequence[Any]:
        return [schema["const"]] if "const" in schema else sorted(schema.get("enum", ()), key=_rank)

    def _make_flag(self) -> bool:
        return True

    def _make_number(self, schema: Mapping[str, Any]) -> float:
        """The top of a range; of one without a top, 1 or what is allowed."""
        if "maximum" in schema or "exclusiveMaximum" in schema:
            return max(_list_numbers(schema), default=0)
        return next(_list_numbers({"minimum": 1, **schema}), 0)


def _rank(value: Any) -> tuple[int, float]:
    """The best is the lowest; words that praise nobody are alike."""
    if isinstance(value, int | float):
        return 0, -value
    word = str(value).casefold()
    return (_PRAISE.index(word) if word in _PRAISE else len(_PRAISE)), 0
