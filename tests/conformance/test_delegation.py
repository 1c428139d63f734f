"""The manager, delegation, policies and constraints (E22 to E25)."""

from __future__ import annotations

import dataclasses
import json
import logging
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from ensemble_notebook import (
    Agent,
    ConstraintViolationError,
    DelegationCompleted,
    DelegationContext,
    DelegationFailed,
    DelegationPolicyResult,
    DelegationPriority,
    DelegationRequest,
    DelegationStarted,
    DelegationStatus,
    Ensemble,
    EnsembleOutput,
    Fail,
    HierarchicalConstraints,
    Reply,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskInputPrepared,
    TaskStarted,
    ToolResult,
    ToolUse,
    TurnStarted,
    ValidationError,
)
from tests.conformance.scene import done, of, run, run_cell, scripted

RESEARCHER = Agent(role="Researcher", goal="Find facts", background="Careful and slow")
WRITER = Agent(role="Writer", goal="Write well")


def send(role: str, task: str = "Help.") -> ToolUse:
    return ToolUse("delegate_task", {"agent_role": role, "task_description": task})


def ask(role: str, task: str = "Help.") -> ToolUse:
    return ToolUse("delegate", {"agent_role": role, "task_description": task})


def managed(*turns: Any, workers: Any = None, limits: HierarchicalConstraints | None = None, **fields: Any) -> Ensemble:
    """A manager who says this, turn by turn: delegations, or at last a text."""
    replies = [each if isinstance(each, str | Fail) else Reply(calls=[*each]) for each in turns]
    fields.setdefault("tasks", [Task(description="Explain tides", expected_output="A page")])
    fields.setdefault("agents", [RESEARCHER, WRITER])
    return Ensemble(
        workflow="hierarchical",
        manager_llm=scripted(*replies),
        llm=workers or ScriptedChatModel.match({}, default="Done."),
        hierarchical_constraints=limits,
        **fields,
    )


def peers(*turns: Any, policies: Sequence[Any] = (), helper: Any = None, **fields: Any) -> EnsembleOutput:
    """A run of a task whose agent may delegate to a helper, and says this."""
    replies = [each if isinstance(each, str) else Reply(calls=[*each]) for each in turns]
    boss = Agent(role="Boss", goal="Lead", llm=scripted(*replies), allow_delegation=True)
    mate = Agent(role="Mate", goal="Help", llm=helper or scripted("Helped."))
    task = Task.of("Lead on", name="lead", agent=boss)
    return run(task, agents=[boss, mate], delegation_policies=policies, **fields)


def texts(output: EnsembleOutput) -> list[str]:
    """What the delegating agent was told."""
    return list(output.frames.tool_calls["result"])


def refusals(output: EnsembleOutput) -> list[str]:
    return [each.response.errors[0] for each in of(output, DelegationFailed)]


# --- E22 ---


def test_e22_the_manager_is_told_of_workers_and_tasks_and_delegates_by_one_tool() -> None:
    ensemble = managed([send("Researcher", "Find facts about tides")], "Tides come and go.")
    output = ensemble.run()
    first = ensemble.manager_llm.calls[0]
    system, user = (str(each.content) for each in first.messages[:2])
    for part in ("You are Manager.", "Researcher", "Find facts", "Careful and slow", "Writer", "Write well"):
        assert part in system
    assert "Explain tides" in user
    assert "A page" in user
    assert first.tools == ("delegate_task",)
    assert output.raw == "Tides come and go."


def test_e22_outputs_are_the_workers_in_completion_order_and_the_manager_s_last() -> None:
    output = managed([send("writer")], [send("Researcher")], [send("Writer")], "End.").run()
    assert [each.agent_role for each in output.task_outputs] == ["Writer", "Researcher", "Writer", "Manager"]
    assert output.raw == output.task_outputs[-1].raw == "End."


