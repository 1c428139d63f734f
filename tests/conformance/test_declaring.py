"""Declaring: immutable value objects, and the rules between them (E1 to E7)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

import pytest
from langchain_core.tools import tool

from ensemble_notebook import (
    Agent,
    CircularDependencyError,
    Ensemble,
    EnsembleOutput,
    Phase,
    PromptTemplateError,
    RunEnded,
    RunStatus,
    Task,
    TaskCompleted,
    TaskInput,
    ToolResult,
    ValidationError,
)
from ensemble_notebook.ensemble.run_settings import SETTING_NAMES
from tests.conformance.scene import agent, done, lost, prompts, run, say, scripted
from tests.support.limits import meet_limit


@tool
def weigh(item: str) -> str:
    """Weigh an item."""
    return f"{item}: 2 kg"


class Scales:
    """An object whose methods are tools."""

    @tool
    def weigh(self, item: str) -> str:
        """Weigh an item."""
        return item

    @tool
    def tare(self) -> str:
        """Set to zero."""
        return "0"


class Oven:
    """An AgentTool."""

    name = "oven"
    description = "Bake."

    def execute(self, text: str) -> ToolResult:
        return ToolResult.ok(f"baked {text}")


def count(items: list[str]) -> int:
    """Count items."""
    return len(items)


# --- E1 ---


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"role": " "}, "role must not be blank"),
        ({"goal": ""}, "goal must not be blank"),
        ({"llm": None}, "llm must not be None"),
        ({"max_iterations": 0}, "max_iterations must be a whole number >= 1, got 0"),
        ({"tools": [weigh, 7]}, "Tool at index 1 (int) is no tool"),
        ({"tools": [weigh, weigh]}, "stands twice: at index 0 and 1"),
        ({"rolle": "x"}, "has no field 'rolle'. Did you mean 'role'?"),
    ],
)
def test_e1_a_wrong_agent_is_refused_with_the_value_and_the_place(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Agent(**{"role": "Cook", "goal": "Feed people", **fields})
    assert said in str(caught.value)


def test_e1_role_goal_llm_iterations_and_tools_are_checked_in_this_order() -> None:
    wrong: dict[str, Any] = {"role": "", "goal": "", "llm": None, "max_iterations": 0, "tools": [7]}
    right = {"role": "Cook", "goal": "Feed people", "llm": "local", "max_iterations": 1, "tools": ()}
    for name in wrong:
        with pytest.raises(ValidationError) as caught:
            Agent(**wrong)
        assert [problem.field for problem in caught.value.problems] == [name]
        wrong[name] = right[name]


def test_e1_a_tool_is_a_function_a_langchain_tool_an_agent_tool_or_an_object_with_tool_methods() -> None:
    llm = scripted("Done.")
    run(Task.of("Cook", agent=Agent(role="Cook", goal="Cook", llm=llm, tools=[count, Oven(), Scales()])))
    assert llm.calls[0].tools == ("count", "oven", "weigh", "tare")


def test_e1_agents_are_frozen_and_a_changed_copy_is_made_by_replace() -> None:
    cook = agent()
    with pytest.raises(dataclasses.FrozenInstanceError):
        cook.role = "Chef"  # type: ignore[misc]
    assert dataclasses.replace(cook, role="Chef").role == "Chef"
    assert cook.role == "Cook"


# --- E2 ---


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"description": ""}, "description must not be blank"),
        ({"expected_output": " "}, "expected_output must not be blank"),
        ({"output_type": int}, "must not be a scalar alone (int)"),
        ({"output_type": list}, "must not be a bare list"),
        ({"max_output_retries": -1}, "max_output_retries must be a whole number >= 0, got -1"),
        ({"handler": say("x"), "llm": "local"}, "a handler or llm, not both"),
        ({"name": "me", "context": ["me"]}, "can't read its own output"),
    ],
)
def test_e2_a_wrong_task_is_refused_with_the_value(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Task(**{"description": "Cook", "expected_output": "Food", **fields})
    assert said in str(caught.value)


def test_e2_equal_tasks_are_two_tasks_and_get_readable_names() -> None:
    first, second = Task.of("Do it", handler=say("1")), Task.of("Do it", handler=say("2"))
    output = run(first, second)
    assert first != second
    assert [each.name for each in output.task_outputs] == ["handler_1", "handler_2"]
    assert output.get(second) is output["handler_2"]


async def shout(task: TaskInput) -> str:
    await asyncio.sleep(0)
    return f"{task.description}! {len(task.context)} {task.inputs['n']} {task.expected_output}"


def test_e2_a_handler_gets_the_task_input_and_needs_no_model() -> None:
    tasks = [done("one"), Task(description="Shout", expected_output="Noise", handler=shout, context=["one"])]
    output = Ensemble(tasks=tasks).run(n=3)
    assert output.raw == "Shout! 1 3 Noise"
    assert output.metrics.llm_call_count == 0


def test_e2_a_tool_as_handler_gets_the_last_context_else_the_description() -> None:
    alone = Task.of("apple", name="alone", handler=weigh, context=[])
    output = run(alone, Task.of("ignored", handler=Oven(), context=["alone"]))
    assert output["alone"].raw == "apple: 2 kg"
    assert output.raw == "baked apple: 2 kg"


@pytest.mark.parametrize(
    "description, role",
    [("Research tides", "Researcher"), ("Write a poem", "Writer"), ("Analyse sales", "Analyst"), ("Sing", "Agent")],
)
def test_e2_an_agentless_task_gets_an_agent_from_its_verb_for_no_model_call(description: str, role: str) -> None:
    llm = scripted("Done.")
    output = run(Task.of(description), llm=llm)
    assert output.task_outputs[0].agent_role == role
    system, user = prompts(output)[0]
    assert system.startswith(f"You are {role}.\n\nYour personal goal is: ")
    assert len(llm.calls) == 1
    assert f"## Task\n{description}\n" in user


# --- E3, E4, E5 ---


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Phase(name=" ", tasks=[done("a")]), "name must not be blank"),
        (lambda: Phase(name="p", tasks=[]), "needs at least one task"),
        (lambda: Phase.of("p", done("a"), workflow="hierarchical"), "can't be hierarchical"),
        (lambda: Phase(name="p", tasks=[Phase.of("q", done("a"))]), "not nested"),  # type: ignore[list-item]
    ],
)
def test_e3_a_wrong_phase_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        make()


def test_e3_a_phase_may_name_one_that_comes_later_in_the_list() -> None:
    phases = [Phase.of("serve", done("plate"), after=["cook"]), Phase.of("cook", done("steak"))]
    output = Ensemble(phases=phases).run()
    assert [each.name for each in output.task_outputs] == ["steak", "plate"]


def test_e4_run_arun_start_and_astream_are_the_same_run() -> None:
    ensemble = Ensemble(tasks=[done("a"), done("b")])

    async def others() -> tuple[EnsembleOutput, list[Any]]:
        return await ensemble.arun(), [event async for event in ensemble.astream()]

    first, second = ensemble.run(), ensemble.start().result(timeout=30)
    third, events = asyncio.run(others())
    assert first.raw == second.raw == third.raw == "b"
    assert isinstance(events[-1], RunEnded)
    assert [type(each) for each in events] == [type(each) for each in first.events]


def test_e4_inputs_may_be_given_by_keyword_at_every_door() -> None:
    task = Task.of("{topic}", name="a", handler=lambda task: task.inputs["topic"])
    ensemble = Ensemble(tasks=[task], inputs={"topic": "default"})
    given = {"topic": "wanted"}

    async def others() -> list[str]:
        async with ensemble.stream(inputs=given) as stream:
            streamed = "".join([piece async for piece in stream.text()])
        events = [each async for each in ensemble.astream(inputs=given)]
        said = next(each.output.raw for each in events if isinstance(each, TaskCompleted))
        return [(await ensemble.arun(inputs=given)).raw, streamed, said]

    said = [ensemble.run(inputs=given).raw, ensemble.start(inputs=given).result().raw, *asyncio.run(others())]
    variants = ensemble.variants({"one": {"task.a.timeout": 5}, "two": {"task.a.timeout": 6}})
    said += [*ensemble.run(inputs=given, repeat=2).frame["raw"], *variants.run(inputs=given).frame["raw"]]
    assert said == ["wanted"] * 9
    assert ensemble.plan(inputs=given).tasks[0].description == "wanted"
    assert Ensemble(tasks=[Task.of("Say {inputs}")], llm=scripted("x")).run({"inputs": "a"}).raw == "x"
    for call in (ensemble.run, ensemble.start, ensemble.stream, variants.run, ensemble.estimate, ensemble.plan):
        with pytest.raises(ValidationError, match="inputs must map names to values, got str"):
            call(inputs="topic")


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_e6_a_variable_called_like_a_setting_of_a_run_is_given_in_inputs(name: str) -> None:
    ensemble = Ensemble(tasks=[Task.of(f"Wait {{{name}}} {{topic}}")], llm=scripted("x"))
    with pytest.raises(PromptTemplateError) as caught:
        ensemble.run()
    advice = f"{name} is a setting of a run, so pass the values as inputs: run({{{name!r}: ..., 'topic': ...}})."
    assert str(caught.value).endswith(advice)
    assert ensemble.run({name: "here", "topic": "it"}).task_outputs[0].task_description == "Wait here it"


def test_e4_run_works_where_a_loop_is_running() -> None:
    async def cell() -> str:
        return Ensemble(tasks=[done("a")]).run().raw

    assert asyncio.run(cell()) == "a"


def test_e4_a_timeout_stops_the_run_and_keeps_what_was_done() -> None:
    async def sleep(task: TaskInput) -> str:
        await asyncio.sleep(60)
        return "never"

    def go(limit_s: float) -> TimeoutError:
        with pytest.raises(TimeoutError) as caught:
            Ensemble(tasks=[done("a"), done("nap", handler=sleep)]).run(timeout=limit_s)
        return caught.value

    error = meet_limit(go, lambda error: "running was: 'nap'" in str(error), 0.2)
    output = error.output  # type: ignore[attr-defined]
    assert (output.status, output.exit_reason.value, output["a"].raw) == (RunStatus.FAILED, "timeout", "a")


def test_e5_every_problem_is_reported_at_once() -> None:
    tasks = [done("a", context=["nowhere"]), done("b", context=["c"]), done("c"), done("c")]
    with pytest.raises(ValidationError) as caught:
        Ensemble(tasks=tasks).validate()
    text = str(caught.value)
    assert "names task 'nowhere', which is not there" in text
    assert "Task name 'c' stands twice" in text
    assert "appears later in the list" in text


def test_e5_a_cycle_names_exactly_its_nodes_in_order() -> None:
    tasks = [done("a", context=["c"]), done("b", context=["a"]), done("c", context=["b"]), done("d", context=["c"])]
    with pytest.raises(CircularDependencyError) as caught:
        Ensemble(tasks=tasks, workflow="parallel").validate()
    nodes = caught.value.nodes
    assert sorted(nodes) == ["a", "b", "c"]
    assert " -> ".join([*nodes, nodes[0]]) in str(caught.value)


def test_e5_a_cycle_of_phases_is_found() -> None:
    phases = [Phase.of("a", done("x"), after=["b"]), Phase.of("b", done("y"), after=["a"])]
    with pytest.raises(CircularDependencyError) as caught:
        Ensemble(phases=phases).validate()
    assert sorted(caught.value.nodes) == ["a", "b"]


def test_e5_context_reaches_into_earlier_phases_only() -> None:
    phases = [Phase.of("a", done("x")), Phase.of("b", done("y", context=["x"]))]
    with pytest.raises(ValidationError, match="does not come before it"):
        Ensemble(phases=phases).validate()
    after = dataclasses.replace(phases[1], after=["a"])
    assert Ensemble(phases=[phases[0], after]).run().raw == "y"


def test_e5_every_task_s_agent_is_in_the_agents_and_an_idle_one_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    cook, idle = agent("Soup."), agent(role="Idle")
    with pytest.raises(ValidationError, match="not in the ensemble's agents"):
        Ensemble(tasks=[Task.of("Cook", agent=cook)], agents=[idle]).validate()
    with caplog.at_level(logging.WARNING, "ensemble_notebook"):
        output = Ensemble(tasks=[Task.of("Cook", agent=cook)], agents=[cook, idle]).run()
    assert output.warnings == ("Agent 'Idle' has no task.",)
    assert "Agent 'Idle' has no task." in caplog.text


def test_e5_tasks_and_phases_do_not_mix_and_something_must_be_there() -> None:
    with pytest.raises(ValidationError, match="tasks or phases, not both"):
        Ensemble(tasks=[done("a")], phases=[Phase.of("p", done("b"))]).validate()
    with pytest.raises(ValidationError, match="at least one task or phase"):
        Ensemble().validate()


# --- E6 ---


def test_e6_variables_are_filled_once_and_literals_stay() -> None:
    llm = scripted("ok")
    text = "About {topic}, {{topic}}, {a-b}, {nothing}: {'x': 1}"
    output = Ensemble(tasks=[Task.of(text)], llm=llm).run({"topic": "{other}", "nothing": None})
    assert output.task_outputs[0].task_description == "About {other}, {topic}, {a-b}, : {'x': 1}"


def test_e6_all_missing_names_are_reported_together_in_order() -> None:
    tasks = [Task.of("Buy {thing} in {place}"), Task(description="{thing}", expected_output="For {person}")]
    with pytest.raises(PromptTemplateError) as caught:
        Ensemble(tasks=tasks, llm=scripted()).run()
    assert caught.value.missing_variables == ("thing", "place", "person")
    assert caught.value.template == "Buy {thing} in {place}"


# --- E7 ---


@dataclass
class Bill:
    total: int


def test_e7_a_task_output_says_who_did_what_and_how_long() -> None:
    bill = done("bill", handler=lambda task: Bill(7))
    output = run(bill)["bill"]
    assert (output.task_description, output.agent_role, output.tool_call_count) == ("Do bill", "Handler", 0)
    assert (output.completed_at.tzinfo, output.duration >= timedelta(0)) == (UTC, True)
    assert (output.get_parsed_output(Bill), output.output_type) == (Bill(7), Bill)
    with pytest.raises(ValueError, match="has a Bill, not a str"):
        output.get_parsed_output(str)


def test_e7_raw_is_the_last_task_the_only_sink_or_the_last_completed() -> None:
    assert run(done("a"), done("b")).raw == "b"
    joined = [done("join", context=["x", "y"]), done("x"), done("y")]
    assert run(*joined, workflow="parallel").raw == "join"


def test_e7_outputs_of_phases_stand_by_phase_in_order_of_declaration() -> None:
    phases = [Phase.of("late", done("b"), after=["early"]), Phase.of("early", done("a"))]
    output = Ensemble(phases=phases).run()
    assert list(output.phase_outputs) == ["late", "early"]
    assert [each.raw for each in output.phase_outputs["early"]] == ["a"]
    assert run(done("a")).phase_outputs == {}


def test_e7_a_failed_run_keeps_outputs_failures_and_skips() -> None:
    with pytest.raises(Exception, match="lost failed") as caught:
        run(done("a"), lost("lost"), done("c"))
    output = caught.value.output  # type: ignore[attr-defined]
    assert [each.name for each in output.task_outputs] == ["a"]
    assert [(each.name, str(each.error)) for each in output.failures] == [("lost", "lost failed")]
    assert [(each.name, each.kind) for each in output.skipped] == [("c", "task")]


def test_e4_a_copy_with_other_tasks_runs_and_leaves_the_first_as_it_was() -> None:
    first = Ensemble(tasks=[done("a")], name="kitchen", max_concurrency=2)
    second = dataclasses.replace(first, tasks=[done("b"), done("c")])
    assert (second.run().raw, second.name, second.max_concurrency) == ("c", "kitchen", 2)
    assert first.run().raw == "a"


def test_e4_listeners_are_objects_or_callables_and_see_every_event_before_run_returns() -> None:
    class Diary:
        def __init__(self) -> None:
            self.events: list[Any] = []

        def on_event(self, event: Any) -> None:
            self.events.append(event)

    def broken(event: Any) -> None:
        raise ValueError("not me")

    diary, seen = Diary(), []  # type: ignore[var-annotated]
    output = Ensemble(tasks=[done("a")], listeners=[broken, diary, seen.append]).run()
    assert tuple(diary.events) == tuple(seen) == output.events
    assert [each.seq for each in seen] == list(range(len(seen)))


def test_e4_one_ensemble_runs_several_times_at_once() -> None:
    ensemble = Ensemble(tasks=[Task.of("Tell {n}", name="t", handler=lambda task: str(task.inputs["n"]))])
    handles = [ensemble.start({"n": number}) for number in range(5)]
    assert [handle.result(timeout=30).raw for handle in handles] == ["0", "1", "2", "3", "4"]
    assert len({handle.run_id for handle in handles}) == 5
