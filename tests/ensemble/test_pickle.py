"""Errors and outputs pickle, whatever they hold: without models, tools and functions, which are described (E63)."""

from __future__ import annotations

import copy
import copyreg
import dataclasses
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import cloudpickle
import pydantic
import pytest

from ensemble_notebook import (
    AbsentObjectError,
    Agent,
    Budget,
    BudgetExceededError,
    Condition,
    CostConfiguration,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    OutputParsingError,
    Phase,
    Review,
    RunInterrupted,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    ValidationError,
)
from ensemble_notebook.errors.pickling import make_blank, set_state

DUMPS = [pickle.dumps, cloudpickle.dumps]


class Unpicklable(Exception):  # noqa: N818 - as foreign ones are called
    """An error as many libraries have them: its constructor takes more than its ``args``, and it holds a lock."""

    def __init__(self, message: str, *, response: Any) -> None:
        super().__init__(message)
        self.response = response


class Point(pydantic.BaseModel):
    x: int


def look(place: str) -> str:
    """Look there."""
    return place


def broken(given: TaskInput) -> str:
    raise Unpicklable("the server said no", response=threading.Lock()) from KeyError("missing")


def failed() -> TaskExecutionError:
    llm = ScriptedChatModel(replies=["Soup."])
    cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[look, lambda_tool()])
    soup = Task.of("Cook", name="soup", agent=cook)
    lost = Task.of("Serve", name="serve", handler=broken, context=[soup], output_guardrails=[lambda output: None])
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[soup, lost], listeners=[lambda event: None]).run()
    return caught.value


def lambda_tool() -> Any:
    def hidden(text: str) -> str:
        """Unpicklable, since it is local."""
        return text

    return hidden


def raise_failed() -> None:
    raise failed()


def give_output() -> EnsembleOutput:
    return Ensemble(tasks=[Task.of("Point", name="point", handler=lambda given: Point(x=3))], name="one").run()


@pytest.mark.parametrize("dumps", DUMPS, ids=["pickle", "cloudpickle"])
def test_an_error_pickles_with_its_output_and_its_foreign_causes_e63(dumps: Any) -> None:
    error = failed()
    again = pickle.loads(dumps(error))
    assert (type(again), str(again)) == (TaskExecutionError, str(error))
    assert again.task_description == "Serve"
    cause = again.__cause__
    assert (type(cause), str(cause)) == (Unpicklable, "the server said no")
    assert not hasattr(cause, "response")
    assert repr(cause.__cause__) == "KeyError('missing')"
    output = again.output
    assert (output.raw, output["soup"].raw, output.run_id) == (error.output.raw, "Soup.", error.output.run_id)
    assert output.failures[0].error is again.__cause__
    assert output.frames.errors.error_message.to_list() == error.output.frames.errors.error_message.to_list()
    assert output.frames.errors.origin.to_list() == error.output.frames.errors.origin.to_list()
    assert len(output.events) == len(error.output.events)


def test_an_error_pickles_by_itself_where_a_package_has_all_errors_pickled_with_their_causes_e63() -> None:
    foreign = list[Any]()
    copyreg.pickle(TaskExecutionError, lambda error: foreign.append(error) or (str, ()))  # as tblib does, for Dask
    try:
        again = pickle.loads(pickle.dumps(failed()))
    finally:
        copyreg.dispatch_table.pop(TaskExecutionError, None)
    assert (type(again), repr(again.__cause__), foreign) == (
        TaskExecutionError,
        "Unpicklable('the server said no')",
        [],
    )


def test_a_pickle_holds_descriptions_of_models_tools_and_functions_that_say_so_e63() -> None:
    packed = pickle.dumps(failed())
    assert b"ScriptedChatModel" in packed
    assert b"ensemble_notebook.models" not in packed
    ensemble = pickle.loads(packed).output.ensemble
    soup, serve = ensemble.tasks
    assert repr(soup.agent.llm) == "<model scripted (ScriptedChatModel), not in the pickle>"
    assert [each.description for each in soup.agent.tools] == ["look", "lambda_tool.<locals>.hidden"]
    with pytest.raises(AbsentObjectError, match=r"The handler broken is not here: this object comes from a pickle"):
        serve.handler("?")
    with pytest.raises(AbsentObjectError, match=r"The model scripted \(ScriptedChatModel\) is not here"):
        soup.agent.llm.ainvoke("?")
    with pytest.raises(ValidationError, match=r"(?s)The listener .*The model scripted .* is not here"):
        ensemble.run()


def test_what_is_put_in_again_runs_e63() -> None:
    task = pickle.loads(pickle.dumps(Task.of("Do", name="do", handler=broken)))
    again = dataclasses.replace(task, handler=lambda given: "done")
    assert Ensemble(tasks=[again]).run().raw == "done"


def test_a_definition_without_models_and_functions_runs_where_it_is_unpickled() -> None:
    ensemble = pickle.loads(pickle.dumps(Ensemble(tasks=[Task.of("Write about {topic}")], llm="scripted")))
    assert "tides" in ensemble.run(topic="tides").raw


