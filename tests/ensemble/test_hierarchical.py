"""Hierarchical ensembles and delegation through the facade: what `run` returns, raises and keeps (E7, E22-E25)."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    ConstraintViolationError,
    DelegationCompleted,
    DelegationFailed,
    DelegationPolicyResult,
    DelegationStatus,
    Ensemble,
    ErrorStrategy,
    Fail,
    HierarchicalConstraints,
    PromptTemplateError,
    Reply,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.support.openai_server import Answer, OpenAIServer

RESEARCHER = Agent(role="Researcher", goal="Find facts", background="Careful")
WRITER = Agent(role="Writer", goal="Write well")


def delegate(role: str, description: str = "Do it.") -> ToolUse:
    return ToolUse("delegate_task", {"agent_role": role, "task_description": description})


def managed(*replies: Any, worker: Any = None, **fields: Any) -> Ensemble:
    fields.setdefault("tasks", [Task.of("Find {topic}", name="find"), Task.of("Write", name="write")])
    return Ensemble(
        agents=[RESEARCHER, WRITER],
        workflow="hierarchical",
        manager_llm=ScriptedChatModel(replies=list(replies)),
        llm=worker or ScriptedChatModel.match({"facts": "High and low.", "poem": "Roll on."}, default="Hm."),
        inputs={"topic": "tides"},
        **fields,
    )


def test_a_run_returns_what_workers_did_and_the_manager_s_answer_e22() -> None:
    output = managed(
        Reply(calls=[delegate("researcher", "facts")]), Reply(calls=[delegate("Writer", "poem")]), "Tides: roll on."
    ).run()
    assert output.status is RunStatus.COMPLETED
    assert output.raw == "Tides: roll on."
    assert [(each.name, each.agent_role, each.raw) for each in output] == [
        ("researcher_1", "Researcher", "High and low."),
        ("writer_1", "Writer", "Roll on."),
        ("manager", "Manager", "Tides: roll on."),
    ]
    assert len(output) == 3
    assert output.total_tool_calls == 2
    assert output.metrics.delegation_count == 2
    assert output["writer_1"].task_description == "poem"
    assert output["writer_1"].metrics.llm_call_count == 1
    assert output["manager"].metrics.llm_call_count == 5 == output.metrics.llm_call_count
    assert find_violations(output.trace) == []


def test_the_trace_nests_the_work_under_the_delegation_e23() -> None:
    output = managed(Reply(calls=[delegate("Writer", "poem")]), "Done.").run()
    spans = {span.span_id: span for span in output.trace.spans}
    work = output.trace.task("writer_1").span
    kinds = []
    while work.parent_id is not None:
        work = spans[work.parent_id]
        kinds.append(work.kind.value)
    assert kinds == ["delegation", "tool", "turn", "task", "run"]


def test_a_declared_task_has_no_output_of_its_own_and_the_error_says_so() -> None:
    output = managed(Reply(calls=[delegate("Writer", "poem")]), "Done.").run()
    with pytest.raises(KeyError, match="'write' has no output of its own, since a manager had it done"):
        output["write"]


def test_a_missing_worker_raises_with_everything_that_was_done_e25() -> None:
    made = managed(
        Reply(calls=[delegate("Writer", "poem")]),
        "Done.",
        hierarchical_constraints=HierarchicalConstraints(required_workers=["Researcher"]),
    )
    with pytest.raises(ConstraintViolationError) as caught:
        made.run()
    error = caught.value
    assert str(error) == "Hierarchical constraint violated: Required worker 'Researcher' was never delegated a task"
    assert error.violations == ("Required worker 'Researcher' was never delegated a task",)
    assert [each.raw for each in error.completed_task_outputs] == ["Roll on."]
    assert [each.name for each in error.output.task_outputs] == ["writer_1"]
    assert error.output.status is RunStatus.FAILED
    assert len(error.output.frames.delegations) == 1
    copy = pickle.loads(pickle.dumps(error.output.trace.events))
    assert len(copy) == len(error.output.events)


def test_several_missing_workers_are_one_message_e25() -> None:
    constraints = HierarchicalConstraints(required_workers=["Researcher", "Writer"])
    with pytest.raises(ConstraintViolationError) as caught:
        managed("Done.", hierarchical_constraints=constraints).run()
    assert str(caught.value) == (
        "Hierarchical constraints violated (2): Required worker 'Researcher' was never delegated a task; "
        "Required worker 'Writer' was never delegated a task"
    )


def test_a_refusal_reaches_the_manager_and_costs_no_worker_e25() -> None:
    made = managed(
        Reply(calls=[delegate("Writer", "poem"), delegate("researcher", "facts")]),
        Reply(calls=[delegate("Writer", "poem")]),
        "Done.",
        hierarchical_constraints=HierarchicalConstraints(required_stages=[["Researcher"], ["Writer"]]),
    )
    output = made.run()
    (failed,) = [event for event in output.events if isinstance(event, DelegationFailed)]
    assert failed.response.status is DelegationStatus.FAILURE
    calls = output.frames.tool_calls
    assert list(calls["status"]) == ["error", "ok", "ok"]
    assert [each.name for each in output] == ["researcher_1", "writer_1", "manager"]


def test_any_failure_of_the_manager_is_its_own_e22() -> None:
    made = managed(Reply(calls=[delegate("Writer", "poem")]), Fail(401), manager_max_iterations=3)
    with pytest.raises(TaskExecutionError) as caught:
        made.run()
    error = caught.value
    assert error.agent_role == "Manager"
    assert error.task_description == "Find tides\nWrite"
    assert [each.name for each in error.completed_task_outputs] == ["writer_1"]
    assert [each.name for each in error.output] == ["writer_1"]


def test_under_partial_a_missing_worker_is_told_by_the_status_e32() -> None:
    constraints = HierarchicalConstraints(required_workers=["Researcher"])
    made = managed("Done.", hierarchical_constraints=constraints, error_strategy=ErrorStrategy.PARTIAL)
    output = made.run()
    assert output.status is RunStatus.FAILED
    assert isinstance(output.failures[0].error, ConstraintViolationError)


def test_all_variables_of_all_tasks_are_looked_for_before_anything_runs_e6() -> None:
    tasks = [Task.of("Find {topic} in {place}"), Task.of("Write about {mood}")]
    with pytest.raises(PromptTemplateError) as caught:
        managed("Done.", tasks=tasks).run()
    assert caught.value.missing_variables == ("place", "mood")


def test_the_models_and_tools_of_all_workers_are_checked_before_anything_runs_e5() -> None:
    idle = Agent(role="Idle", goal="Wait", llm="nobody:knows")
    made = Ensemble(
        tasks=[Task.of("Write")], agents=[WRITER, idle], workflow="hierarchical", llm="scripted", manager_llm="what"
    )
    with pytest.raises(ValidationError) as caught:
        made.validate()
    places = [(each.subject, each.field) for each in caught.value.problems]
    assert places == [(idle, "llm"), (made, "manager_llm")]


def test_who_takes_part_is_told_with_the_tools_of_delegation() -> None:
    output = managed("Done.").run()
    agents = [(agent.role, agent.tools) for agent in output.events[0].agents]  # type: ignore[attr-defined]
    assert agents == [("Researcher", ()), ("Writer", ()), ("Manager", ("delegate_task",))]


def test_the_manager_reads_and_keeps_the_memory_of_all_tasks_e44() -> None:
    tasks = [Task.of("Find", memory=["facts"]), Task.of("Write", memory=["drafts", "facts"])]
    output = managed("Done.", tasks=tasks).run()
    memory = [(event.operation, event.scope) for event in output.events if type(event).__name__ == "MemoryStarted"]
    assert memory == [("retrieve", "facts"), ("retrieve", "drafts"), ("store", "facts"), ("store", "drafts")]


def test_the_only_task_s_type_is_the_manager_s_e16() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    made = managed("three", '{"n": 3}', tasks=[Task.of("Count", output_type=schema)])
    assert made.run()["manager"].parsed_output == {"n": 3}


def test_a_sync_policy_runs_on_a_thread_of_its_own_e24() -> None:
    threads = []

    class Watch:
        def evaluate(self, request: Any, context: Any) -> DelegationPolicyResult:
            threads.append(threading.current_thread().name)
            return DelegationPolicyResult.allow()

    managed(Reply(calls=[delegate("Writer", "poem")]), "Done.", delegation_policies=[Watch()]).run()
    assert threads == ["ensemble-call"]


def test_two_runs_of_one_ensemble_count_their_delegations_apart_e4() -> None:
    made = Ensemble(
        tasks=[Task.of("x")],
        agents=[WRITER],
        workflow="hierarchical",
        manager_llm=ScriptedChatModel(
            default=lambda messages: "Done." if messages[-1].type == "tool" else delegate("Writer", "poem")
        ),
        llm=ScriptedChatModel(default="Roll on."),
        hierarchical_constraints=HierarchicalConstraints(global_max_delegations=1, required_workers=["Writer"]),
    )
    handles = [made.start() for _ in range(5)]
    assert [[each.name for each in handle.result()] for handle in handles] == [["writer_1", "manager"]] * 5


def test_a_manager_on_a_real_server_is_offered_the_tool_and_answered(server: OpenAIServer, llm: str) -> None:
    def choose(request: Any) -> Answer:
        if "tools" not in request.body:
            return Answer("Roll on.")
        if request.messages[-1]["role"] == "tool":
            return Answer(f"The writer says: {request.messages[-1]['content']}")
        arguments = {"agent_role": "writer", "task_description": "A poem."}
        return Answer(None, calls=[("x", "delegate_task", arguments)])

    server.choose = choose
    output = Ensemble(tasks=[Task.of("A poem")], agents=[WRITER], workflow="hierarchical", llm=llm).run()
    assert output.raw == "The writer says: Roll on."
    (offered,) = server.requests[0].body["tools"]
    assert offered["function"]["name"] == "delegate_task"
    parameters = offered["function"]["parameters"]
    assert set(parameters["properties"]) == {"agent_role", "task_description", "scope", "priority"}
    assert parameters["required"] == ["agent_role", "task_description"]
    assert (output.metrics.input_tokens, output.metrics.output_tokens) == server.used_tokens


def test_the_log_of_delegated_work_names_the_worker_e39(caplog: pytest.LogCaptureFixture) -> None:
    loud = Agent(role="Loud", goal="Talk", verbose=True)
    with caplog.at_level("INFO", "ensemble_notebook.run"):
        Ensemble(
            tasks=[Task.of("x")],
            agents=[loud],
            workflow="hierarchical",
            manager_llm=ScriptedChatModel(replies=[delegate("loud", "poem"), "Done."]),
            llm=ScriptedChatModel(default="Roll on."),
        ).run()
    lines = [(each.task, each.task_index, each.agent_role) for each in caplog.records]  # type: ignore[attr-defined]
    assert lines[1:3] == [("manager", 1, "Manager"), ("loud_1", None, "Loud")]
    said = [record.getMessage() for record in caplog.records]
    assert "Task loud_1 started: Loud" in said
    assert "Reply in loud_1:\nRoll on." in said
    assert not any(line.startswith("Reply in manager") for line in said)


def test_a_prompt_strategy_has_both_methods() -> None:
    class Half:
        def user(self, tasks: Any) -> str:
            return ""

    with pytest.raises(ValidationError, match=r"manager_prompt must be an object with system\(workers\) and user"):
        managed("Done.", manager_prompt=Half())


def test_peers_delegate_in_a_sequential_run_e23() -> None:
    lead = Agent(
        role="Lead",
        goal="Lead",
        allow_delegation=True,
        llm=ScriptedChatModel(
            replies=[ToolUse("delegate", {"agent_role": "writer", "task_description": "poem"}), "He wrote: Roll on."]
        ),
    )
    tasks = [Task.of("Get a poem", name="poem", agent=lead), Task.of("Print it", handler=lambda _: "Printed.")]
    output = Ensemble(tasks=tasks, agents=[lead, WRITER], llm=ScriptedChatModel(default="Roll on.")).run()
    assert [each.name for each in output] == ["poem", "handler_2"]
    (completed,) = [event for event in output.events if isinstance(event, DelegationCompleted)]
    assert completed.output is not None
    assert completed.output.name == "poem.writer_1"
    assert output["poem"].metrics.delegation_count == 1
    assert output["poem"].metrics.llm_call_count == 3
    assert find_violations(output.trace) == []
