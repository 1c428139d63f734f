"""A run as OTLP JSON (T115), which collectors and viewers of OpenTelemetry take."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.genai_spans import SCHEMA_URL, SCOPE, GenAiSpan, GenAiSpans


def make_otlp_trace(run_id: str, events: Iterable[Event]) -> dict[str, Any]:
    """The JSON object of a run: what has no end yet stands last and has none."""
    fold = GenAiSpans(has_texts=True)
    spans = [span for event in events for span in fold.read(event) if span.end_ns is not None]
    spans += fold.list_open()
    trace_id = _make_id(run_id, 16)
    scope = {
        "scope": {"name": SCOPE},
        "spans": [_write_span(span, trace_id) for span in spans],
        "schemaUrl": SCHEMA_URL,
    }
    resource = {"attributes": _write_attributes({"service.name": SCOPE})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope], "schemaUrl": SCHEMA_URL}]}


def _write_span(span: GenAiSpan, trace_id: str) -> dict[str, Any]:
    plain: dict[str, Any] = {"traceId": trace_id, "spanId": _make_id(span.span_id, 8)}
    if span.parent_id is not None:
        plain["parentSpanId"] = _make_id(span.parent_id, 8)
    # Whole numbers of 64 bits are texts in this form.
    plain |= {"name": span.name, "kind": 3 if span.is_client else 1, "startTimeUnixNano": str(span.start_ns)}
    if span.end_ns is not None:
        plain["endTimeUnixNano"] = str(span.end_ns)
    plain["attributes"] = _write_attributes(span.attributes)
    if span.error is not None:
        plain["status"] = {"code": 2, "message": span.error}
    return plain


def _write_attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _write_value(value)} for key, value in attributes.items()]


def _write_value(value: Any) -> dict[str, Any]:
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_write_value(each) for each in value]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}


def _make_id(ours: str, size: int) -> str:
    """The same run, the same ids: a file that is written twice is one trace for who takes both."""
    return hashlib.blake2b(ours.encode("utf-8", "replace"), digest_size=size).hexdigest()
