"""The fields of a request beside its messages: the schema of its reply, and which ones a server takes at all.

Which of those that nobody has asked for it takes is learned from what it refuses, and remembered for the address as
long as the process lives. Knows the JSON of requests and refusals; nothing of HTTP, nor which model takes a schema.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ensemble_notebook.models.openai.endpoint import is_openai_url

_LIMIT: Final = "max_completion_tokens"
_OLD_LIMIT: Final = "max_tokens"
_OTHER: Final = {_LIMIT: _OLD_LIMIT, _OLD_LIMIT: _LIMIT}
_NAMED: Final = re.compile(r"(?<!\w)(stream_options|include_usage|max_completion_tokens|max_tokens)(?!\w)")
# Said of a field that the server knows, with another value.
_OF_VALUE: Final = re.compile(
    r"too (?:large|big|high|long|small|low)|exceed|at (?:most|least)|(?:less|greater|more|larger|smaller|higher) than"
    r"|maximum|minimum|between|above|below|range|invalid value|positive|must be|should be|<=|>=|context",
    re.IGNORECASE,
)
# Said of one that it does not know, also where it lists what it does know ("must be one of ...").
_OF_NAME: Final = re.compile(
    r"(?:unknown|unrecogni[sz]ed|unexpected|unsupported) (?:\w+ )?(?:field|parameter|argument|property|key)(?! value)"
    r"|is (?:unsupported|unknown)|extra (?:inputs|fields)",
    re.IGNORECASE,
)
_REFUSALS: Final = (400, 422)
_CHANGED: Final = "has_changed_request"
# Where a refusal has the request, or a part of it, in it.
_ECHOES: Final = frozenset({"input", "ctx", "body", "request"})


@functools.cache
def find_sent_fields(base_url: str) -> SentFields:
    """Find what is known of an address."""
    return SentFields(base_url)


def has_changed_request(error: BaseException) -> bool:
    """Whether the next request will be another one than that which this error refuses."""
    return getattr(error, _CHANGED, False) is True


class SentFields:
    """The fields that one address is sent.

    Servers know the limit of a reply by its newer or by its older name, and many pass over what they don't know: so
    each is sent both, but for OpenAI's own and Azure's, which refuse that and know the newer one.

    Args:
        base_url: the address.
    """

    def __init__(self, base_url: str) -> None:
        host = f".{urlsplit(base_url).hostname}"
        self._has_one_limit = is_openai_url(base_url) or host.endswith(".azure.com")
        self._refused: set[str] = set()

    def fit(self, body: dict[str, Any]) -> None:
        """Change a request to what the address is known to take."""
        if not self._has_one_limit and (limit := body.get(_LIMIT)) is not None:
            body.setdefault(_OLD_LIMIT, limit)
        for name in self._refused & body.keys():
            value = body.pop(name)
            if name in _OTHER:
                body.setdefault(_OTHER[name], value)

    def learn(self, error: Any, sent: Mapping[str, Any]) -> None:
        """Learn from a refusal which field of the request was too much, and mark the error where there is one.

        A limit is left out under one name only: a reply without any may take all that there is.

        Args:
            error: an ``openai.APIStatusError``.
            sent: the request.
        """
        if error.status_code not in _REFUSALS:
            return
        words = " ".join(_iterate_words(error.body)) or str(error)
        is_of_value = _OF_VALUE.search(words) is not None and _OF_NAME.search(words) is None
        for name in _NAMED.findall(words):
            field = "stream_options" if name == "include_usage" else name
            if field not in sent or (field in _OTHER and (is_of_value or _OTHER[field] in self._refused)):
                continue
            self._refused.add(field)
            setattr(error, _CHANGED, True)
            return


def _iterate_words(said: Any) -> Iterator[str]:
    """Iterate over the texts of a refusal, without the request that it may repeat."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, list):
        for each in said:
            yield from _iterate_words(each)
    elif isinstance(said, Mapping):
        for name, each in said.items():
            if name not in _ECHOES:
                yield from _iterate_words(each)


# --- A JSON schema as a model behind the protocol takes it, to hold its reply to it by itself (E16) -------------------


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
