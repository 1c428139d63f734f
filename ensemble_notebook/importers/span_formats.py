"""One span as each format writes it: OTLP, Phoenix, Langfuse, Logfire (T106, T107, T108)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal

from ensemble_notebook.domain.outputs.secrets import mask_id
from ensemble_notebook.domain.value_text import mend_text, parse_instant
from ensemble_notebook.importers.foreign_span import ForeignSpan, ForeignSpanEvent

SpanObject = Mapping[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME_NS: Final = 253_402_300_800 * 10**9
"""The year 10000, which no calendar of ours has."""
_STATUS: Final[Mapping[str, Literal["ok", "error"]]] = {
    **dict.fromkeys(("1", "OK", "STATUS_CODE_OK"), "ok"),
    **dict.fromkeys(("2", "ERROR", "STATUS_CODE_ERROR"), "error"),
}
_NO_SPAN: Final = "0000000000000000"


def find_reader(given: SpanObject) -> Callable[[SpanObject], ForeignSpan] | None:
    """Who reads an object as a span, by the names that it has; None where it is none."""
    if isinstance(given.get("context"), Mapping):
        return read_phoenix
    if get_field(given, "startTimeUnixNano") is not None:
        return read_otlp
    if "span_id" in given:
        return read_logfire
    if "id" in given and "type" in given and get_field(given, "startTime") is not None:
        return read_langfuse
    return None


def read_otlp(span: SpanObject, scope: str = "", resource: SpanObject | None = None) -> ForeignSpan:
    """A span of OTLP JSON; Phoenix gives those, too.

    Raises:
        ValueError: it has no id, or a time that is none.
    """
    status, end = span.get("status") or {}, get_field(span, "endTimeUnixNano")
    events = [
        ForeignSpanEvent(
            str(each.get("name") or ""),
            int(get_field(each, "timeUnixNano") or 0),
            read_attributes(each.get("attributes")),
        )
        for each in span.get("events") or ()
    ]
    return ForeignSpan(
        trace_id=_read_id(get_field(span, "traceId"), "trace id"),
        span_id=_read_id(get_field(span, "spanId"), "id"),
        parent_id=_read_parent(get_field(span, "parentSpanId")),
        name=str(span.get("name") or ""),
        start_ns=_read_ns(get_field(span, "startTimeUnixNano"), "start"),
        end_ns=_read_ns(end, "end") if end and end != "0" else None,
        attributes=read_attributes(span.get("attributes")),
        events=events,
        status=_STATUS.get(str(status.get("code")), "unset"),
        status_message=status.get("message") or None,
        scope=scope,
        resource=resource or {},
    )


def read_phoenix(span: SpanObject) -> ForeignSpan:
    """A span as Phoenix gives it: OpenInference's attributes, and times as text.

    Raises:
        ValueError: it has no id, or a time that is none.
    """
    place = span["context"]
    told = _read_object(span.get("attributes"), "attributes")
    if span.get("span_kind") not in (None, "UNKNOWN"):
        told.setdefault("openinference.span.kind", span["span_kind"])
    events = [
        ForeignSpanEvent(
            str(each.get("name")), _read_time(each.get("timestamp"), "event"), each.get("attributes") or {}
        )
        for each in span.get("events") or ()
    ]
    return ForeignSpan(
        trace_id=_read_id(place.get("trace_id"), "trace id"),
        span_id=_read_id(place.get("span_id"), "id"),
        parent_id=_read_parent(span.get("parent_id")),
        name=str(span.get("name") or ""),
        start_ns=_read_time(span.get("start_time"), "start"),
        end_ns=_read_time(span["end_time"], "end") if span.get("end_time") else None,
        attributes=told,
        events=events,
        status=_STATUS.get(str(span.get("status_code")), "unset"),
        status_message=span.get("status_message") or None,
    )


def read_langfuse(observation: SpanObject) -> ForeignSpan:
    """An observation, with the names of its API (``traceId``) or of its exports (``trace_id``).

    Its fields become the attributes that Langfuse's own SDK writes, so that a span is read in one way only.

    Raises:
        ValueError: it has no id, or a time that is none.
    """
    names = {
        "type": ("type",),
        "model.name": ("model", "providedModelName"),
        "input": ("input",),
        "output": ("output",),
        "usage_details": ("usageDetails", "usage"),
        "cost_details": ("costDetails",),
    }
    told = {
        f"langfuse.observation.{name}": value
        for name, places in names.items()
        if (value := next((found for place in places if (found := get_field(observation, place))), None)) is not None
    }
    if not get_field(observation, "costDetails") and (total := get_field(observation, "totalCost")):
        told["langfuse.observation.cost_details"] = {"total": total}  # 0 where the model has no price
    start_ns = _read_time(get_field(observation, "startTime"), "start")
    end = get_field(observation, "endTime")
    is_moment = observation["type"] == "EVENT"
    return ForeignSpan(
        trace_id=_read_id(get_field(observation, "traceId") or observation["id"], "trace id"),
        span_id=_read_id(observation["id"], "id"),
        parent_id=_read_parent(get_field(observation, "parentObservationId")),
        name=str(observation.get("name") or ""),
        start_ns=start_ns,
        end_ns=_read_time(end, "end") if end else start_ns if is_moment else None,
        attributes=told,
        status="error" if observation.get("level") == "ERROR" else "unset",
        status_message=get_field(observation, "statusMessage") or None,
        scope="langfuse",
    )


def read_logfire(row: SpanObject) -> ForeignSpan:
    """A row of Logfire's ``records``; a pending one is what was known of a span when it began.

    Raises:
        ValueError: it has no id, or a time that is none.
    """
    told = _read_object(row.get("attributes"), "attributes")
    if row.get("kind") == "pending_span":
        told["logfire.span_type"] = "pending_span"
    start_ns = _read_time(row.get("start_timestamp"), "start")
    end = row.get("end_timestamp")
    raised = {f"exception.{each}": row.get(f"exception_{each}") for each in ("type", "message")}
    is_error = row.get("otel_status_code") == "ERROR"
    return ForeignSpan(
        trace_id=_read_id(row.get("trace_id"), "trace id"),
        span_id=_read_id(row.get("span_id"), "id"),
        parent_id=_read_parent(row.get("parent_span_id")),
        name=str(row.get("span_name") or row.get("message") or ""),
        start_ns=start_ns,
        end_ns=_read_time(end, "end") if end else None,
        attributes=told,
        events=[ForeignSpanEvent("exception", start_ns, raised)] if raised["exception.type"] else (),
        status="error" if is_error else "unset",
        status_message=row.get("otel_status_message") or None,
        scope=str(row.get("otel_scope_name") or "logfire"),
        resource=_read_object(row.get("otel_resource_attributes"), "otel_resource_attributes"),
    )


def settle_pending(spans: Iterable[ForeignSpan]) -> Iterator[ForeignSpan]:
    """Spans without Logfire's pending ones, but for those whose own span is not there: it had not ended.

    A pending span hangs under the span that it tells of, and names that one's parent (``logfire.pending_parent_id``).
    """
    known: set[tuple[str, str]] = set()
    pending: list[ForeignSpan] = []
    for span in spans:
        if span.attributes.get("logfire.span_type") == "pending_span" and span.parent_id is not None:
            pending.append(span)
        else:
            known.add((span.trace_id, span.span_id))
            yield span
    for span in pending:
        if (span.trace_id, span.parent_id) in known:
            continue
        parent = span.attributes.get("logfire.pending_parent_id")
        yield ForeignSpan(
            trace_id=span.trace_id,
            span_id=str(span.parent_id),
            parent_id=_read_parent(parent),
            name=span.name.removesuffix(" (pending)"),
            start_ns=span.start_ns,
            end_ns=None,
            attributes=span.attributes,
            scope=span.scope,
            resource=span.resource,
        )


def get_field(given: SpanObject, name: str) -> Any:
    """A field by its name in JSON, else by that with underscores (``span_id``)."""
    if name in given:
        return given[name]
    return given.get("".join(f"_{each.lower()}" if each.isupper() else each for each in name))


def read_attributes(given: Iterable[SpanObject] | None) -> dict[str, Any]:
    """Attributes of OTLP, each with its key and a value with its type."""
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
    return read_attributes(value.get("values")) if kind == "kvlistvalue" else value


def _read_object(given: Any, what: str) -> dict[str, Any]:
    """An object, which tables have as JSON text."""
    if isinstance(given, str):
        with suppress(ValueError):
            given = json.loads(given)
    if given and not isinstance(given, Mapping):
        raise ValueError(f"its {what} are no object of JSON")
    return dict(given or {})


def _read_id(given: Any, what: str) -> str:
    if not given:
        raise ValueError(f"it has no {what}")
    return mask_id(mend_text(str(given)))


def _read_parent(given: Any) -> str | None:
    return mask_id(mend_text(str(given))) if given and given != _NO_SPAN else None


def _read_ns(given: Any, what: str) -> int:
    try:
        at_ns = int(given)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(_say_no_time(given, what)) from None
    if not 0 < at_ns < _END_OF_TIME_NS:
        raise ValueError(_say_no_time(given, what))
    return at_ns


def _read_time(given: Any, what: str) -> int:
    """A time as text, in UTC where it names no zone."""
    try:
        try:
            moment = parse_instant(given)
        except ValueError:
            moment = parse_instant(f"{given}+00:00")
    except (TypeError, ValueError, OverflowError):
        raise ValueError(_say_no_time(given, what)) from None
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def _say_no_time(given: Any, what: str) -> str:
    return f"it has no {what}" if given is None else f"its {what} {str(given)[:40]!r} is no time"
