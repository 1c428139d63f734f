"""What views call work that nobody named, and what they say of the tasks of a manager (W26, W27)."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from ensemble_notebook.domain.events import DelegationStarted
from ensemble_notebook.domain.planning.execution_plan import PlannedTask
from ensemble_notebook.domain.planning.managed_work import cut_words, find_title, find_told
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.links import list_work
from ensemble_notebook.trace.timeline.run_sentence import describe_run
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.browser.scenes import run_hier


def written(name: str, description: str, *, is_named: bool) -> PlannedTask:
    texts: dict[str, Any] = {"description": description, "phase": None, "llm": None, "agent": ""}
    return PlannedTask(name=name, is_named=is_named, context=(), depends_on=(), **texts)


@pytest.mark.parametrize(
    "name, role, is_named, said",
    [
        ("writer_1", "Writer", False, "Describe the tide in one long…"),
        ("writer_1", "Writer", True, None),
        ("writer_1", "Writer", None, "Describe the tide in one long…"),
        ("risks.senior_writer_2", "Senior Writer", None, "Describe the tide in one long…"),
        ("draft_1", "Writer", None, None),
        ("draft", "Writer", None, None),
    ],
)
def test_w26_a_task_that_nobody_named_is_called_by_its_first_words(
    name: str, role: str, is_named: bool | None, said: str | None
) -> None:
    assert find_title(name, role, "Describe the tide in one\nlong, calm sentence.", is_named=is_named) == said


@pytest.mark.parametrize(
    "text, said",
    [
        ("Write a haiku", "Write a haiku"),
        ("", None),
        ("x" * 99, "x" * 42),
        ("Write a brief from these facts: high", "Write a brief from these facts…"),
    ],
)
def test_first_words_are_whole(text: str, said: str | None) -> None:
    assert cut_words(text) == said


FIND = written("researcher_1", "Find three facts about {topic}.".format(topic="tides"), is_named=False)
BRIEF = written("write", "Write a brief from them", is_named=True)
LETTER = written("cover-letter", "Sum up", is_named=True)


@pytest.mark.parametrize(
    "text, told",
    [
        ("Please FIND three facts, about tides!", [FIND]),
        ("Find three facts about the tides", []),
        ("Do 'write' now", [BRIEF]),
        ("Write it", []),
        ("For cover-letter: be brief", [LETTER]),
        ("researcher_1, please", []),
        ("Find three facts about tides, then write a brief from them", [FIND, BRIEF]),
    ],
)
def test_w27_who_did_a_written_task_is_told_by_its_name_or_its_words_and_never_guessed(
    text: str, told: list[PlannedTask]
) -> None:
    assert find_told(text, [FIND, BRIEF, LETTER]) == told


def test_w27_the_sentence_speaks_of_workers_and_counts_the_written_tasks() -> None:
    trace = run_hier()
    assert describe_run(trace._fold) == "2 tasks in 42 s by 2 workers; longest: Writer, 43% of the time"
    run = TimelineMessages(trace._fold).make_snapshot()["run"]
    assert (run["tasks_done"], run["tasks_total"]) == (2, 2)


def test_w27_written_tasks_come_first_then_delegations_by_worker_and_a_refusal_in_words() -> None:
    (manager,) = [span for span in run_hier()._fold.spans.values() if span.managed]
    assert [(item["title"], item.get("agent"), item.get("note")) for item in list_work(manager) or ()] == [
        ("Find three facts about tides", "Researcher", None),
        ("Write a brief from them", None, "who did it is unknown"),
        ("Poet", None, "refused: There is no agent 'Poet'. Available: 'Researcher', 'Writer'"),
        ("Write a brief from these facts…", "Writer", None),
    ]


def test_w27_a_picture_calls_a_written_task_pending_while_its_manager_works_and_nobody_was_given_it() -> None:
    events = list(run_hier().events)
    begun = next(place for place, event in enumerate(events) if isinstance(event, DelegationStarted))
    messages = TimelineMessages(TraceFold.from_events(events[: begun + 3]))
    chart = make_chart(messages.make_outline(), messages.make_rows)
    lines = {line.name: line.status for line in chart.lines}
    assert lines["Write a brief from them"] == "pending"
    messages = TimelineMessages(copy(run_hier()._fold))
    chart = make_chart(messages.make_outline(), messages.make_rows)
    assert {line.name: line.status for line in chart.lines}["Write a brief from them"] == "ok"
