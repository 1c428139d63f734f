"""E54, E46: the feedback of a review reaches the tasks of the ensemble that it sends back."""

from __future__ import annotations

from typing import Any

from ensemble_notebook import Ensemble, Phase, PhaseReview, Review, ReviewDecision, Task, TaskInput
from tests.conformance.scene import agent, run, run_cell
from tests.support.openai_server import OpenAIServer

Told = list[tuple[str, int, tuple[str, ...], str | None]]


class Reviewer:
    """Sends back with these words, one each time, then approves."""

    def __init__(self, *feedback: str) -> None:
        self._left = list(feedback)

    def __call__(self, request: Any) -> ReviewDecision:
        return ReviewDecision.retry(self._left.pop(0)) if self._left else ReviewDecision.approve()


def make_inner(told: Told, name: str | None = None, *more: Task) -> Ensemble:
    """Two tasks that note what they are told, and say which attempt it is."""

    def note(given: TaskInput) -> str:
        told.append((given.name, given.attempt, given.feedback, given.previous))
        return f"{given.name} {given.attempt}"

    tasks = [Task.of("Find", name="find", handler=note), *more, Task.of("Write", name="write", handler=note)]
    return Ensemble(tasks=tasks, name=name)


def test_e54_a_review_that_sends_the_task_back_is_heard_by_all_tasks_inside() -> None:
    told: Told = []
    task = Task(name="facts", ensemble=make_inner(told), review=Review())
    output = run(task, review_handler=Reviewer("shorter", "wittier"))
    assert output.raw == "write 3"
    assert told == [
        ("find", 1, (), None),
        ("write", 1, (), None),
        ("find", 2, ("shorter",), "find 1"),
        ("write", 2, ("shorter",), "write 1"),
        ("find", 3, ("shorter", "wittier"), "find 2"),
        ("write", 3, ("shorter", "wittier"), "write 2"),
    ]


def test_e54_so_is_one_that_sends_its_phase_back_and_only_where_it_is_meant() -> None:
    told: Told = []
    others: Told = []
    tasks = [Task(name="a", ensemble=make_inner(told)), Task(name="b", ensemble=make_inner(others))]
    decisions = [ReviewDecision.retry({"a": "shorter"}), ReviewDecision.approve()]
    review = PhaseReview(lambda request: decisions.pop(0))
    Ensemble(phases=[Phase(name="all", tasks=tasks, review=review)]).run()
    assert told[2:] == [("find", 2, ("shorter",), "find 1"), ("write", 2, ("shorter",), "write 1")]
    assert len(others) == 2


def test_e54_in_a_cell_the_prompts_inside_have_it(server: OpenAIServer, llm: str) -> None:
    inner = Ensemble(tasks=[Task.of("Find", name="find", llm=llm)])
    cell = "phases: {all: {tasks: {facts: {ensemble: inner}}, review: look}}"
    run_cell(cell, inner=inner, look=Reviewer("shorter"))
    assert "## Revision" not in server.requests[0].prompt
    assert server.requests[1].prompt.startswith(
        "## Revision Instructions (Attempt 2)\nshorter\n\n### Previous Output\nok\n\n## Task\nFind"
    )


def test_e54_what_a_fallback_has_put_out_is_the_previous_output_of_the_final_task() -> None:
    told: Told = []
    faults = [OSError("burnt")]

    def may_fail(given: TaskInput) -> str:
        if faults:
            raise faults.pop()
        return "well"

    inner = make_inner(told, None, Task.of("Cook", name="cook", handler=may_fail))
    task = Task(name="facts", ensemble=inner, review=Review(), fallback=agent("by the fallback"))
    assert run(task, review_handler=Reviewer("shorter")).raw == "write 2"
    assert told[1:] == [("find", 2, ("shorter",), None), ("write", 2, ("shorter",), "by the fallback")]


def test_e54_an_ensemble_inside_the_ensemble_hears_it_and_a_run_that_a_handler_begins_does_not() -> None:
    told: Told = []
    others: Told = []
    alone = make_inner(others)

    def begin(given: TaskInput) -> str:
        return alone.run().raw

    middle = Ensemble(
        tasks=[Task.of("Begin", name="begin", handler=begin), Task(name="inner", ensemble=make_inner(told))]
    )
    run(Task(name="facts", ensemble=middle, review=Review()), review_handler=Reviewer("shorter"))
    assert [(name, feedback) for name, _, feedback, _ in told[2:]] == [("find", ("shorter",)), ("write", ("shorter",))]
    assert told[-1][3] == "write 1"
    assert [attempt for _, attempt, _, _ in others] == [1] * 4
