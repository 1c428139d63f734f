"""The shape of an output, written in a cell: ``{title: str, score: int}`` or a JSON schema (C4).

Nodes in, a JSON schema of type object out. Resolves no names, and knows no keys of the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.cell.reading.json_schema import check_schema, is_schema
from ensemble_notebook.cell.reading.values import expect_value, read_data, to_plain_value
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport, join_names, quote
from ensemble_notebook.cell.text.suggestions import suggest_name
from ensemble_notebook.cell.text.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

TYPE_WORDS: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("str", "string", "text"), "string"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    "any": None,
}
NULL_WORDS: Final = ("null", "None", "none")
_BAR: Final = "|"
_SHOWN: Final = (
    "Types are: str, int, float, bool, any, [str] for a list, {name: str} for fields, `yes | no` for one of these "
    "words; `str?` may be missing."
)


def read_inline_type(node: MappingNode, label: str, report: MistakeReport) -> dict[str, Any]:
    """Read a JSON schema, or fields as one; report what is wrong in it, and leave it out."""
    if not is_schema(node):
        return _read_type_fields(node, label, report)
    check_schema(node, label, report)
    found: dict[str, Any] = read_data(node, label)
    return found


def is_type(text: str) -> bool:
    """True for the type of a field alone, such as ``str`` or ``yes | no``."""
    return text.strip().removesuffix("?") in TYPE_WORDS or _BAR in text


def _read_type_fields(node: MappingNode, label: str, report: MistakeReport) -> dict[str, Any]:
    """Make the schema of an object with these fields; those without ``?`` are required, all others refused."""
    properties: dict[str, Any] = {}
    required = []
    if not node.pairs:
        report.add_mistake(node.place, f"{label} has no fields.", "Write {title: str, score: int}.")
    for key, each in node.pairs:
        try:
            schema, is_optional = _read_field_type(each, f"the field {quote(key.text)}", report)
        except MisreadError as misread:
            report.add_misread(misread)
            continue
        properties[key.text] = schema
        required += [] if is_optional else [key.text]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _read_field_type(node: Node, label: str, report: MistakeReport) -> tuple[dict[str, Any], bool]:
    """Read the schema of one field, and whether the field may be missing."""
    expect_value(node, label)
    if isinstance(node, ScalarNode):
        return _read_scalar_type(node, label)
    if isinstance(node, MappingNode):
        return _read_type_fields(node, label, report), False
    if not isinstance(node, ListNode) or len(node.items) != 1:
        raise MisreadError(node.place, f"{label} is a list: write the one type of its items in it.", _SHOWN)
    items, is_optional = _read_field_type(node.items[0], f"an item of {label}", report)
    if is_optional:
        raise MisreadError(node.items[0].place, "an item of a list can't be missing.", "Remove the '?'.")
    return {"type": "array", "items": items}, False


def _read_scalar_type(node: ScalarNode, label: str) -> tuple[dict[str, Any], bool]:
    text = node.text.strip()
    word = text.removesuffix("?")
    if _BAR in text:
        return _read_alternatives(node, label, word, is_optional=word != text), word != text
    if word not in TYPE_WORDS:
        message = f"{label} takes a type, and {quote(text)} is none.{suggest_name(word, TYPE_WORDS)}"
        raise MisreadError(node.place, message, _SHOWN)
    kind, is_optional = TYPE_WORDS[word], word != text
    if kind is None:
        return {}, is_optional
    return {"type": [kind, "null"] if is_optional else kind}, is_optional


def _read_alternatives(node: ScalarNode, label: str, text: str, *, is_optional: bool) -> dict[str, Any]:
    """Read ``int | str``, a union of types, or ``billing | other``, of which the value is one (C6a)."""
    parts = [part.strip() for part in text.split(_BAR)]
    types = [part for part in parts if part in TYPE_WORDS or part in NULL_WORDS]
    if "" in parts:
        raise MisreadError(node.place, f"{label} has a '{_BAR}' with nothing beside it.", f"Remove it. {_SHOWN}")
    if marked := next((part for part in parts if part.endswith("?")), None):
        message = f"{label} has a '?' behind {quote(marked)}, and it belongs behind the last word."
        raise MisreadError(node.place, message, _SHOWN)
    if repeated := next((part for part in parts if parts.count(part) > 1), None):
        raise MisreadError(node.place, f"{label} has {quote(repeated)} twice.", "Remove one of them.")
    if types and len(types) < len(parts):
        others = [part for part in parts if part not in types]
        message = f"{label} mixes types ({join_names(types)}) and words ({join_names(others)})."
        close = next(filter(None, (suggest_name(each, TYPE_WORDS) for each in others)), "")
        raise MisreadError(node.place, message + close, "Of words alone it is one of them, of types alone any of them.")
    if types:
        return _make_union(types, is_optional=is_optional)
    words = [_read_word(node, part) for part in parts]
    kind: dict[str, Any] = {}
    if all(isinstance(word, str) for word in words):  # native schemas of some servers want a type beside an enum
        kind = {"type": ["string", "null"] if is_optional else "string"}
    return {**kind, "enum": [*words, None] if is_optional else words}


def _make_union(names: list[str], *, is_optional: bool) -> dict[str, Any]:
    """Make the schema of any of these types; ``any`` among them allows everything."""
    kinds = ["null" if name in NULL_WORDS else TYPE_WORDS[name] for name in names] + (["null"] if is_optional else [])
    return {} if None in kinds else {"type": list(dict.fromkeys(kinds))}


def _read_word(node: ScalarNode, text: str) -> Any:
    """Read one of the words as YAML does where it stands alone: ``1 | 2`` are numbers, not texts."""
    return to_plain_value(ScalarNode(node.start, node.end, node.place, text, is_plain=node.is_plain))
