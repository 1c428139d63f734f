"""The error tree: who derives from whom, what each says, how each shows, and that each survives pickling."""

from __future__ import annotations

import json
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook import Ensemble, errors
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.secrets import MASK
from ensemble_notebook.domain.outputs.task_output import Failure
from ensemble_notebook.errors import (
    AbsentObjectError,
    AgentExecutionError,
    BudgetExceededError,
    CheckFailed,
    CircularDependencyError,
    ConstraintViolationError,
    DeadlineExceededError,
    EnsembleError,
    FallbackFailedError,
    GuardrailViolationError,
    ItemsFailedError,
    MaxIterationsExceededError,
    MissingPackageError,
    ModelRefusedError,
    OutputParsingError,
    ParallelExecutionError,
    PhaseExecutionError,
    Problem,
    PromptTemplateError,
    RateLimitTimeoutError,
    ReplayError,
    ReviewRejectedError,
    ReviewTimeoutError,
    RunInterrupted,
    ScoringError,
    StoreError,
    TaskExecutionError,
    ToolExecutionError,
    TraceFormatError,
    ValidationError,
    did_you_mean,
    find_nearest,
    get_message,
    make_recorded_error,
    summarize_error,
)

EXAMPLES: list[BaseException] = [
    EnsembleError("plain"),
    ValidationError([Problem("one", field="role"), Problem("two", item=3)]),
    CircularDependencyError("context", ["a", "b"]),
    PromptTemplateError(["topic", "tone"], "Write about {topic}, {tone}"),
    TaskExecutionError("lost", task_description="do", agent_role="Writer", completed_task_outputs=["done"]),
    ParallelExecutionError("lost", failed_task_causes={"a": KeyError("k")}, task_description="do", agent_role="Writer"),
    PhaseExecutionError(
        "lost",
        failures=[Failure(name="a", agent_role="Writer", error=OSError("disk"))],
        task_description="do",
        agent_role="Writer",
    ),
    AgentExecutionError("silent", agent_role="Writer", task_description="do"),
    ModelRefusedError("no", agent_role="Writer", task_description="do"),
    FallbackFailedError(
        "Cook",
        OSError("disk"),
        "Sous-chef",
        AgentExecutionError("silent", agent_role="Sous-chef", task_description="do"),
    ),
    ScoringError("no score", result=["done"]),
    CheckFailed("1 of 2 does not hold", failed=["no_errors()"], total=2),
    ToolExecutionError("broken", tool_name="search", tool_input="{}"),
    MaxIterationsExceededError(agent_role="Writer", task_description="do", max_iterations=3, tool_calls_made=3),
    ConstraintViolationError(["Required worker 'Writer' was never delegated a task."], ["done"]),
    OutputParsingError(raw_output="?", output_type=int, parse_errors=["no JSON"], attempt_count=1),
    GuardrailViolationError("input", "too long"),
    ItemsFailedError("one of two", failures=[Failure(name="a[0]", agent_role="Writer", error=OSError("disk"))]),
    RateLimitTimeoutError("RateLimit(1, 60)", 30.0),
    BudgetExceededError("used up", budget="Budget(max_tokens=1)", limit="max_tokens"),
    ReviewTimeoutError("nobody", request="?", timeout_s=300.0),
    ReviewRejectedError("rejected", reason="too long"),
    ReplayError("no answer"),
    TraceFormatError("no trace"),
    StoreError("no run"),
    MissingPackageError("Plots need altair", extra="plots"),
    DeadlineExceededError("task", 2.5, "its handler", "Raise the timeout."),
    RunInterrupted("1 of 2 tasks are done and kept."),
    AbsentObjectError("The model is not here."),
    make_recorded_error("KeyError", "'missing'"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_error_pickles_with_all_its_facts(error: BaseException) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert {name: repr(value) for name, value in vars(again).items()} == {
        name: repr(value) for name, value in vars(error).items()
    }


def test_the_examples_are_every_error_there_is() -> None:
    classes = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BaseException)}
    assert {next(each for each in type(error).__mro__ if each in classes) for error in EXAMPLES} == classes


def test_an_error_about_an_ensemble_pickles_with_its_subject() -> None:
    ensemble = EnsembleDefinition(tasks=[Task.of("Write {topic}")], inputs={"topic": "tides"})
    again = pickle.loads(pickle.dumps(ValidationError(Problem("wrong", ensemble, "inputs"))))
    subject = again.problems[0].subject
    assert dict(subject.inputs) == {"topic": "tides"}
    assert subject.tasks[0].description == "Write {topic}"


def test_a_pickled_error_keeps_what_its_run_had_finished() -> None:
    error = TaskExecutionError("lost", task_description="do", agent_role="Writer")
    error.output = {"partial": 1}
    assert pickle.loads(pickle.dumps(error)).output == {"partial": 1}


