"""Keys of tasks: what counts when a task is compared with a remembered one, and what changed, in words (C34a)."""

from __future__ import annotations

import dataclasses
import datetime
import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_openai import ChatOpenAI

from ensemble_notebook import Agent, Condition, Ensemble, RateLimit, Review, ScriptedChatModel, Task, Workflow
from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.fingerprints.parts import explain_difference, read_reads
from ensemble_notebook.domain.fingerprints.task_keys import DelegationSettings, TaskKeys, TaskStart
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.delegation import add_team
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.domain.seams.kept_tasks import EVERY_INPUT, InputRead, TaskKey

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def search(query: str) -> str:
    """Find."""
    return clean(query)


def clean(text: str) -> str:
    return text.strip()


def is_short(output: TaskOutput) -> str | None:
    return None if len(output.raw) < 10 else "too long"


def make_output(raw: str = "found", name: str = "gather", **fields: Any) -> TaskOutput:
    values = {"task_description": "d", "agent_role": "A", "completed_at": NOW, "duration": datetime.timedelta(1)}
    return TaskOutput(name=name, raw=raw, **values, **fields)


def make_key(task: dict[str, Any] | None = None, agent: dict[str, Any] | None = None, **start: Any) -> TaskKey:
    """The key of a task with these fields of its own, of its agent and of its start, in an ensemble beside another."""
    team = start.pop("team", {})
    fields: dict[str, Any] = {"description": "Write.", "expected_output": "A text.", "name": "write", **(task or {})}
    if "handler" not in fields:
        worker = {"role": "Writer", "goal": "Write well.", "llm": "openai:small@http://one/v1", "tools": [search]}
        fields["agent"] = Agent(**worker | (agent or {}))
    other = Task.of("Check.", agent=Agent(**{"role": "Editor", "goal": "Edit.", "llm": "scripted", **team}))
    ensemble = Ensemble(tasks=[Task(**fields), other], workflow=Workflow.PARALLEL)
    graph = add_team(ensemble, build_graph(ensemble))
    texts = {"description": fields["description"], "expected_output": fields["expected_output"]}
    settings = start.pop("delegation", DelegationSettings())
    return TaskKeys(graph, settings).make_key(TaskStart(node=graph.tasks[0], **texts | start))


def test_key_is_that_of_stores_of_before():
    agent = Agent(role="Writer", goal="Write.", llm="scripted")
    graph = build_graph(Ensemble(tasks=[Task(name="say", description="Say", expected_output="It.", agent=agent)]))
    start = TaskStart(node=graph.tasks[0], description="Say it", expected_output="It.", missing=("gone",), previous="x")
    assert TaskKeys(graph).make_key(start).key == "c7d27b025927f0c7fd846fad177ee384"


@pytest.mark.parametrize("place", ["context", "inputs"])
def test_key_that_is_made_later_is_that_of_the_start(place):
    values = ["old"]
    given = {"context": {"context": (make_output(parsed_output=values),)}, "inputs": {"inputs": {"topics": values}}}
    graph = build_graph(Ensemble(tasks=[Task.of("Count.", handler=lambda _: "2")]))
    start = TaskStart(node=graph.tasks[0], description="Count.", expected_output="A number.", **given[place])
    keys = TaskKeys(graph)
    later = keys.make_key_later(start)
    at_start = TaskKeys(graph).make_key(start).with_reads(EVERY_INPUT)
    values.append("new")  # by the task that was started
    assert later.get().with_reads(EVERY_INPUT) == at_start
    assert TaskKeys(graph).make_key(start).with_reads(EVERY_INPUT) != at_start


