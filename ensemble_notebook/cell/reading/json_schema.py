"""JSON schemas written in a cell: their words are checked, since a misspelt one would go unheeded (C11a).

Knows no key of the cell language.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ensemble_notebook.cell.reading.values import describe_node
from ensemble_notebook.cell.text.mistakes import MistakeReport, join_names, quote
from ensemble_notebook.cell.text.suggestions import suggest_name
from ensemble_notebook.cell.text.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

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


def is_schema(node: MappingNode) -> bool:
    """True for a mapping that can only be meant as a JSON schema."""
    pairs = {key.text: each for key, each in node.pairs}
    kind = pairs.get("type")
    return (
        (isinstance(kind, ScalarNode) and kind.text == "object")
        or isinstance(pairs.get("properties"), MappingNode)
        or any(key.startswith("$") for key in pairs)
    )


def check_schema(node: Node, label: str, report: MistakeReport) -> None:
    """Report the keywords and types that JSON schemas do not have, in this one and in those inside it."""
    if isinstance(node, ScalarNode) and node.text in ("true", "false"):
        return
    if not isinstance(node, MappingNode):
        message = f"{label} takes a JSON schema, and this is {describe_node(node)}."
        report.add_mistake(node.place, message, "Write e.g. {type: string}.")
        return
    for key, each in node.pairs:
        if key.text not in _KEYWORDS and not key.text.startswith("x-"):
            message = f"{quote(key.text)} is no keyword of JSON schemas.{suggest_name(key.text, _KEYWORDS)}"
            report.add_mistake(key.place, message, "Keywords of your own begin with x-.")
        elif key.text == "type":
            _check_types(each, report)
        for name, inner in _find_inner_schemas(key.text, each):
            check_schema(inner, quote(name), report)


def _find_inner_schemas(keyword: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Find the schemas that a keyword holds, with what they are called."""
    if keyword in SCHEMA_KEYWORDS:
        yield keyword, node
    elif keyword in SCHEMA_LIST_KEYWORDS and isinstance(node, ListNode):
        yield from ((keyword, item) for item in node.items)
    elif keyword in SCHEMA_MAPPING_KEYWORDS and isinstance(node, MappingNode):
        yield from ((key.text, each) for key, each in node.pairs)


def _check_types(node: Node, report: MistakeReport) -> None:
    for each in node.items if isinstance(node, ListNode) else [node]:
        if not isinstance(each, ScalarNode) or each.text not in JSON_TYPES:
            word = each.text if isinstance(each, ScalarNode) else describe_node(each)
            message = f"{quote(word)} is no type of JSON.{suggest_name(word, JSON_TYPES)}"
            report.add_mistake(each.place, message, f"Types are: {join_names(JSON_TYPES)}.")