@pytest.mark.parametrize(
    "kind, bases",
    [
        (ValidationError, (EnsembleError, ValueError)),
        (CircularDependencyError, (ValidationError,)),
        (PromptTemplateError, (EnsembleError, ValueError)),
        (TaskExecutionError, (EnsembleError, RuntimeError)),
        (ParallelExecutionError, (TaskExecutionError,)),
        (PhaseExecutionError, (TaskExecutionError,)),
        (AgentExecutionError, (EnsembleError, RuntimeError)),
        (ModelRefusedError, (AgentExecutionError,)),
        (ScoringError, (EnsembleError, RuntimeError)),
        (CheckFailed, (EnsembleError, AssertionError)),
        (ToolExecutionError, (EnsembleError, RuntimeError)),
        (MaxIterationsExceededError, (EnsembleError, RuntimeError)),
        (DeadlineExceededError, (EnsembleError, TimeoutError)),
        (ConstraintViolationError, (EnsembleError, RuntimeError)),
        (OutputParsingError, (EnsembleError, ValueError)),
        (GuardrailViolationError, (EnsembleError, RuntimeError)),
        (ItemsFailedError, (EnsembleError, RuntimeError)),
        (RateLimitTimeoutError, (EnsembleError, TimeoutError)),
        (BudgetExceededError, (EnsembleError, RuntimeError)),
        (ReviewTimeoutError, (EnsembleError, TimeoutError)),
        (ReviewRejectedError, (EnsembleError, RuntimeError)),
        (ReplayError, (EnsembleError, LookupError)),
        (TraceFormatError, (EnsembleError, ValueError)),
        (StoreError, (EnsembleError, OSError)),
        (MissingPackageError, (EnsembleError, ImportError)),
    ],
)
def test_an_error_is_caught_as_what_it_is(kind: type[Exception], bases: tuple[type[Exception], ...]) -> None:
    assert all(issubclass(kind, base) for base in bases)


def test_an_interrupt_passes_every_except_exception() -> None:
    assert issubclass(RunInterrupted, KeyboardInterrupt)
    assert not issubclass(RunInterrupted, Exception)


def test_output_is_none_where_nothing_had_started() -> None:
    assert ValidationError("wrong").output is None
    assert RunInterrupted("stopped").output is None


# --- what they say ---


def test_one_problem_is_the_whole_message() -> None:
    error = ValidationError("Agent role must not be blank.")
    assert str(error) == "Agent role must not be blank."
    assert [problem.message for problem in error.problems] == ["Agent role must not be blank."]


def test_several_problems_are_counted_and_listed_in_order() -> None:
    error = ValidationError([Problem("first"), Problem("second")])
    assert str(error) == "2 problems:\n- first\n- second"


def test_a_cycle_is_shown_as_a_closed_chain() -> None:
    error = CircularDependencyError("context", ["a", "b", "c"])
    assert "a -> b -> c -> a" in str(error)
    assert error.nodes == ("a", "b", "c")


def test_a_missing_variable_is_named_with_both_ways_out_e6() -> None:
    text = str(PromptTemplateError(["topic"], "Write about {topic}"))
    assert "{topic}" in text
    assert "topic=..." in text
    assert "{{name}}" in text


@pytest.mark.parametrize("length, quoted", [(100, "t" * 100), (101, "t" * 97 + "...")])
def test_a_template_error_keeps_the_template_and_quotes_at_most_100_characters_e6(length: int, quoted: str) -> None:
    error = PromptTemplateError(["x"], "t" * length)
    assert error.template == "t" * length
    assert f"'{quoted}'" in str(error)


def test_a_deadline_says_scope_limit_and_what_was_running_e38() -> None:
    text = str(DeadlineExceededError("model request", 60.0, "a request to gpt", "Raise llm_timeout."))
    assert text == "The model request took longer than 60 s; running was: a request to gpt. Raise llm_timeout."


# --- how they show in a cell ---


def failed_task() -> TaskExecutionError:
    """As `run` raises it: three links, the origin last."""
    try:
        try:
            try:
                raise ConnectionError("connection refused")
            except ConnectionError as origin:
                raise AgentExecutionError("no reply", agent_role="Writer", task_description="do") from origin
        except AgentExecutionError as cause:
            raise TaskExecutionError("task 'a' failed", task_description="do", agent_role="Writer") from cause
    except TaskExecutionError as error:
        return error


def test_a_cell_shows_the_error_and_its_root_cause_then_the_traceback_c13() -> None:
    error = failed_task()
    line = failed_task.__code__.co_firstlineno + 5
    assert error._render_traceback_() == [
        "TaskExecutionError: task 'a' failed",
        "  caused by ConnectionError: connection refused",
        f"  at tests/test_errors.py:{line} in failed_task",
    ]
    again = error._render_traceback_()
    assert again[0] == "Traceback (most recent call last):"
    assert again[-1].endswith("TaskExecutionError: task 'a' failed")
    assert '    raise ConnectionError("connection refused")' in again