def test_an_error_comes_through_a_process_pool_e63() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        error = pool.submit(raise_failed).exception(60)
        output = pool.submit(give_output).result(60)
    assert isinstance(error, TaskExecutionError)
    assert "the server said no" in str(error)
    assert error.output["soup"].raw == "Soup."
    assert type(error.output.failures[0].error) is Unpicklable
    assert output["point"].parsed_output == Point(x=3)
    assert output.name == "one"


def test_a_parsed_output_that_does_not_pickle_is_described() -> None:
    output = Ensemble(tasks=[Task.of("Lock", name="lock", handler=lambda given: threading.Lock())]).run()
    again = pickle.loads(pickle.dumps(output))
    assert repr(again["lock"].parsed_output) == "<object lock, not in the pickle>"


def test_a_type_that_is_nowhere_else_is_described() -> None:
    class Local(pydantic.BaseModel):
        x: int

    task = Task.of("Point", agent=Agent(role="A", goal="B", llm=ScriptedChatModel(default="?")), output_type=Local)
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[task]).run()
    cause = pickle.loads(pickle.dumps(caught.value)).__cause__
    assert isinstance(cause, OutputParsingError)
    assert "Local" in repr(cause.output_type)


COPIES = [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]


@pytest.mark.parametrize("make_again", COPIES, ids=["deepcopy", "pickle"])
def test_views_of_an_output_pickle_and_copy_and_so_does_an_output_that_was_looked_at(make_again: Any) -> None:
    first, second = give_output(), give_output()
    assert make_again(first.frames).tasks.equals(first.frames.tasks)
    assert make_again(first.frames).events.equals(first.frames.events)
    difference = first.diff(second)
    assert make_again(difference).frame.equals(difference.frame)
    assert make_again(first.plot).tokens().to_dict() == first.plot.tokens().to_dict()
    again = make_again(first)
    assert again.frames.tasks.equals(first.frames.tasks)
    assert again.diff(second).frame.equals(difference.frame)


def test_a_cause_whose_class_is_nowhere_else_keeps_its_name_and_text() -> None:
    class LocalError(Exception):
        pass

    error = ValidationError("wrong")
    error.__cause__ = LocalError("why")
    error.__cause__.__cause__ = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    cause = pickle.loads(pickle.dumps(error)).__cause__
    assert (type(cause).__name__, str(cause)) == ("LocalError", "why")
    assert (type(cause.__cause__).__name__, str(cause.__cause__)) == (
        "UnicodeDecodeError",
        str(error.__cause__.__cause__),
    )
    assert pickle.loads(pickle.dumps(cause)).args == ("why",)


def test_an_interrupt_and_a_budget_pickle_with_what_they_know() -> None:
    stop = RunInterrupted("1 of 2 tasks are done and kept.")
    stop.output = give_output()
    assert pickle.loads(pickle.dumps(stop)).output["point"].raw == '{"x": 3}'
    error = BudgetExceededError("used up", budget=Budget(max_tokens=3), limit="max_tokens")
    assert pickle.loads(pickle.dumps(error)).budget.max_tokens == 3


def test_views_of_an_unpickled_output_are_those_of_the_run() -> None:
    output = give_output()
    again = pickle.loads(pickle.dumps(output))
    assert again._repr_mimebundle_()["text/plain"] == output._repr_mimebundle_()["text/plain"]
    assert isinstance(again.trace, ExecutionTrace)
    assert again.trace.to_dict() == output.trace.to_dict()
    assert again.plan == output.plan
    assert [each.name for each in again] == ["point"]


def test_phases_and_conditions_pickle() -> None:
    first = Task.of("A", name="a", handler=lambda given: "x")
    second = Task.of("B", name="b", handler=lambda given: "y", when=Condition(first, predicate=lambda output: True))
    phases = [Phase.of("one", first), Phase.of("two", second, after=["one"])]
    output = Ensemble(phases=phases).run()
    again = pickle.loads(pickle.dumps(output))
    assert {name: len(outputs) for name, outputs in again.phase_outputs.items()} == {"one": 1, "two": 1}


def test_an_output_is_frozen_e63() -> None:
    output = give_output()
    with pytest.raises(AttributeError, match="an EnsembleOutput is frozen"):
        output.status = None  # type: ignore[misc, assignment]
    with pytest.raises(AttributeError, match="an EnsembleOutput is frozen"):
        del output.plan
    assert output.task_outputs is output.task_outputs


def test_copies_keep_what_a_pickle_leaves_out() -> None:
    error = failed()
    for again in (copy.copy(error), copy.deepcopy(error)):
        assert again.output.ensemble.tasks[1].handler is broken
        assert again.__cause__ is error.__cause__
    task = copy.deepcopy(Task.of("Do", handler=broken))
    assert task.handler is broken


@pytest.mark.parametrize(
    "made", [Review(), CostConfiguration(input_rate=1, output_rate=1), Task.of("Do"), Budget(max_tokens=3)]
)
def test_an_unpickled_definition_reads_as_the_one_that_was_pickled(made: Any) -> None:
    assert repr(pickle.loads(pickle.dumps(made))) == repr(made)


def test_an_output_that_an_earlier_version_has_pickled_opens_e63() -> None:
    output = give_output().task_outputs[0]
    state = output._get_pickled_state()
    state["declared_role"] = state.pop("_declared_role")
    again = set_state(make_blank(type(output)), state)
    assert again._declared_role is None
    assert again.raw == output.raw
