"""What it takes to load a large file of spans of others, beside the parse of its JSON."""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.row import Row
from ensemble_notebook import load_traces

_MOST_S = 23.0
_IN_A_RUN = 100


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (200, 1) if quick else (100_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        small, file = Path(folder) / "small.otlp.json", Path(folder) / "spans.otlp.json"
        small.write_text(_make_file(_IN_A_RUN))
        load_traces(str(small))  # what the first of them imports is nobody's
        file.write_text(_make_file(count))
        pairs = [
            (_time(lambda: load_traces(str(file))), _time(lambda: json.loads(file.read_bytes()))) for _ in range(rounds)
        ]
    return [
        Row(
            what=f"load {count:,} spans of a file, CPU",
            ours=min(ours for ours, _ in pairs),
            floor=min(floor for _, floor in pairs),
            beside="json.loads of the file",
            unit="s",
            ratio=median(ours / floor for ours, floor in pairs),
            most=_MOST_S,
        )
    ]


def _make_file(count: int) -> str:
    """OTLP JSON: runs of an agent with the calls of its model."""
    spans = [_make_span(number) for number in range(count)]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "some"}, "spans": spans}]}]})


def _make_span(number: int) -> dict[str, Any]:
    run, place = divmod(number, _IN_A_RUN)
    told = {
        "gen_ai.operation.name": "chat" if place else "invoke_agent",
        "gen_ai.request.model": "some-model",
        "gen_ai.input.messages": json.dumps([{"role": "user", "content": f"Where is parcel {number}?"}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": f"Parcel {number} is in Graz."}]),
    }
    tokens = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
    start_ns = 1_790_000_000 * 10**9 + number * 10**6
    return {
        "traceId": f"{run:032x}",
        "spanId": f"{number + 1:016x}",
        "parentSpanId": f"{number - place + 1:016x}" if place else "",
        "name": "chat" if place else "agent",
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + (900_000 if place else _IN_A_RUN * 10**6)),
        "attributes": [
            *({"key": name, "value": {"stringValue": value}} for name, value in told.items()),
            *({"key": name, "value": {"intValue": str(value)}} for name, value in tokens.items()),
        ],
    }


def _time(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began