COUNTS = {
    "description": ({"task": {"description": "Write it."}}, "the description changed"),
    "expected output": ({"task": {"expected_output": "Two."}}, "the expected output changed"),
    "goal": ({"agent": {"goal": "Be brief."}}, "the goal of agent Writer changed 'Write well.' -> 'Be brief.'"),
    "role": ({"agent": {"role": "Poet"}}, "the role of agent Poet changed 'Writer' -> 'Poet'"),
    "background": ({"agent": {"background": "Old."}}, "the background of agent Writer is new"),
    "limit": ({"agent": {"max_iterations": 3}}, "the max_iterations of agent Writer changed 25 -> 3"),
    "model": (
        {"agent": {"llm": "openai:large@http://one/v1"}},
        "the model changed 'openai:small' -> 'openai:large'",
    ),
    "address": (
        {"agent": {"llm": "openai:small@http://two/v1"}},
        "base_url changed 'http://one/v1' -> 'http://two/v1'",
    ),
    "temperature": (
        {"agent": {"llm": {"model": "small", "base_url": "http://one/v1", "temperature": 0.9}}},
        "temperature is new",
    ),
    "tool": ({"agent": {"tools": [clean]}}, "the tool clean is new; the tool search is gone"),
    "output type": ({"task": {"output_type": {"type": "object"}}}, "the output type is new"),
    "guardrail": ({"task": {"output_guardrails": is_short}}, "output guardrail 1 is new"),
    "condition": ({"task": {"when": Condition("editor", contains="x")}}, "condition 1 is new"),
    "output": ({"context": (make_output("x"),)}, "the output of gather is new"),
    "missing": ({"missing": ("it failed",)}, "what is missing of the context is new"),
    "feedback": ({"feedback": ("shorter",)}, "the feedback is new"),
    "previous": ({"previous": "long"}, "the output before is new"),
    "memory": (
        {"memory": {"notes": [MemoryEntry(text="a", created_at=NOW)]}},
        "what was found in the memory notes is new",
    ),
}


@pytest.mark.parametrize("what", COUNTS)
def test_what_counts_changes_the_key_and_is_told(what):
    change, words = COUNTS[what]
    before, after = make_key(), make_key(**change)
    assert after.key != before.key
    assert words in explain_difference(before.parts, after.parts)


DOES_NOT_COUNT = {
    "name": {"task": {"name": "other"}},
    "timeout": {"task": {"timeout": 9}},
    "review": {"task": {"review": Review(timing="after")}},
    "rate limit": {"agent": {"rate_limit": RateLimit(1, 1)}},
    "retries": {"agent": {"max_retries": 9}},
    "retry wait": {"agent": {"max_retry_wait": 9}},
    "llm timeout": {"agent": {"llm_timeout": 9}},
    "verbose": {"agent": {"verbose": True}},
    "another agent": {"team": {"goal": "Else."}},
    "spelling of the model": {"agent": {"llm": {"base_url": "http://one/v1/", "model": "small", "api_key_env": "KEY"}}},
    "inputs that are in no text": {"inputs": {"topic": "x"}},
}


@pytest.mark.parametrize("what", DOES_NOT_COUNT)
def test_what_does_not_count_keeps_the_key(what):
    before, after = make_key(), make_key(**DOES_NOT_COUNT[what])
    assert after.key == before.key
    assert explain_difference(before.parts, after.parts) == "nothing that counts changed"


def test_output_that_is_read_counts_by_text_and_value_alone():
    before = make_key(context=(make_output("x", parsed_output={"a": 1}),))
    same = make_output("x", name="renamed", parsed_output={"a": 1}, tool_call_count=3, reused=True)
    assert (
        make_key(context=(dataclasses.replace(same, agent_role="B", completed_at=NOW.replace(year=2027)),)).key
        == before.key
    )
    for other in (make_output("y", parsed_output={"a": 1}), make_output("x", parsed_output={"a": 2})):
        assert make_key(context=(other,)).key != before.key


@pytest.mark.parametrize(
    "raw, value, words",
    [
        ("['a', 'b']", ["a", "b"], "the output of gather changed"),
        ("['a']", ["a", "b"], "the value of gather changed"),
        ("['b']", None, "the output of gather changed"),
        ("['a']", None, "the value of gather is gone"),
    ],
)
def test_output_that_changed_is_told_once(raw, value, words):
    before = make_key(context=(make_output("['a']", parsed_output=["a"]),))
    after = make_key(context=(make_output(raw, parsed_output=value),))
    assert explain_difference(before.parts, after.parts).partition(":")[0] == words


