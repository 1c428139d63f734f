"""Hears of the spans of this process as the OpenTelemetry SDK makes them (T103). Knows nothing of what they mean.

The SDK is the extra `otel`. It calls a processor on the thread of whoever makes the span, so that thread only puts the
span into a queue.
"""

from __future__ import annotations

import contextvars
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.domain.genai_spans import SCOPE
from ensemble_notebook.errors import MissingPackageError, ValidationError
from ensemble_notebook.importers.foreign_span import ForeignSpan, ForeignSpanEvent

_STATUS: Final = {"OK": "ok", "ERROR": "error"}


@dataclass(frozen=True, slots=True)
class SpanStart:
    """A span has started.

    Attributes:
        span: what is known of it.
        context: of whoever started it, such as a cell.
    """

    span: ForeignSpan
    context: contextvars.Context


@dataclass(frozen=True, slots=True)
class SpanEnd:
    """A span has ended; nobody changes it any more."""

    span: Any

    def read(self) -> ForeignSpan:
        """What it tells."""
        return read_span(self.span)


class SpanTap:
    """A processor of spans, which a provider has for good: the SDK lets none go.

    Attributes:
        listener: is told of each start and end, on the thread of whoever makes the span; None: nobody listens.
    """

    def __init__(self) -> None:
        self.listener: Callable[[SpanStart | SpanEnd], None] | None = None

    def on_start(self, span: Any, parent_context: object = None) -> None:  # noqa: ARG002 - as the SDK calls it
        """Called by the SDK."""
        if (listener := self.listener) is not None and not _is_ours(span):
            listener(SpanStart(read_span(span), contextvars.copy_context()))

    def _on_ending(self, span: Any) -> None:
        """Called by the SDK while a span can still be changed."""

    def on_end(self, span: Any) -> None:
        """Called by the SDK."""
        if (listener := self.listener) is not None and not _is_ours(span):
            listener(SpanEnd(span))

    def shutdown(self) -> None:
        """Called by the SDK."""
        self.listener = None

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - as the SDK calls it
        """Called by the SDK."""
        return True


_taps: Final[weakref.WeakKeyDictionary[Any, SpanTap]] = weakref.WeakKeyDictionary()


def find_provider() -> tuple[Any, bool]:
    """The tracer provider of this process, and whether it was set up just now, since there was none.

    Raises:
        MissingPackageError: the SDK is not installed; says how to.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk import environment_variables as names
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    except ImportError:
        raise MissingPackageError("Watching spans needs opentelemetry-sdk", extra="otel") from None
    found: Any = trace.get_tracer_provider()
    if not isinstance(found, trace.ProxyTracerProvider):
        return found, False
    # The SDK keeps 128 attributes of a span and drops the oldest, which are a long conversation's first messages.
    is_limited = names.OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT in os.environ or names.OTEL_ATTRIBUTE_COUNT_LIMIT in os.environ
    made = TracerProvider(span_limits=SpanLimits(max_span_attributes=None if is_limited else SpanLimits.UNSET))
    trace.set_tracer_provider(made)
    return made, True


def tap_provider(provider: Any) -> SpanTap:
    """What hears of the spans of a provider: one for each, however often it is asked for.

    Raises:
        ValidationError: it takes no processors.
    """
    if not callable(getattr(provider, "add_span_processor", None)):
        raise ValidationError(
            f"watch() can't hear of the spans of a {type(provider).__name__}: it has no add_span_processor. "
            "Give it the TracerProvider of opentelemetry.sdk.trace that makes them: watch(provider)."
        )
    tap = _taps.get(provider)
    if tap is None:
        tap = _taps[provider] = SpanTap()
        provider.add_span_processor(tap)
    return tap


def read_span(span: Any) -> ForeignSpan:
    """What a span of the SDK tells, as it stands."""
    place, parent = span.get_span_context(), span.parent
    status: Any = getattr(span.status.status_code, "name", "")
    return ForeignSpan(
        trace_id=f"{place.trace_id:032x}",
        span_id=f"{place.span_id:016x}",
        parent_id=None if parent is None else f"{parent.span_id:016x}",
        name=str(span.name),
        start_ns=span.start_time or 0,
        end_ns=span.end_time,
        attributes=dict(span.attributes or {}),
        events=[ForeignSpanEvent(each.name, each.timestamp, dict(each.attributes or {})) for each in span.events],
        status=_STATUS.get(status, "unset"),  # type: ignore[arg-type] # these are its words
        status_message=span.status.description,
        scope=_get_scope(span),
    )


def _get_scope(span: Any) -> str:
    return getattr(span.instrumentation_scope, "name", None) or ""


def _is_ours(span: Any) -> bool:
    return _get_scope(span) == SCOPE  # it has its timeline already
