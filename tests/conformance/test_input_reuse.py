"""Of the inputs of a run, those count for the reuse of a task that its code has read (C34a)."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskNotReused,
    TaskReused,
)
from tests.conformance.scene import agent, done, lost, of

pytestmark = pytest.mark.usefixtures("store_path")

Handler = Callable[[TaskInput], Any]


def make(handler: Handler) -> Ensemble:
    """A handler, and a paid task that reads it."""
    gather = done("gather", handler=handler)
    cook = Agent(role="Cook", goal="Cook", llm=ScriptedChatModel.match({}, default="Soup."))
    return Ensemble(tasks=[gather, Task.of("Cook it", name="cook", agent=cook, context=[gather])], name="kitchen")


def tell(output: EnsembleOutput, task: str = "gather") -> str:
    """Why a task was reused or ran, beginning with which of the two it was."""
    (event,) = (each for each in output.events if isinstance(each, TaskReused | TaskNotReused) and each.task == task)
    return f"{'reused' if isinstance(event, TaskReused) else 'ran'}: {event.reason.partition(' since ')[0]}"


def rerun(handler: Handler, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What a second run with other inputs says of a handler."""
    ensemble = make(handler)
    ensemble.run(before)
    return tell(ensemble.run(after, reuse=True))


def test_c34a_an_input_that_nothing_reads_costs_nothing() -> None:
    ensemble = make(lambda task: f"Facts about {task.inputs['topic']}")
    first = ensemble.run(topic="tides", style="terse")
    second = ensemble.run(topic="tides", style="florid", reuse=True)
    assert [tell(second, each) for each in ("gather", "cook")] == ["reused: unchanged"] * 2
    assert (second.raw, second.metrics.llm_call_count) == (first.raw, 0)
    third = ensemble.run(topic="moon", style="florid", reuse=True)
    assert tell(third) == "ran: the input topic changed 'tides' -> 'moon'"
    assert tell(third, "cook") == "ran: the output of gather changed"