def test_memory_entry_counts_by_text_and_time():
    def read(**fields: Any) -> str:
        entry = MemoryEntry(**{"text": "a", "created_at": NOW, "metadata": {"task": "x"}, **fields})
        return make_key(memory={"notes": [entry]}).key

    assert read(metadata={}) == read()
    assert read(text="b") != read()
    assert read(created_at=NOW.replace(year=2027)) != read()


def test_handler_counts_by_its_code():
    handlers = [lambda task: task.inputs["a"], lambda task: task.inputs["b"]]
    one, other = (make_key(task={"handler": each}, inputs={"a": 1}) for each in handlers)
    assert one.key != other.key
    assert explain_difference(one.parts, other.parts) == "the handler changed: its code"


def read(inputs: dict[str, Any], *reads: InputRead, **fields: Any) -> TaskKey:
    """The key of a task whose handler has read this of these inputs."""
    task = {"handler": search, **fields}
    return make_key(task=task, inputs=inputs).with_reads(frozenset(reads))


A, HAS_A, NUMBER, ALL = InputRead("value", "a"), InputRead("presence", "a"), InputRead("number"), InputRead("all")


@pytest.mark.parametrize(
    "what, same, other, words",
    [
        (A, {"a": 1, "b": 3}, {"a": 2, "b": 2}, "the input a changed 1 -> 2"),
        (A, {"a": 1}, {"b": 2}, "the input a is gone"),
        (HAS_A, {"a": 2}, {"b": 2}, "whether there is an input a changed True -> False"),
        (NUMBER, {"x": 1, "y": 2}, {"a": 1}, "the number of inputs changed 2 -> 1"),
        (ALL, {"b": 2, "a": 1}, {"a": 1, "b": 3}, "the input b changed 2 -> 3"),
        (ALL, {"b": 2, "a": 1}, {"a": 1, "b": 2, "c": 3}, "the input c is new"),
    ],
)
def test_of_the_inputs_only_what_code_reads_counts(what, same, other, words):
    before = read({"a": 1, "b": 2}, what)
    assert read(same, what) == before
    after = read(other, what)
    assert after.key != before.key
    assert explain_difference(before.parts, after.parts) == words
    assert read_reads(before.parts) == {what}


def test_code_that_reads_nothing_has_one_key_for_all_inputs():
    assert read({"a": 1}).key == read({"b": [2]}).key != read({"a": 1}, A).key


def test_input_that_can_not_be_compared_is_an_obstacle_for_whoever_reads_it():
    inputs = {"a": 1, "store": sqlite3.connect(":memory:")}
    assert read(inputs, A).obstacle is None
    assert "the input store" in (read(inputs, InputRead("value", "store")).obstacle or "")
    inputs["store"].close()


def test_key_of_a_time_when_reads_were_not_noted_is_the_end_of_one_with_all_inputs():
    """As stores of then have it: of an item, without the input that has the items."""
    whole = read({"a": 1, "b": 2}, ALL)
    assert whole.key.rpartition("/")[2] == "4970991d914b4eee5417536429d89c08"
    item = make_key(task={"handler": search, "for_each": "{rows}"}, inputs={"a": 1, "rows": [1, 2]}, item=1)
    first, second = (item.with_reads(each).key.rpartition("/")[2] for each in item.older_reads)
    assert (first, second) == ("48b324236d765a77c644c0ab60ffddba", "c80bb43695cb7f7fbd331696509dd7f5")


@pytest.mark.parametrize("text", ["", "3", "[3]", '[["value"]]', '[["value", {}]]', "[" * 100_000])
def test_reads_that_somebody_has_edited_are_none(text):
    assert read_reads({"reads": text}) is None


