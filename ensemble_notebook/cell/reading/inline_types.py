"""The shape of an output, written in a cell: ``{title: str, score: int}`` or a JSON schema (C4).

Nodes in, a JSON schema of type object out. Resolves no names, and knows no keys of the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.cell.reading.json_schema import check_schema, is_schema
from ensemble_notebook.cell.reading.values import expect_value, read_data
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport, quote, suggest_name
from ensemble_notebook.cell.text.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

_TYPES: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("str", "string", "text"), "string"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    "any": None,
}
_SHOWN: Final = (
    "Types are: str, int, float, bool, any, [str] for a list, {name: str} for fields; `str?` may be missing."
)


def read_inline_type(node: MappingNode, label: str, report: MistakeReport) -> dict[str, Any]:
    """Read a JSON schema, or fields as one; report what is wrong in it, and leave it out."""
    if not is_schema(node):
        return _read_type_fields(node, label, report)
    check_schema(node, label, report)
    found: dict[str, Any] = read_data(node, label)
    return found


def is_type(text: str) -> bool:
    """True for the name of a type alone, such as ``str``."""
    return text.strip().removesuffix("?") in _TYPES


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
    if word not in _TYPES:
        message = f"{label} takes a type, and {quote(text)} is none.{suggest_name(word, _TYPES)}"
        raise MisreadError(node.place, message, _SHOWN)
    kind, is_optional = _TYPES[word], word != text
    if kind is None:
        return {}, is_optional
    return {"type": [kind, "null"] if is_optional else kind}, is_optional
