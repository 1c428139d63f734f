"""Reviews of tasks, of phases and of the whole cell, and guardrails (C2, C3, C5)."""

import pytest

from ensemble_notebook.domain.definitions.enums import OnTimeout, ReviewPolicy, ReviewTiming
from ensemble_notebook.domain.definitions.task import Task
from tests.support.cell import assert_mistakes, mistakes_of, read


def ask(request):
    return None


def check(given):
    return None


def gates(review):
    found = read(f"tasks: [{{description: x, review: {review}}}]").definition.tasks[0].review
    return [(each.timing.value, each.timeout, each.on_timeout.value) for each in found]


@pytest.mark.parametrize(
    "review, found",
    [
        ("true", [("after", 300.0, "exit_early")]),
        ("before", [("before", 300.0, "exit_early")]),
        ("[before, During, after]", [(each, 300.0, "exit_early") for each in ("before", "during", "after")]),
        ("{timing: before, timeout: 5, on_timeout: fail}", [("before", 5, "fail")]),
        ("[{timing: after, timeout: null}, before]", [("after", None, "exit_early"), ("before", 300.0, "exit_early")]),
    ],
)
def test_review_of_a_task_has_a_long_and_short_forms(review, found):
    assert gates(review) == found


def test_human_input_of_another_tool_is_a_review_afterwards():
    cell = read("tasks: [{description: x, human_input: true}, {description: y, humanInput: false}]")
    first, second = cell.definition.tasks
    assert [(each.timing, each.on_timeout) for each in first.review] == [(ReviewTiming.AFTER, OnTimeout.EXIT_EARLY)]
    assert second.review == ()
    assert [notice.message for notice in cell.notices] == [
        "'human_input' of task 1 is read as 'review'.",
        "'humanInput' of task 2 is read as 'review'.",
        "'human_input: false' is how tasks run; it is not needed.",
    ]


@pytest.mark.parametrize(
    "review, told",
    [
        ("«bfore»", r"Review timing can't be 'bfore'. Did you mean 'before'\?"),
        ("«false»", "can't be false: without it there is none"),
        ("[before, «before»]", "two gates 'before'"),
        ("{«timng»: before}", r"unknown key 'timng' in 'review' of task 1. Did you mean 'timing'\?"),
        ("{on_timeout: «fial»}", r"Review on_timeout can't be 'fial'. Did you mean 'fail'\?"),
        ("{timeout: «0»}", "Review timeout must be seconds > 0"),
        ("«3»", "takes a text, and this is the number 3"),
    ],
)
def test_mistake_in_a_review_is_shown_in_its_place(review, told):
    assert_mistakes(f"tasks: [{{description: x, review: {review}}}]", told)


@pytest.mark.parametrize(
    "review, handler", [("{policy: after_last_task, handler: ask}", ask), ("After_Last_Task", None)]
)
def test_review_of_the_cell_is_a_policy_and_its_handler(review, handler):
    found = read(f"review: {review}\ntasks: [a]", {"ask": ask}).definition
    assert (found.review_policy, found.review_handler) == (ReviewPolicy.AFTER_LAST_TASK, handler)


def test_mistake_in_the_review_of_the_cell_is_shown_in_its_place():
    assert_mistakes("review: «after_lst_task»\ntasks: [a]", r"Did you mean 'after_last_task'\?")
    assert_mistakes("review: {«polcy»: never}\ntasks: [a]", r"in 'review' of the cell. Did you mean 'policy'\?")
    assert_mistakes("review: {handler: «aks»}\ntasks: [a]", r"Did you mean 'ask'\?", namespace={"ask": ask})
    assert_mistakes("«review»:\ntasks: [a]", "'review' of the cell has no value")


# phases


def phase(text, namespace=None):
    return read(text, namespace).definition.phases[0]


def test_phase_may_be_reviewed_by_a_function():
    found = phase("phases: {p: {tasks: [x], review: ask}}", {"ask": ask}).review
    assert (found.by, found.max_retries) == (ask, 2)
    found = phase("phases: {p: {tasks: [x], review: {by: ask, max_retries: 0}}}", {"ask": ask}).review
    assert (found.by, found.max_retries) == (ask, 0)


