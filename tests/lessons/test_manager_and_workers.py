"""The lesson on managers."""

from __future__ import annotations

import re

import pytest

from tests.support.lessons import Lesson, LessonTests, rows_of

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSON = Lesson("04-manager-and-workers.ipynb")


class TestManagerAndWorkers(LessonTests):
    lesson = LESSON


def test_a_manager_has_two_workers_work_side_by_side() -> None:
    newsroom = LESSON.trace("newsroom")
    tasks = {row["name"]: row for row in rows_of(newsroom, "task")}
    assert list(tasks) == ["manager", "reporter_1", "historian_1", "writer_1"]
    first = [tasks["reporter_1"], tasks["historian_1"]]
    assert max(row["start_ms"] for row in first) < min(row["end_ms"] for row in first)
    assert tasks["writer_1"]["start_ms"] >= max(row["end_ms"] for row in first)
    assert newsroom["run"]["is_scripted"]


def test_a_manager_s_forbidden_wishes_are_refused_with_their_reasons() -> None:
    wishes = [
        (row["delegate_to"], row["status"], row.get("reason", ""))
        for row in rows_of(LESSON.trace("newsroom, with rules"), "delegation")
    ]
    stage = "Cannot delegate to 'Writer': stage 1 is not yet complete (still to come: 'Reporter', 'Historian')"
    assert wishes == [
        ("Writer", "error", stage),
        ("Intern", "error", "Agent 'Intern' is not in the allowed_workers list"),
        ("Reporter", "ok", ""),
        ("Historian", "ok", ""),
        ("Reporter", "error", "Agent 'Reporter' has reached its delegation cap of 1"),
        ("Writer", "ok", ""),
        ("Historian", "error", "Global delegation cap of 3 has been reached"),
    ]
    shown = LESSON.below("printed.frames.delegations")
    assert all(reason in shown for _, _, reason in wishes)


def test_a_manager_who_leaves_too_early_violates_its_constraints_and_keeps_what_was_done() -> None:
    assert "Required worker 'Writer' was never delegated a task" in LESSON.below("newsroom, too early")
    assert "['Off Plymouth a white light flashes" in LESSON.below("early.task_outputs")


def test_rules_that_nobody_can_keep_are_found_before_anybody_is_asked() -> None:
    said = " ".join(LESSON.below("newsroom, never").split())
    assert "contains 'Writer', which is not in allowed_workers" in said
    assert "Did you mean 'Reporter'?" in said
    assert "newsroom, never" not in {trace["run"]["name"] for trace in LESSON.traces}


def test_the_manager_uses_more_tokens_than_all_of_its_workers() -> None:
    manager, workers = re.findall(r"\d+", LESSON.below("drop(").splitlines()[0])
    assert int(manager) > 2 * int(workers)


def test_a_policy_keeps_gossip_out_of_a_verse() -> None:
    assert "I have heard" in LESSON.below("def house_rule")
    gossip, flower = rows_of(LESSON.trace("garden"), "delegation")
    assert (gossip["status"], flower["status"]) == ("ok", "ok")
