"""Spans in files: OTLP JSON, one document or one a line as the Collector writes it, and pages of Phoenix (T106)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from ensemble_notebook.domain.value_text import parse_instant
from ensemble_notebook.importers.foreign_span import ForeignSpan, ForeignSpanEvent

_HEAD_BYTES: Final = 400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATUS: Final[Mapping[str, Literal["ok", "error"]]] = {
    **dict.fromkeys(("1", "OK", "STATUS_CODE_OK"), "ok"),
    **dict.fromkeys(("2", "ERROR", "STATUS_CODE_ERROR"), "error"),
}


def has_spans(content: bytes) -> bool:
    """Whether a file is one of these, by how it begins."""
    head = b"".join(content[:_HEAD_BYTES].split())
    return head.startswith((b'{"resourceSpans":', b'{"resource_spans":', b'{"data":['))


def read_spans(content: bytes) -> tuple[list[ForeignSpan], bool]:
    """All spans of a file.

    Returns:
        The spans, and whether the last line was cut off and left out.

    Raises:
        ValueError: a document is no JSON, or has other values than such documents have; says where.
    """
    try:
        return list(_read_document(json.loads(content))), False
    except json.JSONDecodeError:
        lines = content.splitlines()
        if len(lines) < 2 or not has_spans(lines[0]):
            raise
    spans: list[ForeignSpan] = []
    for number, line in enumerate(lines, start=1):
        try:
            spans += _read_document(json.loads(line)) if line.strip() else ()
        except json.JSONDecodeError as error:
            if number == len(lines):
                return spans, True
            raise json.JSONDecodeError(f"line {number}: {error.msg}", error.doc, error.pos) from error
    return spans, False


def _read_document(document: Any) -> Iterator[ForeignSpan]:
    if not isinstance(document, Mapping):
        raise TypeError("a document of spans is an object")
    for resource in _get(document, "resourceSpans") or ():
        told = _read_attributes((resource.get("resource") or {}).get("attributes"))
        for group in _get(resource, "scopeSpans") or ():
            scope = str((group.get("scope") or {}).get("name") or "")
            yield from (_read_otlp(span, scope, told) for span in group.get("spans") or ())
    for span in document.get("data") or ():
        yield _read_phoenix(span) if "context" in span else _read_otlp(span, "", {})


def _read_otlp(span: Mapping[str, Any], scope: str, resource: Mapping[str, Any]) -> ForeignSpan:
    status = span.get("status") or {}
    end = _get(span, "endTimeUnixNano")
    events = [
        ForeignSpanEvent(
            str(each.get("name") or ""), int(_get(each, "timeUnixNano") or 0), _read_attributes(each.get("attributes"))
        )
        for each in span.get("events") or ()
    ]
    return ForeignSpan(
        trace_id=str(_get(span, "traceId") or ""),
        span_id=str(_get(span, "spanId") or ""),
        parent_id=_get(span, "parentSpanId") or None,
        name=str(span.get("name") or ""),
        start_ns=int(_get(span, "startTimeUnixNano") or 0),
        end_ns=int(end) if end else None,
        attributes=_read_attributes(span.get("attributes")),
        events=events,
        status=_STATUS.get(str(status.get("code")), "unset"),
        status_message=status.get("message") or None,
        scope=scope,
        resource=resource,
    )


def _read_phoenix(span: Mapping[str, Any]) -> ForeignSpan:
    place = span["context"]
    told = dict(span.get("attributes") or {})
    if span.get("span_kind") not in (None, "UNKNOWN"):
        told.setdefault("openinference.span.kind", span["span_kind"])
    events = [
        ForeignSpanEvent(str(each.get("name")), _read_time(each["timestamp"]), each.get("attributes") or {})
        for each in span.get("events") or ()
    ]
    return ForeignSpan(
        trace_id=str(place["trace_id"]),
        span_id=str(place["span_id"]),
        parent_id=span.get("parent_id") or None,
        name=str(span.get("name") or ""),
        start_ns=_read_time(span["start_time"]),
        end_ns=_read_time(span["end_time"]) if span.get("end_time") else None,
        attributes=told,
        events=events,
        status=_STATUS.get(str(span.get("status_code")), "unset"),
        status_message=span.get("status_message") or None,
    )


def _get(given: Mapping[str, Any], name: str) -> Any:
    """A field by its name in JSON, else by that of the protocol's own definition (``span_id``)."""
    if name in given:
        return given[name]
    return given.get("".join(f"_{each.lower()}" if each.isupper() else each for each in name))


def _read_time(text: str) -> int:
    since = parse_instant(text) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def _read_attributes(given: Iterable[Mapping[str, Any]] | None) -> dict[str, Any]:
    return {str(each["key"]): _read_value(each.get("value")) for each in given or ()}


def _read_value(given: Any) -> Any:
    """A value with its type beside it; of several, all but one are null."""
    if not isinstance(given, Mapping):
        return given
    told: Iterator[tuple[str, Any]] = ((name, each) for name, each in given.items() if each is not None)
    found: tuple[str, Any] = next(told, ("", None))
    kind, value = found
    kind = kind.replace("_", "").lower()
    if kind == "intvalue":
        return int(value)
    if kind == "arrayvalue":
        values = value.get("values")
        return [_read_value(each) for each in values] if isinstance(values, Sequence) else []
    return _read_attributes(value.get("values")) if kind == "kvlistvalue" else value
