"""The shape of an output, written in a cell: ``{title: str, score: int}`` or a JSON schema (C4).

Nodes in, a JSON schema of type object out. What types there are is known by `output_type`; here each mistake gets its
place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport, join_names, quote, suggest_name
from ensemble_notebook.cell.reading.values import describe_node, expect_value, read_data
from ensemble_notebook.cell.reading.yaml_nodes import ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.domain.definitions.json_schema import find_schema_faults
from ensemble_notebook.domain.definitions.output_type import Path, Verbatim, is_json_schema, read_type_fields


def read_inline_type(node: MappingNode, label: str, report: MistakeReport) -> dict[str, Any]:
    """Read a JSON schema, or fields as one; report what is wrong in it, and leave it out."""
    # as much of each value as tells a schema from fields
    kinds: dict[str, Any] = {
        key.text: {} if isinstance(each, MappingNode) else getattr(each, "text", None) for key, each in node.pairs
    }
    if is_json_schema(kinds):
        found: dict[str, Any] = read_data(node, label)
        is_wrong = not check_schema(node, label, report)
        for fault in () if is_wrong else find_schema_faults({"type": "object", **found}):
            is_wrong = True
            report.add_mistake(_find_node(node, fault.path).place, f"{label}: {fault.message}", fault.hint)
        return {"type": "object"} if is_wrong else found

    def place_mistake(path: Path, message: str, hint: str) -> None:
        report.add_mistake(_find_node(node, path).place, message, hint)

    fields = _read_fields(node, report)
    if node.pairs and not fields:  # none of them can be read, which has been reported
        return {"type": "object"}
    return read_type_fields(fields, label, place_mistake)


def _outline(node: Node) -> Any:
    """As much of a value as tells a schema from fields."""
    return node.text if isinstance(node, ScalarNode) else {} if isinstance(node, MappingNode) else None


def _read_fields(node: MappingNode, report: MistakeReport) -> dict[str, Any]:
    """The texts of the fields; what has no value is reported, and left out."""
    found = {}
    for key, each in node.pairs:
        try:
            found[key.text] = _read_text(each, f"the field {quote(key.text)}", report)
        except MisreadError as misread:
            report.add_misread(misread)
    return found


def _read_text(node: Node, label: str, report: MistakeReport) -> Any:
    expect_value(node, label)
    if isinstance(node, ScalarNode):
        return node.text if node.is_plain else Verbatim(node.text)
    if isinstance(node, MappingNode):
        fields = _read_fields(node, report)
        if node.pairs and not fields:
            raise MisreadError(node.place)
        return fields
    assert isinstance(node, ListNode)
    return [_read_text(item, f"an item of {label}", report) for item in node.items]


def _find_node(node: Node, path: Path) -> Node:
    for step in path:
        if isinstance(node, MappingNode):
            node = next(each for key, each in node.pairs if key.text == step)
        elif isinstance(node, ListNode):
            node = node.items[int(step)]
    return node


# Knows no key of the cell language.

JSON_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
SCHEMA_KEYWORDS: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems"}
)
SCHEMA_LIST_KEYWORDS: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
SCHEMA_MAPPING_KEYWORDS: Final = frozenset(
    {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
)
VALUE_KEYWORDS: Final = frozenset(
    {
        *("type", "enum", "const", "title", "description", "default", "examples", "required", "format", "pattern"),
        *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
        *("dependentRequired", "unevaluatedProperties", "contentEncoding", "contentMediaType", "deprecated"),
        *("readOnly", "writeOnly", "$schema", "$id", "$ref", "$anchor", "$comment", "$dynamicRef", "$dynamicAnchor"),
    }
)
_KEYWORDS: Final = sorted(SCHEMA_KEYWORDS | SCHEMA_LIST_KEYWORDS | SCHEMA_MAPPING_KEYWORDS | VALUE_KEYWORDS)


def check_schema(node: Node, label: str, report: MistakeReport) -> bool:
    """Report the keywords and types that JSON schemas do not have, in this one and in those inside it; true if none."""
    if isinstance(node, ScalarNode) and node.text in ("true", "false"):
        return True
    if not isinstance(node, MappingNode):
        message = f"{label} takes a JSON schema, and this is {describe_node(node)}."
        report.add_mistake(node.place, message, "Write e.g. {type: string}.")
        return False
    is_spelt = True
    for key, each in node.pairs:
        if key.text not in _KEYWORDS and not key.text.startswith("x-"):
            message = f"{quote(key.text)} is no keyword of JSON schemas.{suggest_name(key.text, _KEYWORDS)}"
            report.add_mistake(key.place, message, "Keywords of your own begin with x-.")
            is_spelt = False
        elif key.text == "type":
            is_spelt &= _check_types(each, report)
        for name, inner in _find_inner_schemas(key.text, each):
            is_spelt &= check_schema(inner, quote(name), report)
    return is_spelt


def _find_inner_schemas(keyword: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Find the schemas that a keyword holds, with what they are called."""
    if keyword in SCHEMA_KEYWORDS:
        yield keyword, node
    elif keyword in SCHEMA_LIST_KEYWORDS and isinstance(node, ListNode):
        yield from ((keyword, item) for item in node.items)
    elif keyword in SCHEMA_MAPPING_KEYWORDS and isinstance(node, MappingNode):
        yield from ((key.text, each) for key, each in node.pairs)


def _check_types(node: Node, report: MistakeReport) -> bool:
    is_spelt = True
    for each in node.items if isinstance(node, ListNode) else [node]:
        if not isinstance(each, ScalarNode) or each.text not in JSON_TYPES:
            word = each.text if isinstance(each, ScalarNode) else describe_node(each)
            message = f"{quote(word)} is no type of JSON.{suggest_name(word, JSON_TYPES)}"
            report.add_mistake(each.place, message, f"Types are: {join_names(JSON_TYPES)}.")
            is_spelt = False
    return is_spelt