def test_e22_a_task_has_one_name_in_plan_prompts_output_and_frames() -> None:
    tasks = [Task(description="Find out about lighthouses"), Task(description="Write a postcard from it")]
    handed_on = [
        "Find out about lighthouses, please",
        "Something else",
        "Write a postcard from it",
        "Write a postcard from it!",
    ]
    ensemble = managed(*([send("Writer", text)] for text in handed_on), "End.", tasks=tasks)
    written = [each.name for each in ensemble.plan().tasks[0].managed]
    assert written == ["researcher_1", "writer_2"]
    output = ensemble.run()
    # A worker's own work has no name of a written task, and what is handed on once more has a number.
    done = ["researcher_1", "writer_1", "writer_2", "writer_2_2"]
    assert [each.name for each in output.task_outputs] == [*done, "manager"]
    assert set(output.frames.spans["task"].dropna()) == {*done, "manager"}
    assert list(output.frames.links.query("kind == 'delegation'")["dst_name"]) == done
    assert output["researcher_1"].agent_role == "Writer"
    assert "### researcher_1" in ensemble.manager_llm.calls[0].messages[1].content


def test_e22_workers_are_the_agents_of_the_tasks_where_no_others_are_given() -> None:
    cook = Agent(role="Cook", goal="Cook")
    output = managed([send("Cook")], "End.", agents=(), tasks=[Task.of("Cook", agent=cook)]).run()
    assert [each.agent_role for each in output.task_outputs] == ["Cook", "Manager"]


def test_e22_a_failed_manager_leaves_the_workers_outputs_on_the_error() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        managed([send("Writer")], Fail(401)).run()
    assert caught.value.agent_role == "Manager"
    assert [each.agent_role for each in caught.value.completed_task_outputs] == ["Writer"]


def test_e22_the_manager_has_its_own_limit_and_its_prompts_a_strategy() -> None:
    class Terse:
        def system(self, workers: Sequence[Agent]) -> str:
            return "Workers: " + ", ".join(each.role for each in workers)

        def user(self, tasks: Sequence[TaskInput]) -> str:
            return "Tasks: " + ", ".join(each.description for each in tasks)

    ensemble = managed("End.", manager_prompt=Terse())
    ensemble.run()
    told = ensemble.manager_llm.calls[0].messages
    assert [told[0].content, told[1].content] == ["Workers: Researcher, Writer", "Tasks: Explain tides"]
    with pytest.raises(TaskExecutionError, match="1 tool calls were used up"):
        managed(*[[send("Writer")]] * 4, manager_max_iterations=1).run()


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"agents": [RESEARCHER, Agent(role="manager", goal="x")]}, "(?i)manager"),
        ({"agents": [WRITER, Agent(role="writer", goal="x")]}, "(?i)writer"),
        ({"tasks": [done("handled")]}, "handler"),
        ({"manager_max_iterations": 0}, "manager_max_iterations"),
    ],
)
def test_e22_what_a_hierarchy_can_t_be_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        managed("End.", **fields).validate()


# --- E23 ---


def test_e23_a_peer_works_under_the_delegation_and_not_among_the_task_outputs() -> None:
    output = peers([ask(" mate ", "Peel")], "Led.")
    assert [each.name for each in output.task_outputs] == ["lead"]
    assert texts(output) == ["Helped."]
    (started,), (completed,) = of(output, DelegationStarted), of(output, DelegationCompleted)
    assert (started.request.agent_role, started.request.task_description) == ("Mate", "Peel")
    work = of(output, TaskStarted)[1]
    assert (work.parent_id, work.description, work.index) == (started.span_id, "Peel", None)
    assert (completed.response.status, completed.response.raw_output) == (DelegationStatus.SUCCESS, "Helped.")
    assert output.metrics.llm_call_count == 3


