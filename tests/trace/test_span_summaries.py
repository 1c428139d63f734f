"""The view is held to what pandas says of ranges of recorded runs, as it says it today (W7)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.recorded_messages import FOLDER, drive_runs
from tests.support.span_summaries import FILE, summarize_range

RUNS = ["flat", "nested", "report"]


@cache
def frames() -> dict[str, Any]:
    return {name: ExecutionTrace.from_events(events).frames for name, events in drive_runs().items()}


@cache
def recorded() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", RUNS)
def test_summaries_of_ranges_are_those_of_today(name: str) -> None:
    for summary in recorded()[name]:
        today = summarize_range(frames()[name].spans, summary["from"], summary["to"])
        assert flatten(today) == pytest.approx(flatten(summary), abs=1e-6), "run `make recorded-messages`"


def flatten(value: Any, place: str = "") -> dict[str, Any]:
    """Numbers by their place: approximate comparisons do not look into nested values."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        return {place: -1.0 if value is None else value}
    return {key: each for name, item in items for key, each in flatten(item, f"{place}.{name}").items()}


@pytest.mark.parametrize("name", RUNS)
def test_the_whole_of_a_run_has_the_work_and_the_tokens_of_the_run(name: str) -> None:
    whole, run = recorded()[name][0], frames()[name].runs.iloc[0]
    assert whole["used"] == [run.input_tokens, run.output_tokens, run.cost]
    assert whole["work_ms"] == pytest.approx(run.work_ms)


@pytest.mark.parametrize("name", RUNS)
def test_the_messages_and_the_frames_are_of_the_same_runs(name: str) -> None:
    rows = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["final"]["rows"]
    spans = frames()[name].spans.query("kind != 'run'")
    assert {row["span_id"]: row.get("start_ms") for row in rows} == {
        span_id: None if pd.isna(start_ms) else start_ms for span_id, start_ms in spans["start_ms"].items()
    }
