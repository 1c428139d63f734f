"""Sends the spans of runs to OpenTelemetry as they end (T117), to whatever the process has set up for its own spans."""

from __future__ import annotations

import os
import threading
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.genai_spans import SCHEMA_URL, SCOPE, GenAiSpan, GenAiSpans
from ensemble_notebook.errors import MissingPackageError, SuggestsNames

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The conventions' own switch."""
REST_S: Final = 0.05
"""Spans have their own times, so events may come together: waking a thread for each costs more than the spans."""


class OtelExporter(SuggestsNames):
    """A listener that sends each run as spans of OpenTelemetry's GenAI conventions, while it goes on.

    Give it as the `trace_exporter` of an ensemble, or as a listener. The spans lie below the one that is current where
    the run is begun, such as a request of a web service.

    Args:
        tracer_provider: that makes the spans; None: the one that the process has, asked when a run begins.
        content: whether messages, arguments and results are sent, too; None: what the environment variable
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says, where all but ``false``, ``NO_CONTENT`` and
            nothing means yes.

    Raises:
        MissingPackageError: OpenTelemetry's SDK is not installed.
    """

    rest_s: Final = REST_S

    def __init__(self, tracer_provider: TracerProvider | None = None, *, content: bool | None = None) -> None:
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
            raise MissingPackageError("OtelExporter needs OpenTelemetry's SDK", extra="otel")
        self.tracer_provider = tracer_provider
        self.content = content
        self._runs: dict[str, _RunSpans] = {}
        self._lock = threading.Lock()  # runs beside each other have a thread each

    @property
    def sends_to(self) -> TracerProvider:
        """The provider that makes the spans now. Two exporters with the same one are told of a run once."""
        from opentelemetry import trace

        return trace.get_tracer_provider() if self.tracer_provider is None else self.tracer_provider

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which has a provider of its own."""
        if self.tracer_provider is not None:
            raise TypeError(
                "an OtelExporter with a tracer_provider sends from the process that this is in. Leave it out, so that "
                "each process is asked for its own, or give the exporter to the ensemble that is mapped, which hears "
                "of all rows"
            )
        return partial(OtelExporter, content=self.content), ()

    def on_event(self, event: ev.Event) -> None:
        """Take in the next event of a run.

        Args:
            event: of a run that may be one of several at once.
        """
        with self._lock:
            run = self._runs.get(event.run_id)
            if run is None:
                run = self._runs[event.run_id] = _RunSpans(self.tracer_provider, has_texts=self._has_texts())
            if isinstance(event, ev.RunEnded):
                del self._runs[event.run_id]
        run.on_event(event)

    def _has_texts(self) -> bool:
        if self.content is not None:
            return self.content
        return os.environ.get(CONTENT_VARIABLE, "").strip().lower() not in {"", "false", "no_content"}

    def __repr__(self) -> str:
        """As it is written."""
        return f"OtelExporter(content={self.content!r})"


class _RunSpans:
    """The spans of one run."""

    def __init__(self, provider: Any, *, has_texts: bool) -> None:
        from opentelemetry import context, trace

        self._tracer = trace.get_tracer(SCOPE, tracer_provider=provider, schema_url=SCHEMA_URL)
        self._around = context.get_current()
        self._fold = GenAiSpans(has_texts=has_texts)
        self._open: dict[str, Span] = {}

    def on_event(self, event: ev.Event) -> None:
        for span in self._fold.read(event):
            if span.end_ns is None:
                self._open[span.span_id] = self._begin(span)
            elif (live := self._open.pop(span.span_id, None)) is not None:  # the provider has made one
                self._end(span, live)

    def _begin(self, span: GenAiSpan) -> Span:
        from opentelemetry import trace

        parent = None if span.parent_id is None else self._open.get(span.parent_id)
        around = self._around if parent is None else trace.set_span_in_context(parent, self._around)
        kind = trace.SpanKind.CLIENT if span.is_client else trace.SpanKind.INTERNAL
        # A copy: what a sampler asks for is here, and the rest is set at the end.
        return self._tracer.start_span(span.name, around, kind, dict(span.attributes), start_time=span.start_ns)

    def _end(self, span: GenAiSpan, live: Span) -> None:
        from opentelemetry.trace import StatusCode

        live.set_attributes(span.attributes)
        if span.error is not None:
            live.set_status(StatusCode.ERROR, span.error)
        live.end(span.end_ns)
