"""E54: an ensemble does a task, with inputs of its own, inside the run of the task."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    Condition,
    Ensemble,
    EnsembleOutput,
    Phase,
    PromptTemplateError,
    RunStatus,
    ScriptedChatModel,
    SpanStatus,
    Task,
    TaskExecutionError,
    TaskInput,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle, make_plan_bundle
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.conformance.scene import done, prompts, run, run_cell, scripted

CELL = """
tasks:
  angle: {description: Think, handler: think}
  facts: {ensemble: research, inputs: {topic: "{context}", tone: "{mood}"}, context: angle}
  brief: {description: Tell, handler: tell, context: facts}
inputs: {mood: dry}
"""


@dataclass
class Count:
    number: int


def echo(given: TaskInput) -> str:
    """What it was given."""
    read = ", ".join(each.raw for each in given.context)
    return f"{given.description}{f' [{read}]' if read else ''}"


def make_research(**fields: Any) -> Ensemble:
    """Two tasks with two variables."""
    find = Task.of("Find {topic}", name="find", handler=echo)
    write = Task.of("Write, {tone}", name="write", handler=echo, context=["find"])
    return Ensemble(tasks=[find, write], name="research", **fields)


def run_facts(**inputs: Any) -> EnsembleOutput:
    return run(done("angle"), Task(name="facts", ensemble=make_research(), inputs=inputs, context=["angle"]))


def read_problem(cell: str, **names: Any) -> tuple[int, str]:
    """The line and the text of the only mistake of a cell."""
    with pytest.raises(CellError) as caught:
        read_cell(cell, names).build(names)
    (mistake,) = caught.value.mistakes
    return mistake.line, f"{mistake.message} {mistake.hint}"


def test_e54_an_ensemble_does_a_task_with_inputs_of_its_own() -> None:
    output = run_facts(topic="{context}", tone="dry")
    assert output.raw == "Write, dry [Find angle]"
    facts = output["facts"]
    assert (facts.agent_role, facts.task_description) == ("Ensemble", "Run the ensemble research")
    assert [each.name for each in output.task_outputs] == ["angle", "facts"]
    assert find_violations(output.trace) == []


def test_e54_in_a_cell_too_with_an_ensemble_that_another_cell_has_defined() -> None:
    names = {"think": lambda given: "tides", "tell": echo, "echo": echo}
    inner = (
        "tasks:\n- {name: find, description: 'Find {topic}', handler: echo}\n- {description: '{tone}', handler: echo}"
    )
    research = read_cell(inner, names, needs_inputs=False).build(names)
    output = run_cell(CELL, research=research, **names)
    assert output["facts"].raw == "dry [Find tides]"
    assert output["facts"].task_description == "Run the ensemble research"
    assert output.raw == "Tell [dry [Find tides]]"
    nested = next(span for span in output.trace.spans if span.kind is SpanKind.NESTED)
    assert [each.name for each in output.trace.spans if each.parent_id == nested.span_id] == ["find", "handler_2"]


def test_e54_several_outputs_stand_under_their_names_and_values_pass_as_they_are() -> None:
    given: list[Any] = []
    inner = Ensemble(tasks=[Task.of("{text}", name="t", handler=lambda task: given.append(task.inputs) or echo(task))])
    rows = [{"a": 1}, {"a": 2}]
    outer = Task(ensemble=inner, inputs={"text": "{context}", "rows": "{rows}", "n": 3}, context=["a", "b"])
    output = Ensemble(tasks=[done("a"), done("b"), outer]).run({"rows": rows})
    assert output.raw == "### a\n\na\n\n### b\n\nb"
    assert given[0]["rows"] is rows
    assert given[0]["n"] == 3


def test_e54_the_output_is_that_of_the_final_task_with_its_value() -> None:
    counting = Task.of("Count", name="count", output_type=Count, llm=scripted('{"number": 3}'))
    outer = Task(name="n", ensemble=Ensemble(tasks=[counting]))
    when = Condition("n", field="number", equals=3)
    output = run(outer, done("next", when=when, handler=lambda task: repr(task.context), context=["n"]))
    assert output["n"].parsed_output == Count(3)
    wrong = Ensemble(tasks=[outer, done("next", when=Condition("n", field="nubmer", equals=3))])
    with pytest.raises(ValidationError, match="number"):
        wrong.run()


def test_e54_missing_names_are_found_before_the_run_begins() -> None:
    calls: list[str] = []
    first = done("angle", handler=lambda given: calls.append("called") or "x")
    outer = Ensemble(tasks=[first, Task(name="facts", ensemble=make_research(), inputs={"topic": "{context}"})])
    with pytest.raises(ValidationError, match=r"gives its ensemble \{context\}, and reads nothing"):
        outer.run()
    outer = Ensemble(tasks=[first, Task(name="facts", ensemble=make_research(), inputs={"topic": "x"})])
    with pytest.raises(PromptTemplateError, match="ensemble of task 'facts'") as caught:
        outer.run()
    assert caught.value.missing_variables == ("tone",)
    outer = Ensemble(
        tasks=[first, Task(name="facts", ensemble=make_research(), inputs={"topic": "x", "tone": "{mood}"})]
    )
    with pytest.raises(PromptTemplateError) as caught:
        outer.run()
    assert caught.value.missing_variables == ("mood",)
    assert calls == []


def test_e54_what_keeps_it_from_running_is_found_before_the_run_begins() -> None:
    model = scripted("never asked")
    broken = Ensemble(tasks=[Task.of("Say a", name="a", context=["b"]), Task.of("Say b", name="b", llm=model)])
    with pytest.raises(ValidationError, match="The ensemble of task 'outer': Task 'a' reads 'b', which appears later"):
        run(Task.of("First", llm=model), Task(name="outer", ensemble=broken))
    unpriced = Ensemble(tasks=[Task.of("Say a", llm="openai:nobody-knows@http://localhost:1/v1")])
    with pytest.raises(ValidationError, match="price"):
        run(done("first"), Task(name="outer", ensemble=unpriced), budget=Budget(max_cost=1))


def test_e54_an_input_that_no_text_uses_is_a_misspelt_one() -> None:
    inner = Ensemble(tasks=[Task.of("Find {topic}", llm=scripted("x"))])
    with pytest.raises(ValidationError, match=r"no text that uses the input 'tpoic'. Did you mean 'topic'\?"):
        run(Task(name="outer", ensemble=inner, inputs={"tpoic": "x", "topic": "y"}))


@pytest.mark.parametrize(
    "cell, line, words",
    [
        ("- {ensemble: reserch, inputs: {topic: a, tone: b}}", 1, "Did you mean 'research'?"),
        ("- ensemble: research\n  inputs: {topic: a}", 2, "no value for {tone}. Give it one: `inputs: {tone: ...}`."),
        ("- ensemble: model\n  inputs: {topic: a}", 1, "'model' is no ensemble, but of type ScriptedChatModel."),
        ("- ensemble: research\n  llm: local\n  inputs: {topic: a, tone: b}", 2, "an ensemble or llm, not both"),
        ("- ensemble: asking\n  inputs:\n    topic: a\n    tpoic: b", 4, "Did you mean 'topic'?"),
        ("- ensemble: research\n  inputs: {topic: '{context}', tone: b}", 2, "reads nothing"),
        ("- ensemble: research\n  inputs: {topic: '{mood}', tone: b}", 2, "{mood} has no value."),
        ("- description: x\n  inputs: {topic: a}\n  handler: echo", 2, "it has none"),
    ],
)
def test_e54_in_a_cell_each_mistake_has_its_place(cell: str, line: int, words: str) -> None:
    asking = Ensemble(tasks=[Task.of("Find {topic}")])
    names = {"research": make_research(), "asking": asking, "model": ScriptedChatModel(), "echo": echo}
    found, text = read_problem(cell, **names)
    assert (found, words in text) == (line, True), text


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": Agent(role="A", goal="B")},
        {"handler": echo},
        {"llm": "local"},
        {"tools": [echo]},
        {"output_type": Count},
        {"max_retries": 1},
        {"max_retry_wait": 1},
        {"max_guardrail_retries": 1},
        {"inputs": {"a-b": 1}},
        {"ensemble": "research"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_e54_what_would_have_no_effect_beside_it_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Task(**{"description": "x", "expected_output": "y", "ensemble": make_research(), **fields})


def test_e54_a_failure_inside_fails_the_task_and_a_fallback_takes_over() -> None:
    inner = Ensemble(tasks=[done("in-a", handler=lambda given: 1 // 0)], name="inner")
    with pytest.raises(TaskExecutionError, match=r"'outer' .* 'in-a' .*ZeroDivisionError"):
        run(Task(name="outer", ensemble=inner))
    fallback = Agent(role="Helper", goal="Help", llm=scripted("instead"))
    output = run(Task(name="outer", ensemble=inner, fallback=fallback))
    assert (output.raw, output.status) == ("instead", RunStatus.COMPLETED_WITH_WARNINGS)
    nested = next(span for span in output.trace.spans if span.kind is SpanKind.NESTED)
    assert nested.status is SpanStatus.ERROR


def test_e54_a_run_without_a_final_output_fails_the_task() -> None:
    two = [Task.of("Say a", name="a", llm=scripted("x", "x")), Task.of("Say b", name="b", llm=scripted("y"))]
    inner = Ensemble(tasks=two, budget=Budget(max_llm_calls=1))
    with pytest.raises(TaskExecutionError, match="ended as budget_exceeded without a final output"):
        run(Task(name="outer", ensemble=inner), budget=Budget(max_llm_calls=9))
    output = run(Task(name="outer", ensemble=replace(inner, budget=None)), budget=Budget(max_llm_calls=1))
    assert output.status is RunStatus.BUDGET_EXCEEDED


def test_e54_nesting_deeper_than_twenty_is_refused_with_the_path() -> None:
    deep = Ensemble(tasks=[done("a")], name="d0")
    for number in range(1, 21):
        deep = Ensemble(tasks=[Task(ensemble=deep)], name=f"d{number}")
    assert deep.run().raw == "a"
    with pytest.raises(ValidationError, match=r"nested deeper than 20: d21 -> d20 .* -> d1 -> d0"):
        Ensemble(tasks=[Task(ensemble=deep)], name="d21").run()
    bound: dict[str, Ensemble] = {}
    bound["it"] = Ensemble(tasks=[done("again", handler=lambda given: bound["it"].run().raw)], name="it")
    with pytest.raises(TaskExecutionError, match=r"nested deeper than 20: it -> it -> it -> it -> \.\.\. -> it") as it:
        bound["it"].run()
    assert str(it.value).count("Task 'again' (Handler) failed") == 1


def test_e54_as_tool_has_a_parameter_for_each_input_that_it_lacks() -> None:
    tool = make_research(inputs={"tone": "dry"}).as_tool("find_facts", "Find facts about a topic")
    assert list(tool.args) == ["topic"]
    model = scripted(ToolUse("find_facts", {"topic": "tides"}), ToolUse("find_facts", {}), "Told.")
    output = run(Task.of("Ask", name="ask", agent=Agent(role="Asker", goal="Ask", llm=model, tools=[tool])))
    calls = output.frames.tool_calls
    assert next(iter(calls["result"])) == "Write, dry [Find tides]"
    assert "topic" in list(calls["result"])[1]
    kinds = {span.span_id: span.kind for span in output.trace.spans}
    nested = [span for span in output.trace.spans if span.kind is SpanKind.NESTED]
    assert [kinds[span.parent_id or ""] for span in nested] == [SpanKind.TOOL]
    for name, text in (("find facts", "x"), ("find", " ")):
        with pytest.raises(ValidationError):
            make_research().as_tool(name, text)


def test_e54_what_it_warns_of_is_told_around_it() -> None:
    brief = ScriptedChatModel(replies=["High water is at four"] * 2, max_tokens=3, model_name="brief")
    tell = Ensemble(tasks=[Task.of("Tell of tides", name="tides", llm=brief)], name="telling")
    user = Agent(
        role="A", goal="Ask", llm=scripted(ToolUse("tell", {}), "Told."), tools=[tell.as_tool("tell", "Tells")]
    )
    output = run(Task.of("Say", name="say", ensemble=tell), Task.of("Ask", name="ask", agent=user))
    by_task, by_tool = output.warnings
    cut = "warns: A reply of agent 'Writer' for task 'tides' was cut off: the max_tokens of brief is 3"
    assert by_task.startswith(f"The ensemble of task 'say' {cut}")
    assert by_tool.startswith(f"The tool 'tell' {cut}")
    assert output.status is RunStatus.COMPLETED


def test_e54_a_cell_names_such_a_tool() -> None:
    names = {"find": make_research(inputs={"tone": "dry"}).as_tool("find", "Find facts"), "model": None}
    names["model"] = scripted(ToolUse("find", {"topic": "tides"}), "Told.")
    output = run_cell("agents: {A: {goal: B, tools: find}}\ntasks: [{description: C, agent: A}]\nllm: model", **names)
    assert (output.raw, output.metrics.tool_call_count) == ("Told.", 1)


def test_e54_plan_picture_and_estimate_show_what_is_inside() -> None:
    inner = Ensemble(phases=[Phase(name="in", tasks=[Task.of("Find {topic}", name="find", llm=scripted("x"))])])
    outer = Ensemble(tasks=[Task(name="facts", ensemble=inner, inputs={"topic": "{what}"})])
    plan = outer.plan(what="tides")
    inside = plan.to_dict()["tasks"][0]["ensemble"]
    assert [(task["name"], task["description"], task["phase"]) for task in inside["tasks"]] == [
        ("find", "Find tides", "in")
    ]
    assert plan.total_tasks == 1
    bundle = make_plan_bundle(plan)
    assert "find" in bundle["text/html"]
    lines = bundle["text/plain"].splitlines()
    assert next(line.split()[1] for line in lines if "facts" in line or "find" in line) == "facts"
    estimate = outer.estimate(what="tides")
    assert estimate.llm_calls.low == 1
    assert [each.name for each in estimate.tasks[0].tasks] == ["find"]
    saved = outer.run(what="tides")
    assert type(saved.trace).from_events(saved.events)._fold.plan.tasks[0].nested == saved.plan.tasks[0].nested
    again = pickle.loads(pickle.dumps(saved))
    assert again.plan.tasks[0].nested.total_tasks == 1


def test_e54_the_picture_of_a_run_has_its_tasks_beneath() -> None:
    html = make_output_bundle(run_facts(topic="a", tone="b"))["text/html"]
    assert html.index("facts") < html.index("find") < html.index("write")


def make_counted(prompt: str = "Count") -> Ensemble:
    """An ensemble whose second task inside has this prompt."""
    second = Task.of(prompt, name="in-b", output_type=Count, llm=scripted('{"number": 1}', '{"number": 2}'))
    outer = Task(name="outer", ensemble=Ensemble(tasks=[done("in-a"), second], name="inner"))
    return Ensemble(tasks=[outer, done("next", context=["outer"])])


@pytest.mark.usefixtures("store_path")
def test_e54_it_is_reused_as_a_whole_and_after_a_change_task_by_task() -> None:
    first = make_counted().run()
    again = make_counted().run(reuse=True)
    assert [each.reused for each in again.task_outputs] == [True, True]
    assert again["outer"].parsed_output == first["outer"].parsed_output == Count(1)
    assert again["outer"].saving is not None
    assert again["outer"].saving.tokens
    changed = make_counted("Count again").run(reuse=True)
    assert [each.reused for each in changed.task_outputs] == [False, True]
    reasons = dict(zip(changed.frames.tasks["task"], changed.frames.tasks["reuse_reason"], strict=True))
    assert reasons["outer"] == "the ensemble changed"
    inside = [span for span in changed.trace.spans if span.nested_in is not None and span.kind is SpanKind.TASK]
    assert [(span.name, span.reused) for span in inside] == [("in-a", True), ("in-b", False)]


@pytest.mark.usefixtures("store_path")
def test_e54_a_task_inside_that_is_never_reused_keeps_all_around_it_from_being_reused() -> None:
    ensemble = Ensemble(tasks=[Task(ensemble=Ensemble(tasks=[done("a", reuse="never")]))])
    ensemble.run()
    assert [each.reused for each in ensemble.run(reuse=True).task_outputs] == [False]


@pytest.mark.usefixtures("store_path")
def test_e54_a_resumed_run_keeps_what_is_done_inside() -> None:
    fails = {"now": True}

    def may_fail(given: TaskInput) -> str:
        if fails["now"]:
            raise OSError("burnt")
        return "well"

    inner = Ensemble(tasks=[Task.of("Say a", name="in-a", llm=scripted("a", "b")), done("in-b", handler=may_fail)])
    ensemble = Ensemble(tasks=[Task(name="outer", ensemble=inner)])
    with pytest.raises(TaskExecutionError) as caught:
        ensemble.run()
    fails["now"] = False
    output = ensemble.run(resume=caught.value.output)
    assert output.raw == "well"
    inside = {span.name: span.reused for span in output.trace.spans if span.nested_in is not None}
    assert inside["in-a"] is True
    assert output.metrics.llm_call_count == 0


def test_e54_one_recording_has_all_of_it(tmp_path: Path) -> None:
    inner = Ensemble(tasks=[Task.of("Say a", llm=scripted("live", "again"))])
    ensemble = Ensemble(tasks=[Task(name="outer", ensemble=inner), Task.of("Say b", llm=scripted("b", "c"))])
    path = tmp_path / "run.yaml"
    ensemble.run(record=path)
    again = ensemble.run(replay=path)
    assert (again["outer"].raw, again.raw) == ("live", "b")


def test_e54_no_text_of_it_is_kept_where_the_run_keeps_none() -> None:
    inner = Ensemble(tasks=[Task.of("The secret plan of {topic}", name="in-a", llm=scripted("a secret"))])
    output = run(Task(name="outer", ensemble=inner, inputs={"topic": "secrecy"}), capture_mode="metadata")
    assert output.raw == "a secret"
    told = repr(output.trace.to_dict()) + repr(output.plan.to_dict())
    assert "in-a" in told
    assert "secre" not in told


def test_e54_its_prompts_are_those_of_a_run_by_itself() -> None:
    inner = Ensemble(tasks=[Task.of("Say {word}", name="in-a", llm=scripted("x", "y"))])
    alone = prompts(inner.run(word="a"))
    nested = run(Task(name="outer", ensemble=inner, inputs={"word": "a"}))
    assert prompts(nested)[1] == alone[0]
