"""The lesson on failures."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.support.lessons import Lesson, NotebookTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("05-when-things-fail.ipynb")


class TestWhenThingsFail(NotebookTests):
    lesson = LESSON


def test_a_busy_server_is_asked_again_and_a_dead_one_is_replaced() -> None:
    first, second = (row for row in rows_of(LESSON.trace("busy server"), "attempt") if row["task"] == "north")
    assert (first["status"], first["retry_reason"], second["status"]) == ("error", "429", "ok")
    assert second["start_ms"] - first["end_ms"] >= 990
    radar, observer = rows_of(LESSON.trace("fallback"), "llm")
    assert (radar["status"], observer["status"], observer["provider"]) == ("error", "ok", "local")
    assert LESSON.below("from_fallback").strip() == "completed_with_warnings, from a fallback: True (Observer)"


def test_the_error_strategies_end_as_they_say() -> None:
    table: defaultdict[str, list[str]] = defaultdict(list)
    for line in LESSON.below("end_of(replace(").splitlines():  # of a table in two parts, one below the other
        name, *statuses = line.split() or [""]
        table[name] += statuses
    assert table["fail_fast"] == ["ok", "error", "skipped", "skipped", "skipped", "failed"]
    assert table["continue_on_error"] == ["ok", "error", "skipped", "ok", "ok", "failed"]
    assert table["partial"] == ["ok", "error", "ok", "ok", "ok", "completed_with_warnings"]
    told = LESSON.below('== "forecast"')
    assert "Report the wind from West Rock\nNot available: it failed (ConnectionError: no signal from the west)" in told


def test_conditions_decide_which_of_two_tasks_runs() -> None:
    tasks = {row["name"]: row["status"] for row in rows_of(LESSON.trace("conditions"), "task")}
    assert tasks == {"triage": "ok", "warn": "ok", "note": "skipped"}
    calm, storm = filter(None, LESSON.below("for wind in").splitlines())
    assert "All quiet" in calm
    assert "STORM WARNING" in storm


def test_an_unfit_reply_is_corrected_and_a_frightening_one_stopped() -> None:
    assert LESSON.below("parsed_output") == "{'beaufort': 9, 'ships_may_leave': False}"
    assert len(rows_of(LESSON.trace("typed output"), "turn")) == 2
    assert "GuardrailViolationError: The output guardrail stopped the task" in LESSON.below("--name guardrail")


def test_a_captain_sends_a_text_back_once() -> None:
    decisions = [row["review"]["decision"] for row in rows_of(LESSON.trace("review"), "review")]
    assert decisions == ["retry", "approve"]


def test_a_budget_buys_five_calls_and_the_run_returns() -> None:
    tasks = [row["status"] for row in rows_of(LESSON.trace("eight stations, 5 calls"), "task")]
    assert tasks == ["ok"] * 5 + ["skipped"] * 3
    assert LESSON.below("print(bought.status.value)").startswith("budget_exceeded\nbought: 5 reports for $0.00505")


def test_a_rate_limit_sends_four_requests_half_a_second_apart() -> None:
    starts = sorted(row["start_ms"] for row in rows_of(LESSON.trace("four stations, 2 requests a second"), "attempt"))
    assert len(starts) == 4
    assert all(start >= 500 * place for place, start in enumerate(starts))  # a busy machine sends later, never earlier


def test_a_replay_says_the_same_words_without_the_model() -> None:
    recorded, replayed = LESSON.trace("record"), LESSON.trace("replay")
    assert recorded["run"]["output_tokens"] == replayed["run"]["output_tokens"] > 0
    assert "the same words: True" in LESSON.below("Path(")
    assert replayed["run"]["elapsed_ms"] < recorded["run"]["elapsed_ms"]
