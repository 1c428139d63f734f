"""`CaptureMode.METADATA` keeps no text: canaries in everything that a run reads and says (T6a)."""

from __future__ import annotations

import json
import logging
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from ensemble_notebook import (
    Agent,
    CaptureMode,
    Condition,
    DelegationContext,
    DelegationPolicyResult,
    DelegationRequest,
    Ensemble,
    EnsembleOutput,
    Event,
    ExecutionTrace,
    JsonTraceExporter,
    ParallelExecutionError,
    Phase,
    PhaseReview,
    Reply,
    Review,
    ReviewDecision,
    ReviewRequest,
    ScriptedChatModel,
    Task,
    ToolUse,
    ValidationError,
    config,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.options import format_option_help

CANARY = "kanarie"


def lose(query: str) -> str:
    """Fail."""
    raise ValueError(f"{CANARY} {query}")


def find(query: str) -> str:
    """Find."""
    return f"{CANARY} {query}"


def break_down(task: Any) -> str:
    key = f"{CANARY} key"
    raise KeyError(key)


class Run:
    """A run in which everything that can hold a text does, and all that is left of it."""

    def __init__(self, folder: Path) -> None:
        asks = Reply(calls=[ToolUse("lose", {"query": CANARY}), ToolUse("find", {"query": CANARY})])
        llm = ScriptedChatModel(replies=[asks, f"{CANARY} draft"], default=f"{CANARY} text")
        agent = Agent(role="Cook of {x}", goal=CANARY, background=CANARY, llm=llm, tools=[lose, find], verbose=True)
        self.asked: list[str] = []
        self.heard: list[Event] = []
        self.ensemble = Ensemble(
            tasks=[
                Task(
                    description="Do {x}", expected_output=CANARY, agent=agent, name="one", review=Review(), memory=["s"]
                ),
                Task.of(f"{CANARY} two", name="two", handler=break_down, context=["one"]),
                Task.of(CANARY, name="three", handler=lambda task: {CANARY: CANARY}),
                Task.of(CANARY, name="four", handler=lambda task: CANARY, output_guardrails=lambda output: CANARY),
            ],
            workflow="parallel",
            error_strategy="continue_on_error",
            capture_mode="metadata",
            review_handler=self.review,
            listeners=[self.heard.append],
            trace_exporter=JsonTraceExporter(folder),
            verbose=True,
        )
        with pytest.raises(ParallelExecutionError) as caught:
            self.ensemble.run(x=CANARY)
        self.error = caught.value
        self.output: EnsembleOutput = caught.value.output

    def review(self, request: ReviewRequest) -> ReviewDecision:
        self.asked.append(request.text)
        return ReviewDecision.retry(f"{CANARY} better") if len(self.asked) == 1 else ReviewDecision.approve()


def test_t6a_no_text_is_left_but_in_raw(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ensemble_notebook")
    run = Run(tmp_path)
    output, frames = run.output, run.output.frames
    tables = [name for name in vars(type(frames)) if not name.startswith("_")]
    left = {
        "events": repr(output.events) + repr(run.heard),
        "plan": repr(output.plan) + json.dumps(output.plan.to_dict()),
        "failures": repr(output.failures) + repr(output.skipped) + repr(output.warnings),
        "trace": json.dumps(output.trace.to_dict()) + "".join(each.read_text() for each in tmp_path.iterdir()),
        "frames": "".join(found.to_csv() for name in tables if hasattr(found := getattr(frames, name), "to_csv")),
        "log": caplog.text,
        "picture": repr(output._repr_mimebundle_()),
        "error": "\n".join([str(run.error), repr(run.error), *run.error._render_traceback_()]),
        "description": run.error.task_description,
        "task outputs": repr(output.task_outputs) + repr(list(output)) + repr(run.error.completed_task_outputs),
        "their traces": "".join(repr(each.trace) + repr(each.metrics) for each in output),
    }
    assert [name for name, text in left.items() if CANARY in text] == []
    assert output["one"].raw == f"{CANARY} text"
    assert run.asked == [f"{CANARY} draft", f"{CANARY} text"]
    assert len(list(tmp_path.iterdir())) == 1


def test_t6a_a_pickle_of_what_a_run_left_holds_no_text(tmp_path: Path) -> None:
    run = Run(tmp_path)
    output = run.output
    for each in (output, run.error, output["one"], output.trace, output.frames.tasks, output.plan, output.events):
        for dumps in (pickle.dumps, cloudpickle.dumps):
            assert CANARY.encode() not in dumps(each), type(each)
    again: EnsembleOutput = pickle.loads(pickle.dumps(output))
    assert again["one"].raw == again.raw == ""
    assert again["one"].agent_role == "Cook of {x}"
    assert [each.name for each in again] == [each.name for each in output]
    assert [each.name for each in again.ensemble.tasks] == ["one", "two", "three", "four"]
    assert again.ensemble.tasks[0].agent is again.ensemble.tasks[0].agent
    assert again.get(again.ensemble.tasks[0]) is again["one"]
    assert again.frames.tasks.status.to_list() == output.frames.tasks.status.to_list()
    assert again["one"].metrics == output["one"].metrics
    assert (again.status, again.failures[0].name) == (output.status, output.failures[0].name)


def test_t6a_a_pickle_has_no_text_of_conditions_and_inputs_either() -> None:
    triage = Task.of("Triage", name="triage", handler=lambda task: "urgent")
    conditions = [Condition("triage", contains=CANARY), Condition("triage", matches=f"{CANARY}.*")]
    tasks = [triage, Task.of("Call", name="call", handler=str, when=[*conditions, Condition("triage", default=True)])]
    output = Ensemble(tasks=tasks, capture_mode="metadata", inputs={"who": CANARY}, workflow="parallel").run()
    packed = pickle.dumps(output)
    assert CANARY.encode() not in packed
    assert [each.name for each in pickle.loads(packed)] == ["triage", "call"]


def test_t6a_a_definition_is_no_trace_of_a_run_and_keeps_its_texts() -> None:
    ensemble = Ensemble(tasks=[Task.of(CANARY, handler=str)], capture_mode="metadata")
    assert pickle.loads(pickle.dumps(ensemble)).tasks[0].description == CANARY
    assert ensemble.run().ensemble.tasks[0].description == CANARY


def test_t6a_repr_says_where_the_text_is(tmp_path: Path) -> None:
    output = Run(tmp_path).output
    assert re.fullmatch(
        r"<TaskOutput one \(Cook of \{x\}\) in .*: the text is in its raw, and nowhere else>", repr(output["one"])
    )


def test_t6a_names_times_counts_tokens_statuses_and_types_of_errors_are_left(tmp_path: Path) -> None:
    output = Run(tmp_path).output
    tasks = output.frames.tasks.set_index("task")
    assert tasks["status"].to_dict() == {"one": "ok", "two": "error", "three": "ok", "four": "error"}
    assert tasks.loc["one", "agent"] == "Cook of {x}"
    assert tasks.loc["one", "llm_call_count"] == 3
    assert output.metrics.tool_call_count == 2
    assert output.metrics.input_tokens
    assert set(output.frames.errors["error_type"]) >= {"KeyError", "ValueError", "GuardrailViolationError"}
    assert output.frames.errors["origin"].str.contains("in break_down").any()
    assert [type(each.error).__name__ for each in output.failures if each.name == "two"] == ["KeyError"]
    assert output.trace.to_dict()["captureMode"] == "METADATA"


def test_t6a_what_workers_are_asked_and_answer_is_not_left_either() -> None:
    ask = ToolUse("delegate_task", {"agent_role": "Writer", "task_description": CANARY})
    llm = ScriptedChatModel(replies=[ask, f"{CANARY} work", f"{CANARY} end"])

    def narrow(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        changed = replace(request, scope={"about": CANARY}, metadata={"why": CANARY})
        return DelegationPolicyResult.modify(changed)

    output = Ensemble(
        tasks=[Task.of(CANARY, agent=Agent(role="Writer", goal=CANARY))],
        llm=llm,
        workflow="hierarchical",
        capture_mode="metadata",
        delegation_policies=[narrow],
    ).run()
    assert output.raw == f"{CANARY} end"
    left = repr(output.events) + json.dumps(output.trace.to_dict()) + output.frames.delegations.to_csv()
    assert CANARY not in left
    assert output.metrics.delegation_count == 1


def test_t6a_phases_have_their_settings_without_what_they_say(tmp_path: Path) -> None:
    first = Phase.of("opening", Task.of(CANARY, name="one", handler=lambda task: CANARY))
    review = PhaseReview(Task.of(f"{CANARY} look", handler=lambda task: "APPROVE"), max_retries=1)
    second = Phase.of("end", Task.of(CANARY, handler=str), when=Condition("one", contains=CANARY), review=review)
    output = Ensemble(phases=[first, second], capture_mode="metadata").run()
    loaded = ExecutionTrace.load(output.trace.save(tmp_path / "run.trace.json"))
    assert loaded.to_dict() == output.trace.to_dict()
    shown = output.trace.plan._repr_mimebundle_()["text/plain"]
    assert all(word in shown for word in ("opening", "when", "review"))
    assert CANARY not in shown + repr(output.events) + (tmp_path / "run.trace.json").read_text()


def test_t6a_a_cell_and_the_configuration_set_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "capture_mode: metadata\ntasks: {a: {description: Say it, handler: say}}"
    output = read_cell(cell, {"say": lambda task: CANARY}).build().run()
    assert (output.raw, CANARY in repr(output.events)) == (CANARY, False)
    monkeypatch.setattr(config, "capture_mode", "METADATA")
    assert Ensemble(tasks=[Task.of("x", handler=str)]).run().trace.capture_mode is CaptureMode.METADATA


def test_t6a_a_recording_is_refused_with_the_reason(tmp_path: Path) -> None:
    ensemble = Ensemble(tasks=[Task.of("x", handler=str)], capture_mode=CaptureMode.METADATA)
    with pytest.raises(ValidationError, match="record keeps all that models are asked and answer"):
        ensemble.run(record=tmp_path / "run.yaml")
    assert list(tmp_path.iterdir()) == []


def test_t6a_a_memory_of_its_own_says_that_it_keeps_texts() -> None:
    class Store:
        def store(self, scope: str, entry: Any) -> None: ...

        def retrieve(self, scope: str, query: str, limit: int) -> list[Any]:
            return []

    task = Task.of("x", handler=str, memory=["s"])
    output = Ensemble(tasks=[task], capture_mode=CaptureMode.METADATA, memory=Store()).run()
    assert "The memory keeps texts in its own store" in output.warnings[0]


def test_t6a_each_mode_says_what_it_keeps() -> None:
    told = " ".join(format_option_help().split())
    assert [each for each in CaptureMode if f"{each.value}: {each.meaning}" not in told] == []
