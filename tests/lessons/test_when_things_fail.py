"""The lesson on failures."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.support.lessons import Lesson, LessonTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("05-when-things-fail.ipynb")


class TestWhenThingsFail(LessonTests):
    lesson = LESSON


def test_a_busy_server_is_asked_again() -> None:
    first, second = (row for row in rows_of(LESSON.trace("busy server"), "attempt") if row["task"] == "north")
    assert (first["status"], first["retry_reason"], second["status"]) == ("error", "429", "ok")
    assert second["start_ms"] - first["end_ms"] >= 990


def test_a_replay_has_the_refusal_and_does_not_wait() -> None:
    recorded, replayed = LESSON.below("night.ensemble.run(replay").split("replayed")
    assert " 429 " in recorded
    assert " 429 " in replayed
    assert max(float(line.split()[-1]) for line in recorded.splitlines()[2:] if line.strip()) >= 400
    assert max(float(line.split()[-1]) for line in f"replayed{replayed}".splitlines() if line.strip()) < 300


def test_each_is_asked_until_it_is_right_or_given_up() -> None:
    shown = LESSON.below("judged.status.value")
    assert shown.startswith("completed_with_warnings\n")
    assert shown.count("{'beaufort': 9}") == 3
    calls = {line.split()[-2]: int(line.split()[-1]) for line in shown.splitlines()[-6:]}
    assert (calls["Talker"], calls["Refuser"], calls["Herald"], calls["Observer"]) == (4, 1, 2, 2)


def test_the_error_strategies_end_as_they_say() -> None:
    shown = LESSON.below("for each in ErrorStrategy")
    table: defaultdict[str, list[str]] = defaultdict(list)
    for line in shown.splitlines():  # of a table in two parts, one below the other
        name, *statuses = line.split() or [""]
        table[name] += statuses
    assert table["fail_fast"] == ["ok", "error", "skipped", "skipped", "skipped", "failed"]
    assert table["continue_on_error"] == ["ok", "error", "skipped", "ok", "ok", "failed"]
    assert table["partial"] == ["ok", "error", "ok", "ok", "ok", "completed_with_warnings"]
    assert "Nothing heard from the West." in shown


def test_money_that_would_pay_for_all_reports_buys_none() -> None:
    tasks = [row["status"] for row in rows_of(LESSON.trace("eight stations, 5 calls"), "task")]
    assert tasks == ["ok"] * 5 + ["skipped"] * 3
    lines = [line.split() for line in LESSON.below("for budget in").splitlines() if line.strip()]
    assert float(lines[0][-1].removeprefix("$")) < 0.006
    assert [line[0] for line in lines[1:]] == ["$0.006", "$0.01", "$0.02"]
    none, some, each = (int(line[1]) for line in lines[1:])
    assert (none, each) == (0, 8)
    assert 0 < some < 8
