"""What it costs a run that its spans are sent as they end (T117), beside the same run without an exporter.

The provider is the SDK's, with a batch of spans that nobody takes: what a collector costs is not ours. Models answer at
once, so there is nothing but the run itself; a listener that does nothing says how much of it any listener costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.row import Row
from benchmarks.stopwatch import Work, compare, without_store
from ensemble_notebook import Agent, Ensemble, Event, OtelExporter, ScriptedChatModel, Task


def measure(*, quick: bool) -> list[Row]:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - nobody takes them
            return SpanExportResult.SUCCESS

    class Silent:
        def on_event(self, event: Event) -> None:
            """Hear of it."""

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    count, rounds = (5, 1) if quick else (50, 41)
    exporters = (OtelExporter(provider), OtelExporter(provider, content=True), Silent())
    with without_store():
        alone = Work(_make_run(count, None), count)
        costs = compare([(Work(_make_run(count, each), count), alone) for each in exporters], rounds)
    provider.shutdown()
    names = ("a task whose spans are sent, CPU", "the same with texts", "the same with a listener that does nothing")
    return [each.row(name, "cpu", "ms", "without an exporter") for each, name in zip(costs, names, strict=True)]


def _make_run(count: int, exporter: Any) -> Callable[[], object]:
    agent = Agent(role="Speaker", goal="Speak")
    tasks = [Task.of(f"Say {number}", name=f"say-{number}", agent=agent) for number in range(count)]
    model = ScriptedChatModel(default="Said.")
    return Ensemble(name="speakers", tasks=tasks, llm=model, trace_exporter=exporter).run
