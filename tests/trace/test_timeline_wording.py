"""What is said of a row, in a saved picture as in the timeline: Python and TypeScript are held to one table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.enums import RunStatus, SpanStatus
from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.trace.spans import timeline_wording as words

CASES = json.loads((Path(__file__).parent.parent / "wording_cases.json").read_text())
SAY: dict[str, Callable[[Any], str]] = {
    "skips": words.describe_skip,
    "times": words.describe_times,
    "lengths": words.describe_length,
    "redoings": words.describe_redoing,
    "reuses": words.describe_reuse,
    "savings": words.describe_row_saving,
}


@pytest.mark.parametrize("about, given, said", [(about, *case) for about in SAY for case in CASES[about]])
def test_a_row_is_worded_as_in_the_table(about: str, given: Any, said: str) -> None:
    assert SAY[about](given) == said


@pytest.mark.parametrize("kind, rounds, said", CASES["rounds"])
def test_what_became_of_each_round_is_worded_as_in_the_table(kind: str, rounds: Any, said: list[str]) -> None:
    assert words.describe_rounds({"kind": kind, "rounds": rounds}) == said


@pytest.mark.parametrize("many, elapsed_ms, said", CASES["progress"])
def test_work_on_many_is_worded_as_in_the_table_w25(many: Any, elapsed_ms: float, said: str) -> None:
    assert words.describe_progress(many, elapsed_ms) == said


@pytest.mark.parametrize("review, status, said", CASES["answers"])
def test_what_came_of_a_review_is_worded_as_in_the_table(review: Any, status: str | None, said: str) -> None:
    row = {"review": review, "status": status or "waiting", "end_ms": 1.0 if status else None}
    assert words.describe_answer(row) == said


@pytest.mark.parametrize("reason, outcome, said", CASES["outcomes"])
def test_what_a_person_declined_or_left_is_not_called_skipped(reason: Any, outcome: str, said: str) -> None:
    assert words.describe_skip(reason, words.name_state({"status": "skipped", "outcome": outcome})) == said


def test_every_status_and_verdict_has_a_word() -> None:
    assert set(words.STATUSES) == set(SpanStatus)
    assert set(words.RUN_STATUSES) == set(RunStatus)
    assert set(words.ANSWERS) == set(Verdict)


@pytest.mark.parametrize(
    "run, said",
    [
        ({"status": "running", "waiting": ["a"]}, "waiting for you"),
        ({"status": "running", "waiting": []}, "running"),
        ({"status": "failed", "exit_reason": "timeout"}, "timed out"),
        ({"status": "exited_early", "exit_reason": "nobody_to_ask"}, "nobody to ask"),
        ({"status": "exited_early", "exit_reason": "user_exit_early"}, "ended early"),
        ({"status": "of_tomorrow"}, "of tomorrow"),
    ],
)
def test_a_run_is_called_what_its_timeline_calls_it(run: dict[str, Any], said: str) -> None:
    assert words.describe_state(run) == said


@pytest.mark.parametrize(
    "zone, said",
    [
        ("UTC0", "10:51 PM UTC"),
        ("CET-1", "11:51 PM GMT+1"),
        ("IST-5:30", "4:21 AM GMT+5:30"),
        ("EST5", "5:51 PM GMT-5"),
    ],
)
def test_w24_time_of_day_in_a_picture_has_its_zone(monkeypatch: pytest.MonkeyPatch, zone: str, said: str) -> None:
    try:
        with monkeypatch.context() as change:
            change.setenv("TZ", zone)
            time.tzset()
            assert words.format_time_of_day("2026-11-24T22:51:00+00:00") == said
    finally:
        time.tzset()