def test_model_object_counts_by_class_and_parameters_and_never_by_key():
    def read(**fields: Any) -> TaskKey:
        return make_key(agent={"llm": ChatOpenAI(**{"model": "m", "api_key": "a" * 20, "temperature": 0.2, **fields})})

    before = read()
    assert read().key == before.key
    assert read(api_key="b" * 20, timeout=3, max_retries=7).key == before.key
    after = read(temperature=0.9)
    assert after.key != before.key
    assert explain_difference(before.parts, after.parts) == "temperature changed 0.2 -> 0.9"
    assert read(model="n").key != before.key
    assert not any("a" * 12 in each for each in before.parts.values())


def test_bound_parameters_of_a_model_count():
    model = ScriptedChatModel(default="x")
    keys = {make_key(agent={"llm": each}).key for each in (model, model.bind(stop=["a"]), model.bind(stop=["b"]))}
    assert len(keys) == 3
    assert make_key(agent={"llm": model.bind(stop=["a"])}).key in keys
    assert make_key(agent={"llm": ScriptedChatModel(default="y")}).key not in keys


def test_scripted_model_that_has_answered_is_the_same():
    model = ScriptedChatModel(default="x")
    before = make_key(agent={"llm": model}).key
    model.invoke("hello")
    assert make_key(agent={"llm": model}).key == before


def test_whoever_can_be_asked_counts_where_an_agent_may_delegate():
    before = make_key(agent={"allow_delegation": True})
    after = make_key(agent={"allow_delegation": True}, team={"goal": "Else."})
    assert after.key != before.key
    assert explain_difference(before.parts, after.parts) == "the worker Editor changed: agent goal 'Edit.' -> 'Else.'"
    policy = DelegationSettings(policies=(lambda request, context: None,))
    assert make_key(agent={"allow_delegation": True}, delegation=policy).key != before.key
    assert make_key(delegation=policy).key == make_key().key


def test_fallback_counts_with_its_model():
    fallback = Agent(role="B", goal="g", llm="scripted")
    before = make_key(task={"fallback": fallback})
    after = make_key(task={"fallback": dataclasses.replace(fallback, llm="local")})
    assert after.key != before.key
    assert explain_difference(before.parts, after.parts) == "the fallback changed: model 'scripted' -> 'local'"


def test_order_of_tools_does_not_count():
    assert make_key(agent={"tools": [clean, search]}).key == make_key(agent={"tools": [search, clean]}).key


def test_what_can_not_be_compared_is_an_obstacle_in_words():
    connection = sqlite3.connect(":memory:")

    def query(text: str) -> str:
        """Ask."""
        return str(connection.execute(text))

    obstacle = make_key(agent={"tools": [query]}).obstacle
    assert obstacle == "the tool query reaches connection, a sqlite3.Connection, which can't be compared by content"
    assert make_key().obstacle is None
    connection.close()


class Broken:
    """An object that can't even be looked at."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ZeroDivisionError


def test_key_of_an_object_that_raises_is_an_obstacle_too():
    key = make_key(context=(make_output("x", parsed_output=[Broken()]),))
    assert key.obstacle is not None
    assert "Broken" in key.obstacle


def test_change_of_a_helper_is_told_by_its_name(monkeypatch):
    before = make_key()
    monkeypatch.setitem(globals(), "clean", lambda text: text)
    after = make_key()
    assert explain_difference(before.parts, after.parts) == "the tool search changed: its helper clean"


def test_many_changes_are_counted():
    after = make_key(
        task={"description": "d", "expected_output": "e"}, agent={"goal": "g", "max_iterations": 3, "llm": "local"}
    )
    told = explain_difference(make_key().parts, after.parts)
    assert told.count(";") == 3
    assert told.endswith("more changes")


@given(st.text(), st.text())
def test_texts_are_told_apart_and_never_run_together(one, other):
    before, after = make_key(description=one, expected_output=other), make_key(description=other, expected_output=one)
    assert (before.key == after.key) == (one == other)
