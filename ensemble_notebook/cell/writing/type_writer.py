"""Writes output types: as fields such as ``{title: str}`` if that gives the same schema, otherwise as a JSON schema.

The written form is read back and used only if it gives the same schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.cell.reading.inline_types import read_inline_type
from ensemble_notebook.cell.text.mistakes import CellError, MistakeReport
from ensemble_notebook.cell.text.source_text import SourceText
from ensemble_notebook.cell.text.yaml_nodes import MappingNode
from ensemble_notebook.cell.text.yaml_tree import read_tree
from ensemble_notebook.cell.writing.yaml_text import write_flow

_NAMES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
_OBJECT: Final = {"type", "properties", "required", "additionalProperties"}


def write_output_type(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write a JSON schema as a cell has it; None where a cell can't say it."""
    for written in (_write_fields(schema), _to_plain(schema)):
        if isinstance(written, dict) and _read(written) == _order(_to_plain(schema)):
            return written
    return None


def _read(written: dict[str, Any]) -> Any:
    """What a cell would read, in its order; None where it would not read it."""
    report = MistakeReport(SourceText(write_flow(written)))
    try:
        with report:
            node = read_tree(report)
            found = read_inline_type(node, "it", report) if isinstance(node, MappingNode) else None
    except CellError:
        return None
    return _order(found)


def _order(schema: Any) -> Any:
    """The same with the order of mappings in it, which models see."""
    if isinstance(schema, Mapping):
        return [(name, _order(each)) for name, each in schema.items()]
    return [_order(each) for each in schema] if isinstance(schema, list) else (type(schema), schema)


def _to_plain(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {name: _to_plain(each) for name, each in schema.items()}
    return [_to_plain(each) for each in schema] if isinstance(schema, list | tuple) else schema


def _write_fields(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write an object as its fields; None where it is none that fields could mean."""
    properties = schema.get("properties")
    if set(schema) != _OBJECT or not isinstance(properties, Mapping) or not properties:
        return None
    written = {}
    for name, each in properties.items():
        kind = _write_type(each) if isinstance(each, Mapping) else None
        if kind is None:
            return None
        is_optional = name not in schema["required"]
        if is_optional and not isinstance(kind, str):
            return None
        written[name] = _mark_optional(kind) if is_optional else kind
    return written


def _mark_optional(kind: str) -> str:
    parts = [part for part in kind.split(" | ") if part != "null"]
    return f"{' | '.join(parts)}?"


def _write_type(schema: Mapping[str, Any]) -> Any:
    if not schema:
        return "any"
    if isinstance(schema.get("enum"), list):
        words = [each for each in schema["enum"] if each is not None]
        return " | ".join(each if isinstance(each, str) else write_flow(each) for each in words)
    if set(schema) == {"type", "items"} and schema["type"] == "array":
        items = _write_type(schema["items"]) if isinstance(schema["items"], Mapping) else None
        return None if items is None else [items]
    if set(schema) == {"type"}:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        names = [_NAMES.get(each) if isinstance(each, str) else None for each in kinds]
        return " | ".join(each for each in names if each is not None) if all(names) else None
    return _write_fields(schema)