TWO = {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "read, after, told",
    [
        (lambda inputs: inputs.get("a"), {"a": 1}, "reused: unchanged"),
        (lambda inputs: inputs.get("c"), {"x": 1}, "reused: unchanged"),
        (lambda inputs: inputs.get("c"), TWO | {"c": 3}, "ran: whether there is an input c changed False -> True"),
        (lambda inputs: "a" in inputs, {"a": 7, "x": 8}, "reused: unchanged"),
        (lambda inputs: "a" in inputs and inputs["a"], {"b": 2}, "ran: the input a is gone"),
        (lambda inputs: "a" in inputs, {"b": 2}, "ran: whether there is an input a changed True -> False"),
        (lambda inputs: "a" in inputs.keys(), {"a": 7}, "reused: unchanged"),  # noqa: SIM118 - as users write it
        (len, {"x": 8, "y": 9}, "reused: unchanged"),
        (len, {"a": 1}, "ran: the number of inputs changed 2 -> 1"),
        (list, {"b": 2, "a": 1}, "reused: unchanged"),
        (list, TWO | {"c": 3}, "ran: the input c is new"),
        (lambda inputs: dict(inputs.items()), {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (lambda inputs: list(inputs.values()), {"a": 1}, "ran: the input b is gone"),
        (lambda inputs: {**inputs}, {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (lambda inputs: inputs | {"c": 3}, {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (lambda inputs: inputs == TWO, {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (lambda inputs: inputs != {}, {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (lambda inputs: list(reversed(inputs)), {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (repr, {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (copy.copy, {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
        (copy.deepcopy, {"a": 1, "b": 3}, "ran: the input b changed 2 -> 3"),
    ],
)
def test_c34a_what_is_read_of_the_inputs_is_what_is_compared(
    read: Callable[[Any], Any], after: dict[str, Any], told: str
) -> None:
    assert rerun(lambda task: str(read(task.inputs)), TWO, after) == told


def in_a_helper(task: TaskInput) -> str:
    def look(inputs: Mapping[str, Any]) -> str:
        return str(inputs["a"])

    return look(task.inputs)


def in_a_thread(task: TaskInput) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(str(task.inputs["a"])))
    thread.start()
    thread.join()
    return found[0]


async def async_(task: TaskInput) -> str:
    await asyncio.sleep(0)
    return str(task.inputs["a"])


async def in_a_worker_thread(task: TaskInput) -> str:
    return await asyncio.to_thread(lambda: str(task.inputs["a"]))


def in_a_nested_run(task: TaskInput) -> str:
    inner = Ensemble(tasks=[done("inner", handler=lambda given: str(given.inputs["a"]))])
    return inner.run(a=task.inputs["a"]).raw


@pytest.mark.parametrize("handler", [in_a_helper, in_a_thread, async_, in_a_worker_thread, in_a_nested_run])
def test_c34a_a_read_counts_wherever_it_is(handler: Handler) -> None:
    ensemble = make(handler)
    ensemble.run(TWO)
    assert tell(ensemble.run({"a": 1, "b": 3}, reuse=True)) == "reused: unchanged"
    assert tell(ensemble.run({"a": 2, "b": 3}, reuse=True)) == "ran: the input a changed 1 -> 2"


def test_c34a_a_pickled_task_input_has_read_all_of_them_and_is_whole() -> None:
    def send(task: TaskInput) -> str:
        received = pickle.loads(pickle.dumps(task))
        assert (received.name, dict(received.inputs)) == (task.name, {"a": 1, "b": received.inputs["b"]})
        return str(received.inputs["a"])

    assert rerun(send, TWO, {"a": 1, "b": 3}) == "ran: the input b changed 2 -> 3"


def test_c34a_code_that_reads_other_inputs_for_other_values_is_reused_for_each() -> None:
    ensemble = make(lambda task: task.inputs["b" if task.inputs["a"] else "c"])
    for inputs in ({"a": True, "b": "B", "c": "x"}, {"a": False, "b": "x", "c": "C"}):
        ensemble.run(inputs)
    assert tell(ensemble.run({"a": True, "b": "B", "c": "y"}, reuse=True)) == "reused: unchanged"
    assert tell(ensemble.run({"a": False, "b": "y", "c": "C"}, reuse=True)) == "reused: unchanged"
    assert tell(ensemble.run({"a": False, "b": "y", "c": "D"}, reuse=True)).startswith("ran: the input c changed")


def test_c34a_what_a_reused_task_had_read_counts_for_the_run_after_it() -> None:
    ensemble = make(lambda task: str(task.inputs["a"]))
    ensemble.run(a=1, b=1)
    ensemble.run(a=1, b=2, reuse=True)
    assert tell(ensemble.run(a=1, b=3, reuse=True)) == "reused: unchanged"
    assert tell(ensemble.run(a=2, b=2, reuse=True)) == "ran: the input a changed 1 -> 2"


def test_c34a_what_can_not_be_compared_hinders_only_those_who_read_it() -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        assert rerun(lambda task: "Said.", {"db": connection}, {"db": connection}) == "reused: unchanged"
        told = rerun(lambda task: str(task.inputs["db"] is None), {"db": connection}, {"db": connection})
        assert told.startswith("ran: the input db ")


def test_c34a_a_value_that_the_handler_changes_counts_as_it_was() -> None:
    def count(task: TaskInput) -> str:
        task.inputs["rows"].append("more")
        return str(len(task.inputs["rows"]))

    ensemble = make(count)
    ensemble.run(rows=["one"])
    assert tell(ensemble.run(rows=["one"], reuse=True)) == "reused: unchanged"


def test_c34a_an_input_guardrail_of_an_agent_is_such_code_too() -> None:
    def is_open(task: TaskInput) -> bool:
        return bool(task.inputs["open"])

    task = Task.of("Cook", name="gather", agent=agent("Soup.", "Stew."), input_guardrails=[is_open])
    ensemble = Ensemble(tasks=[task], name="kitchen")
    ensemble.run({"open": 1, "menu": "x"})
    assert tell(ensemble.run({"open": 1, "menu": "y"}, reuse=True)) == "reused: unchanged"
    assert tell(ensemble.run({"open": 2, "menu": "y"}, reuse=True)) == "ran: the input open changed 1 -> 2"


def test_c34a_rows_of_a_map_are_found_by_what_was_read() -> None:
    ensemble = Ensemble(tasks=[done("say", handler=lambda task: task.inputs["city"])], name="towns")
    rows = [{"city": name, "seen": 1} for name in ("Rome", "Oslo")]
    ensemble.map(rows)
    again = ensemble.map([{**each, "seen": 2} for each in rows], reuse=True)
    assert [each.output.task_outputs[0].reused for each in again if each.output is not None] == [True, True]


def test_c33_a_run_that_is_resumed_with_another_input_does_again_what_has_read_it() -> None:
    first = done("first", handler=lambda task: str(task.inputs["a"]))
    second = done("second", handler=lambda task: str(task.inputs["b"]))
    ensemble = Ensemble(tasks=[first, second, lost("end", context=[second])])
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run(TWO)
    stopped = caught.value.output
    assert isinstance(stopped, EnsembleOutput)
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run(resume=stopped, b=3)
    output = caught.value.output
    assert isinstance(output, EnsembleOutput)
    assert [each.task for each in of(output, TaskReused)] == ["first"]
    assert tell(output, "second") == "ran: the input b changed 2 -> 3"