def test_a_second_traceback_shows_the_users_frames_and_what_they_called_but_none_of_ours_c13() -> None:
    def parse(task: object) -> object:
        return json.loads("{")

    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[Task.of("Parse", handler=parse)]).run()
    caught.value._render_traceback_()
    again = "\n".join(caught.value._render_traceback_())
    assert 'return json.loads("{")' in again
    assert "json/decoder.py" in again
    assert "ensemble_notebook" + os.sep not in again.replace("ensemble_notebook.errors", "")
    assert len(again.splitlines()) < 20


def test_each_error_has_its_own_first_time() -> None:
    failed_task()._render_traceback_()
    assert len(failed_task()._render_traceback_()) == 3


def test_a_cause_that_the_message_quotes_is_not_shown_twice() -> None:
    error = EnsembleError("Task 'a' failed: ValueError: disk is full")
    error.__cause__ = ValueError("disk is full")
    assert error._render_traceback_() == ["EnsembleError: Task 'a' failed: ValueError: disk is full"]


def test_a_cause_without_a_message_still_shows_its_type() -> None:
    error = EnsembleError("Task 'a' failed")
    error.__cause__ = AssertionError()
    assert error._render_traceback_() == ["EnsembleError: Task 'a' failed", "  caused by AssertionError"]


def test_a_long_cause_is_cut_and_put_on_one_line() -> None:
    error = EnsembleError("failed")
    error.__cause__ = ValueError("line\n" * 1000)
    (_, cause) = error._render_traceback_()
    assert cause.startswith("  caused by ValueError: line line ")
    assert cause.endswith(" ...")
    assert len(cause) < 350


def test_neither_the_error_in_a_cell_nor_its_traceback_shows_a_secret_t7() -> None:
    key = "sk-" + "a1b2" * 6
    error = EnsembleError(f"{key} is refused")
    error.__cause__ = OSError(f"no user has {key}")
    short, whole = error._render_traceback_(), error._render_traceback_()
    assert short == [f"EnsembleError: {MASK} is refused", f"  caused by OSError: no user has {MASK}"]
    assert f"OSError: no user has {MASK}" in whole
    assert key not in "\n".join(whole)


def test_an_interrupt_shows_one_line_e35() -> None:
    assert RunInterrupted("2 of 5 tasks are done and kept.")._render_traceback_() == [
        "Stopped: 2 of 5 tasks are done and kept."
    ]


class MuteError(Exception):
    def __str__(self) -> str:
        raise TypeError("no text")


@pytest.mark.parametrize(
    "error, message, line",
    [
        (KeyError("city"), "'city'", "KeyError: 'city'"),
        (AssertionError(), "AssertionError", "AssertionError"),
        (MuteError(), "MuteError", "MuteError"),
        (ValueError("two\nlines"), "two\nlines", "ValueError: two lines"),
        (EnsembleError("two\nlines"), "two\nlines", "two\nlines"),
    ],
)
def test_an_error_has_a_message_and_a_line_whatever_it_is(error: Exception, message: str, line: str) -> None:
    assert get_message(error) == message
    assert summarize_error(error) == line


def test_an_error_that_was_raised_from_itself_still_shows() -> None:
    error = EnsembleError("failed")
    error.__cause__ = origin = ValueError("ring")
    origin.__cause__ = origin
    assert error._render_traceback_() == ["EnsembleError: failed", "  caused by ValueError: ring"]


# --- the nearest word ---


def test_the_nearest_word_ignores_case_and_keeps_the_spelling_of_the_known_one() -> None:
    assert find_nearest("DESCRIPTON", ["description", "Agent"]) == "description"
    assert find_nearest("agent", ["description", "Agent"]) == "Agent"


def test_nothing_near_is_none() -> None:
    assert find_nearest("xyzzy", ["role", "goal"]) is None
    assert find_nearest("role", []) is None


@given(st.text(min_size=1, max_size=20), st.lists(st.text(min_size=1, max_size=20), max_size=5))
def test_the_nearest_word_is_one_of_the_known(word: str, known: list[str]) -> None:
    assert find_nearest(word, known) in [*known, None]


@given(st.lists(st.text("abcdef", min_size=1, max_size=8), min_size=1, max_size=5, unique=True), st.data())
def test_a_known_word_is_nearest_to_itself(known: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(known))
    assert find_nearest(word, known) == word


def test_a_hint_is_the_nearest_word_else_the_known_ones_else_nothing() -> None:
    assert did_you_mean("goul", ["role", "goal"]) == " Did you mean 'goal'?"
    assert did_you_mean("xyzzy", ["role", "goal"]) == " Known: 'role', 'goal'."
    assert did_you_mean("xyzzy", []) == ""


def test_a_hint_lists_at_most_eight_words() -> None:
    hint = did_you_mean("xyzzy", [f"q{i}" for i in range(9)])
    assert "'q7', ..." in hint
    assert "'q8'" not in hint


def test_half_of_a_character_in_the_words_of_an_error_can_be_printed() -> None:
    error = AgentExecutionError("it said: half \ud83d of one", agent_role="Writer", task_description="do")
    assert str(error).encode().decode() == "it said: half \ufffd of one"
