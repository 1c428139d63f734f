"""A JSON schema as a model behind the OpenAI protocol takes it, to hold its reply to it by itself (E16).

Knows schemas only; whether a model takes one is said by whoever knows the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

# What OpenAI's strict mode can hold a reply to.
_STRICT: Final = re.compile(
    r"\$defs|\$ref|additionalProperties|anyOf|const|definitions|description|enum|exclusiveMaximum|exclusiveMinimum|format|"
    r"items|maxItems|maximum|minItems|minimum|multipleOf|pattern|properties|required|title|type"
)
_KINDS: Final = frozenset({"type", "$ref", "anyOf", "enum", "const"})
_SCHEMAS_BY_NAME: Final = ("$defs", "definitions", "properties")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64


def make_response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make the ``response_format`` for a schema with a ``title``; strict where each of its values can be held to."""
    name = _NOT_IN_NAMES.sub("_", str(schema.get("title") or "Output"))[:_LONGEST_NAME]
    is_strict = schema.get("type") == "object" and _is_strict(schema)
    described_schema = _forbid_other_fields(schema) if is_strict else dict(schema)
    return {"type": "json_schema", "json_schema": {"name": name, "schema": described_schema, "strict": is_strict}}


def _is_strict(schema: Any) -> bool:
    """Whether strict mode takes it: every field required, and nothing said that it does not know, or left open."""
    if not isinstance(schema, Mapping) or not all(map(_STRICT.fullmatch, schema)) or not _KINDS & schema.keys():
        return False
    if ("$ref" in schema and len(schema) > 1) or (schema.get("type") == "array" and "items" not in schema):
        return False
    if schema.get("type") == "object" or "properties" in schema:
        fields = schema.get("properties")
        if not fields or schema.get("additionalProperties") or set(schema.get("required", ())) != set(fields):
            return False
    return all(map(_is_strict, _collect_subschemas(schema)))


def _collect_subschemas(schema: Mapping[str, Any]) -> list[Any]:
    """Collect the schemas that stand in a schema."""
    parts = [part for group in _SCHEMAS_BY_NAME for part in schema.get(group, {}).values()]
    return [*parts, *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]


def _forbid_other_fields(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema so that no object may have other fields, as strict mode wants it said."""
    made = dict(schema)
    for group in _SCHEMAS_BY_NAME:
        if group in made:
            made[group] = {name: _forbid_other_fields(part) for name, part in made[group].items()}
    if "anyOf" in made:
        made["anyOf"] = [_forbid_other_fields(part) for part in made["anyOf"]]
    if "items" in made:
        made["items"] = _forbid_other_fields(made["items"])
    if "properties" in made:
        made["additionalProperties"] = False
    return made