def test_e23_request_and_response_have_the_same_id_and_all_fields() -> None:
    output = peers([ask("Mate")], [ask("Nobody")], [ask("Boss")], [ask("Mate")], "Led.", helper=scripted("A.", "B."))
    asked = [each.request for each in of(output, DelegationStarted)]
    ended = [each for each in output.events if isinstance(each, (DelegationCompleted, DelegationFailed))]
    answered = [each.response for each in ended]
    ids = [each.task_id for each in asked]
    assert [each.task_id for each in answered] == [each.request.task_id for each in ended] == ids
    assert len(set(ids)) == 4
    assert all(uuid.UUID(each.task_id).version == 4 for each in asked)
    assert (asked[0].priority, dict(asked[0].scope), asked[0].max_output_retries) == (DelegationPriority.NORMAL, {}, 0)
    assert [each.status.value for each in answered] == ["success", "failure", "failure", "success"]
    assert all(each.duration.total_seconds() >= 0 for each in answered)


def weigh(fruit: str) -> ToolResult:
    """Weigh a fruit."""
    return ToolResult.ok(f"A {fruit}.", {"fruit": fruit, "grams": 150})


def test_e23_artifacts_are_the_structured_results_of_the_worker_s_tools_and_its_typed_answer() -> None:
    def ask_for_json(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
        return DelegationPolicyResult.modify(dataclasses.replace(request, expected_output_schema=json.dumps(schema)))

    def count(fruit: str) -> str:
        """Count fruits."""
        return "3"

    calls = [ToolUse("weigh", {"fruit": "pear"}), ToolUse("count", {"fruit": "pear"})]
    mate = Agent(
        role="Mate",
        goal="Help",
        llm=scripted(Reply(calls=calls), ToolUse("weigh", {"fruit": "fig"}), '{"total": 300}'),
        tools=[weigh, count],
    )
    boss = Agent(role="Boss", goal="Lead", llm=scripted(ask("Mate"), "Led."), allow_delegation=True)
    output = run(Task.of("Lead", agent=boss), agents=[boss, mate], delegation_policies=[ask_for_json])
    (completed,) = of(output, DelegationCompleted)
    assert dict(completed.response.artifacts) == {
        "weigh": {"fruit": "pear", "grams": 150},
        "weigh#2": {"fruit": "fig", "grams": 150},
        "parsed_output": {"total": 300},
    }
    assert completed.to_dict()["response"]["artifacts"]["weigh"] == {"fruit": "pear", "grams": 150}


class Weight(BaseModel):
    grams: int


def test_e23_artifacts_are_what_tools_give_as_mappings_and_objects_too() -> None:
    def measure(fruit: str) -> dict[str, int]:
        """Measure it."""
        return {"length_mm": 90}

    def put_on_scales(fruit: str) -> Weight:
        """Weigh it."""
        return Weight(grams=150)

    def smell(fruit: str) -> str:
        """Smell it."""
        return "sweet"

    tools = [measure, put_on_scales, smell]
    calls = [ToolUse(each.__name__, {"fruit": "pear"}) for each in tools]
    mate = Agent(role="Mate", goal="Help", llm=scripted(Reply(calls=calls), "Done."), tools=tools)
    boss = Agent(role="Boss", goal="Lead", llm=scripted(ask("Mate"), "Led."), allow_delegation=True)
    output = run(Task.of("Describe it", agent=boss), agents=[boss, mate])
    (completed,) = of(output, DelegationCompleted)
    assert dict(completed.response.artifacts) == {"measure": {"length_mm": 90}, "put_on_scales": Weight(grams=150)}


def test_e23_an_answer_in_words_alone_has_no_artifacts() -> None:
    (completed,) = of(peers([ask("Mate")], "Led."), DelegationCompleted)
    assert dict(completed.response.artifacts) == {}


OPTIONAL: dict[str, Any] = {"scope": {"season": "autumn", "crates": [2, 3]}, "priority": "High"}


def add(use: ToolUse, **arguments: Any) -> ToolUse:
    """The same call with these arguments, too."""
    return ToolUse(use.name, {**dict(use.arguments), **arguments})


@pytest.mark.parametrize("way", ["peer", "manager"])
def test_e23_an_agent_may_give_scope_and_priority(way: str) -> None:
    asked: list[DelegationRequest] = []

    def note(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        asked.append(request)
        return DelegationPolicyResult.allow()

    use = add(ask("Mate", "Peel") if way == "peer" else send("Writer", "Peel"), **OPTIONAL)
    if way == "peer":
        output = peers([use], "Led.", policies=[note])
    else:
        output = managed([use], "Done.", delegation_policies=[note]).run()
    (request,) = asked
    assert (dict(request.scope), request.priority) == (OPTIONAL["scope"], DelegationPriority.HIGH)
    prompt = of(output, TaskInputPrepared)[1].user_prompt
    assert "## Context" in prompt
    assert "autumn" in prompt
    assert "[2, 3]" in prompt
    (row,) = output.frames.delegations.to_dict("records")
    assert (json.loads(row["scope"]), row["priority"]) == (OPTIONAL["scope"], "high")


@pytest.mark.parametrize(
    "given, said",
    [
        ({"scope": "all of it"}, "Error: delegate takes as scope an object with names and values, got str."),
        ({"priority": "at once"}, "takes as priority one of low, normal, high, critical, got 'at once'."),
    ],
)
def test_e23_scope_and_priority_that_are_none_are_answered_without_a_request(given: dict[str, Any], said: str) -> None:
    output = peers([add(ask("Mate"), **given)], "Led.")
    assert not of(output, DelegationStarted)
    assert said in texts(output)[0]


def test_e23_the_facts_of_a_request_are_columns() -> None:
    def note(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        facts = {"expected_output_schema": "One word", "max_output_retries": 2, "metadata": {"ticket": 7}}
        return DelegationPolicyResult.modify(dataclasses.replace(request, **facts))

    frame = peers([ask("Mate")], "Led.", policies=[note]).frames.delegations
    (row,) = frame.to_dict("records")
    assert (row["expected_output_schema"], row["max_output_retries"], json.loads(row["metadata"])) == (
        "One word",
        2,
        {"ticket": 7},
    )
    assert frame["scope"].isna().all()


def test_e23_no_word_of_a_scope_is_kept_where_no_text_is() -> None:
    output = peers([add(ask("Mate"), scope={"the plan": "to leave"})], "Led.", capture_mode="metadata")
    assert "the plan" not in str([each.to_dict() for each in output.events])
    assert output.frames.delegations["scope"].isna().all()


def test_e23_blank_arguments_are_answered_without_a_request() -> None:
    blank: list[tuple[Any, Any]] = [("", "Help."), ("  ", "Help."), ("Mate", " "), (None, "Help."), ("Mate", None)]
    output = peers([ask(*each) for each in blank], "Led.")
    assert not of(output, DelegationStarted)
    said = "Error: delegate needs an agent_role and a task_description"
    assert [each.startswith(said) for each in texts(output)] == [True] * len(blank)


def test_e23_guards_refuse_depth_self_and_strangers_in_this_order() -> None:
    output = peers([ask(" BOSS"), ask("Matt")], "Led.")
    assert refusals(output) == [
        "Agent 'Boss' can't delegate to itself. Available: 'Mate'",
        "There is no agent 'Matt'. Available: 'Mate'",
    ]
    assert texts(output) == [f"Error: {each}" for each in refusals(output)]
    assert [each.task for each in of(output, TaskStarted)] == ["lead"]

    def chain(*roles: str) -> Agent:
        return Agent(role=roles[0], goal="x", allow_delegation=True, llm=scripted(Reply(calls=[ask(roles[1])]), "ok"))

    for asked in ("One", "Two", "Nobody"):  # whoever is asked: the depth comes first
        first, second = chain("One", "Two"), chain("Two", asked)
        deep = run(Task.of("Go", agent=first), agents=[first, second], max_delegation_depth=1)
        assert refusals(deep) == ["The delegation depth limit of 1 is reached; do the work yourself"]


def test_e23_a_failed_worker_is_told_to_the_delegator_and_the_run_goes_on() -> None:
    output = peers([ask("Mate")], "Led anyway.", helper=scripted(Fail(401)))
    assert output.raw == "Led anyway."
    assert "401" in texts(output)[0]
    (failed,) = of(output, DelegationFailed)
    assert failed.response.status is DelegationStatus.FAILURE


# --- E24 ---


class Softly:
    """A policy that changes every request."""

    def evaluate(self, request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        assert context == DelegationContext(caller_role="Boss", depth=1, max_depth=3, available_roles=("Mate",))
        return DelegationPolicyResult.modify(
            dataclasses.replace(request, task_description="Softly: " + request.task_description)
        )


def test_e24_policies_are_asked_in_order_and_a_modified_request_goes_on() -> None:
    seen: list[str] = []

    def note(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        seen.append(request.task_description)
        return DelegationPolicyResult.allow()

    output = peers([ask("MATE", "Peel")], "Led.", policies=[note, Softly(), note])
    assert seen == ["Peel", "Softly: Peel"]
    assert of(output, TaskInputPrepared)[1].user_prompt.startswith("## Task\nSoftly: Peel")


def test_e24_a_rejection_stops_the_chain_and_the_worker_is_not_called() -> None:
    mate = scripted("never")

    def refuse(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        return DelegationPolicyResult.reject("Mate is asleep")

    def never(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        raise AssertionError

    output = peers([ask("Mate")], "Led.", policies=[refuse, never], helper=mate)
    assert refusals(output) == ["Mate is asleep"]
    assert not mate.calls


def test_e24_none_is_an_error_and_never_an_allow() -> None:
    mate = scripted("never")
    output = peers([ask("Mate")], "Led.", policies=[lambda request, context: None], helper=mate)
    assert "None" in refusals(output)[0]
    assert not mate.calls


def test_e24_a_modified_request_is_checked_again_against_guards_and_constraints() -> None:
    def redirect(role: str) -> Any:
        return lambda request, context: DelegationPolicyResult.modify(dataclasses.replace(request, agent_role=role))

    assert "Boss" in refusals(peers([ask("Mate")], "Led.", policies=[redirect("Boss")]))[0]
    only = HierarchicalConstraints(allowed_workers=["Writer"])
    output = managed([send("Writer")], "End.", limits=only, delegation_policies=[redirect("Researcher")]).run()
    assert refusals(output) == ["Agent 'Researcher' is not in the allowed_workers list"]


# --- E25 ---


@pytest.mark.parametrize(
    "limits, said",
    [
        ({"allowed_workers": ["Reseacher"]}, "Reseacher"),
        ({"required_workers": ["Ghost"]}, "Ghost"),
        ({"allowed_workers": ["Writer"], "required_workers": ["Researcher"]}, "Researcher"),
        ({"max_calls_per_worker": {"Ghost": 1}}, "Ghost"),
        ({"max_calls_per_worker": {"Writer": 0}}, "> 0, got"),
        ({"global_max_delegations": -1}, ">= 0, got"),
        ({"required_stages": [["Ghost"]]}, "Ghost"),
        ({"required_stages": [["Writer"], ["Researcher", "Writer"]]}, "Writer"),
    ],
)
def test_e25_constraints_are_cross_validated(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        managed("End.", limits=HierarchicalConstraints(**limits)).validate()


def test_e25_checks_come_in_order_with_their_reasons() -> None:
    limits = HierarchicalConstraints(
        allowed_workers=["Writer", "Researcher"],
        global_max_delegations=3,
        max_calls_per_worker={"Researcher": 1},
        required_stages=[["Researcher"], ["Writer"]],
    )
    third = Agent(role="Editor", goal="Edit")
    turns = [[send("Editor")], [send("Writer")], [send("Researcher")], [send("Researcher")], [send("Writer")]]
    turns += [[send("Writer")], [send("Writer")]]
    output = managed(*turns, "End.", limits=limits, agents=[RESEARCHER, WRITER, third]).run()
    reasons = [
        "Agent 'Editor' is not in the allowed_workers list",
        "Cannot delegate to 'Writer': stage 1 is not yet complete",
        "Agent 'Researcher' has reached its delegation cap of 1",
        "Global delegation cap of 3 has been reached",
    ]
    assert [said.startswith(reason) for said, reason in zip(refusals(output), reasons, strict=True)] == [True] * 4


def test_e25_global_cap_counts_approved_attempts_and_no_rejected_ones() -> None:
    limits = HierarchicalConstraints(global_max_delegations=1, allowed_workers=["Writer"])
    output = managed(
        [send("Researcher")], [send("Writer")], [send("Writer")], "End.", limits=limits, workers=scripted(Fail(401))
    ).run()
    assert refusals(output)[0] == "Agent 'Researcher' is not in the allowed_workers list"
    assert "401" in refusals(output)[1]
    assert refusals(output)[2] == "Global delegation cap of 1 has been reached"


def test_e25_a_stage_is_complete_when_each_of_its_agents_has_completed() -> None:
    limits = HierarchicalConstraints(required_stages=[["Researcher"], ["Writer"]])
    workers = scripted(Fail(401), "Facts.", "Prose.")
    turns = [[send("Researcher")], [send("Writer")], [send("Researcher")], [send("Writer")], "End."]
    output = managed(*turns, limits=limits, workers=workers).run()
    assert "stage 1 is not yet complete" in refusals(output)[1]
    assert [each.agent_role for each in output.task_outputs] == ["Researcher", "Writer", "Manager"]


def test_e25_a_required_worker_needs_a_successful_delegation() -> None:
    limits = HierarchicalConstraints(required_workers=["Researcher", "Writer"])
    with pytest.raises(ConstraintViolationError) as caught:
        managed([send("Writer")], "End.", limits=limits).run()
    error = caught.value
    assert str(error).startswith("Hierarchical constraint violated: ")
    assert len(error.violations) == 1
    assert "Researcher" in error.violations[0]
    assert next(each.agent_role for each in error.completed_task_outputs) == "Writer"
    with pytest.raises(ConstraintViolationError, match=r"Hierarchical constraints violated \(2\): .*; "):
        managed("End.", limits=limits).run()


def test_e25_a_manager_that_ends_too_early_is_told_what_is_missing_and_may_still_do_it() -> None:
    limits = HierarchicalConstraints(required_workers=["Writer"], required_stages=[["Researcher"], ["Writer"]])
    turns = [[send("Writer")], "Finished!", [send("Researcher")], [send("Writer")], "Now finished."]
    output = managed(*turns, limits=limits).run()
    assert output.raw == "Now finished."
    (reminder,) = [each.prompt for each in of(output, TurnStarted) if each.prompt]
    assert "Required worker 'Writer' was never delegated a task: the request was refused: " in reminder
    assert "stage 1 is not yet complete" in reminder
    assert not any(each.is_correction for each in of(output, TurnStarted))


def test_e25_a_required_stage_that_never_ran_is_a_warning() -> None:
    limits = HierarchicalConstraints(required_stages=["Researcher", "Writer"])
    output = managed([send("Researcher")], "End.", limits=limits).run()
    assert output.raw == "End."
    assert output.status is RunStatus.COMPLETED_WITH_WARNINGS
    told = "Stage 2 of required_stages is not complete: 'Writer' did nothing for the manager."
    assert output.warnings == (told,)
    whole = managed([send("Researcher")], [send("Writer")], "End.", limits=limits).run()
    assert (whole.status, whole.warnings) == (RunStatus.COMPLETED, ())


def test_e22_that_a_manager_did_it_alone_is_said_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ensemble_notebook"):
        alone = managed("End.").run()
        helped = managed([send("Writer")], "End.").run()
    assert (alone.status, alone.warnings) == (RunStatus.COMPLETED, ())
    first, second = (each.getMessage() for each in caplog.records if " completed after " in each.getMessage())
    assert first.endswith(", no worker was asked")
    assert "no worker" not in second
    assert "; the manager asked no worker" in alone._repr_mimebundle_()["text/plain"]
    assert "asked no worker" not in helped._repr_mimebundle_()["text/plain"]


def test_e25_violations_tell_what_was_refused_and_what_failed() -> None:
    limits = HierarchicalConstraints(required_workers=["Writer"], required_stages=[["Researcher"], ["Writer"]])
    with pytest.raises(ConstraintViolationError, match=r"2 requests were refused: .*stage 1 .* \(2 times\)"):
        managed([send("Writer"), send("Writer")], "Finished!", "Really finished!", limits=limits).run()
    required = HierarchicalConstraints(required_workers=["Writer"])
    with pytest.raises(
        ConstraintViolationError, match=r"a task once, never with success: Agent 'Writer' failed: .*401"
    ):
        managed([send("Writer")], "Finished!", "Really!", limits=required, workers=scripted(Fail(401))).run()


def test_e25_no_reminder_comes_once_the_manager_may_call_no_more_tools() -> None:
    limits = HierarchicalConstraints(required_workers=["Researcher", "Writer"])
    with pytest.raises(ConstraintViolationError) as caught:
        managed([send("Writer")], "Finished!", "Asked again!", limits=limits, manager_max_iterations=1).run()
    assert [each.prompt for each in of(caught.value.output, TurnStarted) if each.prompt] == []


def test_e59_a_broken_policy_is_one_warning_of_the_run_however_often_it_is_asked() -> None:
    def silent(request: DelegationRequest, context: DelegationContext) -> None:
        """Forgets to answer."""

    def confused(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        raise KeyError(request.task_id)  # another text each time

    for policy, fault in ((silent, "must return allow"), (confused, "failed: KeyError")):
        output = peers([ask("Mate"), ask("Mate")], [ask("Mate")], "Done alone.", policies=[policy])
        (warning,) = output.warnings
        assert f"Policy '{policy.__name__}' {fault}" in warning
        assert len(of(output, DelegationFailed)) == 3


def test_e59_a_broken_policy_of_a_cell_is_a_warning_too() -> None:
    names = {
        "boss": scripted(Reply(calls=[ask("Mate")]), "Alone then."),
        "mate": scripted("Helped."),
        "rules": lambda request, context: None,
    }
    text = """
agents:
  Boss: {goal: Lead, llm: boss, allow_delegation: true}
  Mate: {goal: Help, llm: mate}
delegation_policies: [rules]
tasks:
  - {description: Lead on, agent: Boss}
  - {description: Help out, agent: Mate}
"""
    output = run_cell(text, **names)
    assert ["returned None" in each for each in output.warnings] == [True]


def test_e59_a_guardrail_that_answers_with_something_else_is_a_warning_beside_its_objection() -> None:
    bad = done("a", output_guardrails=[lambda output: 7])
    with pytest.raises(TaskExecutionError) as caught:
        run(bad)
    (warning,) = caught.value.output.warnings
    assert "must return None, True, a text or a GuardrailResult, and returned int" in warning


def test_e59_a_store_that_fails_is_one_warning_for_each_thing_that_it_can_not_do() -> None:
    class Lost:
        def store(self, scope: str, entry: Any) -> None:
            raise OSError("gone")

        def retrieve(self, scope: str, query: str, limit: int) -> Any:
            raise OSError("gone")

    output = run(*(done(name, memory=("notes",)) for name in "abc"), memory=Lost())
    assert len(output.warnings) == 2
    assert all("'notes' could not be" in each for each in output.warnings)


def test_e25_impossible_sets_and_other_workflows_are_warnings() -> None:
    both = HierarchicalConstraints(required_workers=["Researcher", "Writer"], global_max_delegations=1)
    assert managed("End.", limits=both).validate()
    flat = Ensemble(tasks=[done("a")], hierarchical_constraints=both)
    assert any("onstraints" in each for each in flat.validate())