def test_task_of_the_phase_that_reviews_it_stands_behind_it():
    tasks = "{write: Write, check: {description: Look, agent: Ed}}"
    found = phase(f"agents: {{Ed: {{goal: g}}}}\nphases: {{p: {{tasks: {tasks}, review: check}}}}")
    assert [task.name for task in found.tasks] == ["write"]
    reviewer = found.review.by
    assert isinstance(reviewer, Task)
    assert (reviewer.name, reviewer.description, reviewer.context) == ("check", "Look", ())
    assert reviewer.agent is not None
    assert reviewer.agent.role == "Ed"


def test_reviewer_of_a_list_is_left_out_of_the_chain():
    text = "phases: {p: {tasks: [{name: a, description: x}, {name: b, description: y}, z], review: {by: b}}}"
    first, last = phase(text).tasks
    assert (first.name, last.context) == ("a", (first,))


def test_phase_may_be_reviewed_by_a_task_that_is_written_there():
    for review in ('"Is it {mood}?"', "{by: {description: 'Is it {mood}?'}}", "{description: 'Is it {mood}?'}"):
        cell = read(f"phases: {{p: {{tasks: [x], review: {review}}}}}", {"mood": "good"})
        assert cell.definition.phases[0].review.by.description == "Is it {mood}?"
        assert cell.variables == ("mood",)


@pytest.mark.parametrize(
    "review, told",
    [
        ("«chek»", r"no 'chek' in this notebook. Did you mean 'check'\?"),
        ("«{max_retries: 1}»", "needs the key 'by'"),
        ("{by: check, max_retries: «-1»}", "PhaseReview max_retries must be a whole number >= 0"),
        ("{by: check, «max_retrys»: 1}", r"Did you mean 'max_retries'\?"),
        ("{by: «number»}", "must be a task, a function, or what is to be looked at as a text, got 3"),
        ("{description: d, context: [«u»]}", "'u'"),
        ("{description: d, «when»: {t: x}}", "has a when; a phase is reviewed whenever it is done"),
        ("{by: check, on_exhausted: «kept»}", "PhaseReview on_exhausted can't be 'kept'. Did you mean 'keep'"),
        ("{description: d, agent: «N»}", "there is no agent 'N'"),
        ('"Is it {mood}?"'.replace("{mood}", "«{mood}»"), "{mood} has no value"),
        ("«true»", "takes a function of this notebook, a task of the phase, or .* and this is the value true"),
    ],
)
def test_mistake_in_the_review_of_a_phase_is_shown_in_its_place(review, told):
    text = f"phases: {{p: {{tasks: {{t: x}}, review: {review}}}}}"
    assert_mistakes(text, told, namespace={"check": check, "number": 3})


def test_nobody_reads_the_reviewer():
    text = "phases: {p: {tasks: {a: x, b: {description: y, context: [«check»]}, check: z}, review: check}}"
    assert_mistakes(text, "there is no task 'check' in this cell")


# guardrails


def test_guardrails_are_one_name_or_a_list():
    text = "tasks: [{description: x, input_guardrails: check, output_guardrails: [check, ask]}]"
    task = read(text, {"check": check, "ask": ask}).definition.tasks[0]
    assert (task.input_guardrails, task.output_guardrails) == ((check,), (check, ask))


def test_guardrail_of_another_tool_is_one_of_the_output():
    cell = read("tasks: [{description: x, guardrail: check}]", {"check": check})
    assert cell.definition.tasks[0].output_guardrails == (check,)
    assert [notice.message for notice in cell.notices] == ["'guardrail' of task 1 is read as 'output_guardrails'."]


def test_method_of_a_crew_is_answered_with_what_to_write():
    text = "tasks: [{description: x, guardrail: «self.check»}]"
    assert_mistakes(text, r"'self.check' is a method of a class of another tool", namespace={})
    (mistake,) = mistakes_of("tasks: [{description: x, guardrail: self.check}]")
    assert mistake.hint.startswith("Define `def check(output): ...` in a cell above, which gives True to let the")
    (mistake,) = mistakes_of("tasks: [{description: x, tools: self.search}]")
    assert mistake.hint == "Define a tool of the name 'search' in a cell above, and write `search` here."


def test_mistake_in_guardrails_is_shown_in_its_place():
    names = {"check": check, "number": 3}
    text = "tasks: [{description: x, input_guardrails: «chek», output_guardrails: [check, «number», «ceck»]}]"
    assert_mistakes(
        text, "Did you mean 'check'", r"output_guardrails\[1\] must be a function", "'ceck'", namespace=names
    )
    assert_mistakes("tasks: [{description: x, input_guardrails: [check, «check»]}]", "stands twice", namespace=names)
