"""What each framework is made to do, and what its spans were: one JSON of all cases to stdout.

::

    .venv-others/langgraph/bin/python -m tests.others.frameworks.langgraph openinference tool parallel

The model is a real HTTP server on loopback. A city that is not on any map makes the tool raise.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from ensemble_notebook import EnsembleOutput, Watch, watch
from ensemble_notebook.importers.foreign_span import ForeignSpan, ForeignSpanEvent
from tests.support.openai_server import Answer, OpenAIServer

QUESTION: Final = "How warm is it?"
TEXT: Final = "It is 18 degrees."
LONG: Final = " ".join(f"word{number}" for number in range(40))

Tell = Callable[[str], Any]


def weather(city: str) -> str:
    """Tell how warm it is in a city.

    Args:
        city: its name.
    """
    if city == "Atlantis":
        raise ValueError("no station in Atlantis")
    time.sleep(0.05)  # so that calls side by side overlap
    THREADS.append(threading.current_thread().name)
    return f"18 degrees in {city}"


THREADS: Final[list[str]] = []


def call(name: str, tool: str, **arguments: Any) -> Answer:
    """A reply that asks for a tool."""
    return Answer(None, calls=[(f"call-{name}", tool, arguments)], usage=(31, 9))


PARALLEL: Final = Answer(
    None,
    calls=[("call-1", "weather", {"city": "Paris"}), ("call-2", "weather", {"city": "Oslo"})],
    usage=(33, 14),
)
LAST: Final = Answer(TEXT, usage=(52, 6))

ANSWERS: Final[Mapping[str, tuple[Answer, ...]]] = {
    "tool": (call("1", "weather", city="Paris"), LAST),
    "parallel": (PARALLEL, LAST),
    "closed": (Answer(LONG, pause=0.02, usage=(12, 40)),),
    "retry": (Answer.status(429, retry_after=0), Answer.status(500), LAST),
    "raises": (call("1", "weather", city="Atlantis"), LAST),
}
"""What the model says in each case; handing over is each framework's own."""


def keep_messages() -> None:
    """OpenTelemetry's instrumentations put no texts into spans without this."""
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"


class Recorder(SpanProcessor):
    """Keeps all spans, those that never end among them."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.spans.append(span)


def to_foreign(span: ReadableSpan) -> ForeignSpan:
    """A span of the SDK, as it is now."""
    context = span.get_span_context()
    assert context is not None
    return ForeignSpan(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=None if span.parent is None else f"{span.parent.span_id:016x}",
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time,
        attributes=dict(span.attributes or {}),
        events=[ForeignSpanEvent(each.name, each.timestamp, dict(each.attributes or {})) for each in span.events],
        status={"UNSET": "unset", "OK": "ok", "ERROR": "error"}[span.status.status_code.name],  # type: ignore[arg-type]
        status_message=span.status.description,
        scope=span.instrumentation_scope.name if span.instrumentation_scope else "",
        resource=dict(span.resource.attributes),
    )


def tell_run(output: EnsembleOutput) -> dict[str, Any]:
    """What a watched run has become: its tree, its agents, its tokens and what was said."""
    frames = output.trace.frames
    spans = frames.spans.reset_index()
    calls = spans[spans["kind"] == "attempt"]
    return {
        "status": str(output.status),
        "agents": sorted(set(spans["agent"].dropna()) - {""}),
        "tools": sorted(spans.loc[spans["kind"] == "tool", "tool"].dropna()),
        "tokens": [int(calls[f"{side}_tokens"].fillna(0).sum()) for side in ("input", "output")],
        "orphans": int((~spans["parent_id"].dropna().isin(spans["span_id"])).sum()),
        "messages": [str(each) for each in frames.messages["text"].dropna()],
    }


def wait_for_runs(watched: Watch, count: int) -> list[EnsembleOutput]:
    """The runs, as soon as there are more than `count`, or after a moment: some never end."""
    for _ in range(30):
        if len(watched.runs) > count:
            break
        time.sleep(0.1)
    return list(watched.runs)


def main(
    instruments: Mapping[str, Callable[[TracerProvider], None]],
    stories: Mapping[str, Tell],
    handing_over: tuple[Answer, ...],
) -> None:
    """Tell the cases that the command line names, all without one, with one of `instruments`.

    Args:
        instruments: by name: each sets an instrumentation up.
        stories: case -> what asks the framework, given the base URL of the model.
        handing_over: what the model says where one agent hands over to another.
    """
    name, *cases = sys.argv[1:]
    provider = TracerProvider()
    recorder = Recorder()
    provider.add_span_processor(recorder)
    instruments[name](provider)
    answers = {**ANSWERS, "handover": handing_over}
    told: dict[str, Any] = {}
    with contextlib.redirect_stdout(sys.stderr), OpenAIServer() as server, watch(provider) as watched:
        for case in cases or stories:
            before = len(watched.runs)
            server.clear()
            recorder.spans.clear()
            THREADS.clear()
            server.script(*answers[case])
            try:
                outcome = repr(stories[case](server.url))
            except Exception as error:  # noqa: BLE001 - what it raises is what is told
                outcome = f"{type(error).__name__}: {error}"
            gc.collect()  # generators that nobody holds are closed
            runs = wait_for_runs(watched, before)[before:]
            told[case] = {
                "question": QUESTION,
                "outcome": outcome[:500],
                "requests": [each.status for each in server.requests],
                "served": server.used_tokens,
                "threads": list(THREADS),
                "runs": [tell_run(each) for each in runs],
                "spans": [asdict(to_foreign(each)) for each in recorder.spans],
            }
    print(json.dumps(told, default=repr))
    sys.stdout.flush()
