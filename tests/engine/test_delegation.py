"""Delegation between peers (E23, E24), with actors in virtual time."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import DelegationContext, DelegationPolicyResult, DelegationRequest
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import DelegationPriority, DelegationStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import human_input
from ensemble_notebook.domain.events import (
    DelegationCompleted,
    DelegationFailed,
    DelegationStarted,
    Event,
    RunEnded,
    TaskCompleted,
    TaskFailed,
    TaskInputPrepared,
    TaskSkipped,
    TaskStarted,
    ToolCallCompleted,
    ToolCallStarted,
    TurnStarted,
)
from ensemble_notebook.domain.planning.graph import derive_agent
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.actor import Scene, perform

allow, reject, modify = (
    DelegationPolicyResult.allow,
    DelegationPolicyResult.reject,
    DelegationPolicyResult.modify,
)


def asks(*roles: str, then: Any = "Done.", description: str = "Help.") -> Any:
    """An actor that delegates to these, one after the other, and then says something."""

    def play(scene: Scene) -> Any:
        if scene.turn < len(roles):
            return [("delegate", {"agent_role": roles[scene.turn], "task_description": description})]
        return then(scene) if callable(then) else then

    return play


def last_answer(scene: Scene) -> str:
    return scene.answers[-1]


def agent(role: str, **fields: Any) -> Agent:
    return Agent(role=role, goal=f"Be the {role}", llm=role.lower(), **fields)


def run(
    plays: dict[str, Any], *helpers: Agent, lead: Agent | None = None, order: Any = None, **fields: Any
) -> tuple[RunResult, list[Event]]:
    """A lead that may delegate, and its helpers."""
    lead = lead or agent("Lead", allow_delegation=True)
    made = EnsembleDefinition(
        tasks=[Task.of("Lead the way", name="lead", agent=lead)], agents=[lead, *helpers], **fields
    )
    result, events = perform(made, plays, **(order or {}))
    assert find_violations(ExecutionTrace(events)) == []
    return result, events


def of(events: list[Event], *kinds: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]


def refusal(events: list[Event]) -> str:
    """Why the only delegation failed; no worker was asked, and the delegator was told."""
    (failed,) = of(events, DelegationFailed)
    (reason,) = failed.response.errors
    assert failed.response.status is DelegationStatus.FAILURE
    assert failed.status is SpanStatus.ERROR
    assert [event.task for event in of(events, TaskStarted)] == ["lead"]
    (call,) = of(events, ToolCallCompleted)
    assert (call.result, call.outcome) == (f"Error: {reason}", ToolOutcome.FAILURE)
    return str(reason)


# --- the way of a delegation ---


def test_a_worker_s_answer_is_the_answer_of_the_tool_call_e23() -> None:
    result, events = run({"lead": asks("Helper", then=last_answer), "helper": lambda _: "I helped."}, agent("Helper"))
    assert result.outputs[0].raw == "I helped."
    (completed,) = of(events, DelegationCompleted)
    assert completed.response.status is DelegationStatus.SUCCESS
    assert completed.response.raw_output == completed.output.raw == "I helped."
    assert completed.response.errors == ()
    assert (completed.output.name, completed.output.agent_role) == ("lead.helper_1", "Helper")
    assert completed.output.task_description == "Help."


def test_the_work_is_a_task_inside_the_delegation_inside_the_tool_call_e23() -> None:
    _, events = run({"lead": asks("Helper"), "helper": lambda _: "I helped."}, agent("Helper"))
    (tool,), (delegation,) = of(events, ToolCallStarted), of(events, DelegationStarted)
    lead, work = of(events, TaskStarted)
    turns = [event for event in of(events, TurnStarted) if event.agent == "Helper"]
    assert delegation.parent_id == tool.span_id
    assert work.parent_id == delegation.span_id
    assert [turn.parent_id for turn in turns] == [work.span_id]
    assert (delegation.task, tool.task, work.task) == ("lead", "lead", "lead.helper_1")
    assert (work.index, work.total, work.agent, work.description) == (None, None, "Helper", "Help.")
    assert lead.total == 1


def test_the_worker_gets_its_own_prompts_and_tools() -> None:
    seen: list[Scene] = []

    def helper(scene: Scene) -> str:
        seen.append(scene)
        return "I helped."

    async def lookup(word: str) -> str:
        """Look it up."""
        return word

    run({"lead": asks("Helper"), "helper": helper}, agent("Helper", background="Old hand", tools=[lookup]))
    (scene,) = seen
    assert scene.system.startswith("You are Helper.\nOld hand\n\nYour personal goal is: Be the Helper\n")
    assert scene.user == "## Task\nHelp.\n\n## Expected Output\nA clear, complete answer to the task."
    assert [tool.name for tool in scene.tools] == ["lookup"]


def test_the_tool_names_everybody_who_can_be_asked() -> None:
    tools: list[Any] = []

    def lead(scene: Scene) -> str:
        tools.extend(scene.tools)
        return "Done."

    run({"lead": lead}, agent("Helper"), agent("Critic"))
    (tool,) = tools
    assert tool.name == "delegate"
    assert tool.description.endswith("Agents: 'Helper', 'Critic'.")
    assert tool.parameters["required"] == ["agent_role", "task_description"]


def test_without_allow_delegation_there_is_no_tool_e23() -> None:
    tools: list[Any] = []

    def lead(scene: Scene) -> str:
        tools.extend(scene.tools)
        return "Done."

    run({"lead": lead}, agent("Helper"), lead=agent("Lead"))
    assert tools == []


def test_the_role_is_matched_without_case_and_space_before_any_policy_sees_it_e23() -> None:
    seen = []

    async def policy(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        seen.append(request.agent_role)
        return allow()

    plays = {"lead": asks("  hELPER "), "helper": lambda _: "I helped."}
    _, events = run(plays, agent("Helper"), delegation_policies=[policy])
    assert seen == ["Helper"]
    assert of(events, DelegationStarted)[0].request.agent_role == "Helper"
    assert of(events, DelegationCompleted)[0].response.worker_role == "Helper"


def test_several_pieces_of_work_for_one_agent_have_names_of_their_own() -> None:
    _, events = run({"lead": asks("Helper", "Helper"), "helper": lambda _: "I helped."}, agent("Helper"))
    assert [event.task for event in of(events, TaskStarted)] == ["lead", "lead.helper_1", "lead.helper_2"]


def test_work_takes_no_name_of_the_plan() -> None:
    lead = agent("Lead", allow_delegation=True)
    tasks = [Task.of("Lead", name="lead", agent=lead), Task.of("x", name="lead.helper_1", agent=agent("Helper"))]
    made = EnsembleDefinition(tasks=tasks)
    _, events = perform(made, {"lead": asks("Helper"), "helper": lambda _: "I helped."})
    assert [event.task for event in of(events, TaskStarted)] == ["lead", "lead.helper_2", "lead.helper_1"]


def test_several_delegations_of_one_reply_run_side_by_side() -> None:
    def lead(scene: Scene) -> Any:
        if scene.turn:
            return " ".join(scene.answers)
        return [("delegate", {"agent_role": role, "task_description": "Help."}) for role in ("Slow", "Fast", "Slow")]

    async def slow(scene: Scene) -> str:
        await asyncio.sleep(2)
        return "slow"

    async def fast(scene: Scene) -> str:
        await asyncio.sleep(1)
        return "fast"

    result, events = run({"lead": lead, "slow": slow, "fast": fast}, agent("Slow"), agent("Fast"))
    assert result.outputs[0].raw == "slow fast slow"
    assert [event.request.agent_role for event in of(events, DelegationCompleted)] == ["Fast", "Slow", "Slow"]
    assert result.outputs[0].duration.total_seconds() == 2


# --- guards ---


def chain(depth: int) -> dict[str, Any]:
    """Actors of which each asks the other one, and says what it was answered."""
    return {"lead": asks("Helper", then=last_answer), "helper": asks("Lead", then=last_answer)}


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_delegation_ends_at_the_depth_limit_e23(limit: int) -> None:
    helper = agent("Helper", allow_delegation=True)
    result, events = run(chain(limit), helper, max_delegation_depth=limit)
    text = f"The delegation depth limit of {limit} is reached; do the work yourself"
    assert result.outputs[0].raw == f"Error: {text}"
    assert [event.depth for event in of(events, DelegationStarted)] == list(range(1, limit + 2))
    (failed,) = of(events, DelegationFailed)
    assert failed.response.errors == (text,)
    names = [event.task for event in of(events, TaskStarted)]
    assert names[:3] == ["lead", "lead.helper_1", "lead.helper_1.lead_1"][: limit + 1]


def test_guards_come_before_policies_e23() -> None:
    async def policy(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        raise AssertionError("asked")

    _, events = run({"lead": asks("Nobody")}, agent("Helper"), delegation_policies=[policy])
    assert refusal(events).startswith("There is no agent 'Nobody'")


# --- failing workers ---


def test_a_failing_worker_is_a_text_for_the_delegator_and_the_run_goes_on_e23() -> None:
    plays = {"lead": asks("Helper", then=last_answer), "helper": lambda _: OSError("no line")}
    result, events = run(plays, agent("Helper"))
    text = result.outputs[0].raw
    assert text.startswith("Error: Agent 'Helper' failed: Agent 'Helper' got no reply from helper: ")
    (failed,) = of(events, DelegationFailed)
    assert failed.response.errors == (text.removeprefix("Error: "),)
    assert (failed.status, failed.response.raw_output) == (SpanStatus.ERROR, None)
    (lost,) = of(events, TaskFailed)
    assert (lost.task, lost.error) == ("lead.helper_1", failed.error)
    assert result.failures == []


def test_an_empty_answer_is_partial_e23() -> None:
    result, events = run({"lead": asks("Helper", then=last_answer), "helper": lambda _: " "}, agent("Helper"))
    (completed,) = of(events, DelegationCompleted)
    assert completed.response.status is DelegationStatus.PARTIAL
    assert completed.response.raw_output == ""
    assert result.outputs[0].raw == "Agent 'Helper' gave an empty answer."


def test_a_stopped_run_cancels_the_worker_and_says_so() -> None:
    async def forever(scene: Scene) -> str:
        await asyncio.sleep(1000)
        return "never"

    result, events = run({"lead": asks("Helper"), "helper": forever}, agent("Helper"), order={"stop_after": 3})
    (failed,) = of(events, DelegationFailed)
    assert (failed.status, failed.response.status) == (SpanStatus.CANCELLED, DelegationStatus.FAILURE)
    assert [(event.task, event.status) for event in of(events, TaskFailed)] == [
        ("lead.helper_1", SpanStatus.CANCELLED),
        ("lead", SpanStatus.CANCELLED),
    ]
    assert result.status.value == "interrupted"


def test_the_budget_ends_the_task_not_the_delegation_alone_e36() -> None:
    plays = {"lead": asks("Helper", then=last_answer), "helper": lambda _: "I helped."}
    result, events = run(plays, agent("Helper"), budget=Budget(max_llm_calls=1))
    assert result.status.value == "budget_exceeded"
    assert result.outputs == {}
    assert [event.task for event in of(events, TaskSkipped)] == ["lead.helper_1", "lead"]
    (failed,) = of(events, DelegationFailed)
    assert failed.status is SpanStatus.CANCELLED
    assert isinstance(events[-1], RunEnded)


def test_a_worker_may_ask_a_person_and_the_person_may_leave_e27() -> None:
    def helper(scene: Scene) -> Any:
        return scene.answers[-1] if scene.turn else [("human_input", {"question": "Which way?"})]

    async def north(request: Any) -> ReviewDecision:
        assert (request.agent, request.task, request.text) == ("Helper", "lead", "Which way?")
        return ReviewDecision.edit("North")

    async def leave(request: Any) -> ReviewDecision:
        return ReviewDecision.exit_early()

    plays = {"lead": asks("Helper", then=last_answer), "helper": helper}
    helper_agent = agent("Helper", tools=[human_input])
    result, _ = run(plays, helper_agent, order={"review_handler": north})
    assert result.outputs[0].raw == "North"
    result, events = run(plays, helper_agent, order={"review_handler": leave})
    assert result.status.value == "exited_early"
    assert [event.task for event in of(events, TaskSkipped)] == ["lead.helper_1", "lead"]


def test_the_tool_calls_of_a_worker_are_approved_where_those_of_the_task_are_e45() -> None:
    asked = []

    async def person(request: Any) -> ReviewDecision:
        asked.append((request.agent, request.tool, request.task))
        return ReviewDecision.approve()

    async def lookup(word: str) -> str:
        """Look it up."""
        return f"{word}?"

    def helper(scene: Scene) -> Any:
        return scene.answers[-1] if scene.turn else [("lookup", {"word": "tide"})]

    lead = agent("Lead", allow_delegation=True)
    task = Task.of("Lead", name="lead", agent=lead, review=Review(timing="during"))
    made = EnsembleDefinition(tasks=[task], agents=[lead, agent("Helper", tools=[lookup])])
    plays = {"lead": asks("Helper", then=last_answer), "helper": helper}
    result, _ = perform(made, plays, review_handler=person)
    assert asked == [("Lead", "delegate", "lead"), ("Helper", "lookup", "lead")]
    assert result.outputs[0].raw == "tide?"


def test_the_requests_of_a_worker_pass_the_rate_limits_of_task_and_worker_e37() -> None:
    lead = agent("Lead", allow_delegation=True)
    task = Task.of("Lead", name="lead", agent=lead, rate_limit=RateLimit(1, 10))
    made = EnsembleDefinition(tasks=[task], agents=[lead, agent("Helper", rate_limit=RateLimit(1, 3))])
    result, _ = perform(made, {"lead": asks("Helper", "Helper"), "helper": lambda _: "I helped."})
    assert result.outputs[0].duration.total_seconds() == 40


# --- policies ---


def policies(*results: Any) -> list[Any]:
    """One policy each; a function is asked with request and context."""

    def policy(number: int, result: Any) -> Any:
        async def evaluate(request: DelegationRequest, context: DelegationContext) -> Any:
            said = result(request, context) if callable(result) else result
            if isinstance(said, Exception):
                raise said
            return said

        evaluate.__name__ = f"policy_{number}"
        return evaluate

    return [policy(number, result) for number, result in enumerate(results)]


def with_policies(*results: Any, helper: Any = lambda scene: scene.user) -> tuple[RunResult, list[Event]]:
    plays = {"lead": asks("Helper", then=last_answer), "helper": helper, "critic": lambda _: "Bad."}
    return run(plays, agent("Helper"), agent("Critic"), delegation_policies=policies(*results))


def test_a_changed_request_feeds_the_next_policy_and_the_worker_e24() -> None:
    seen = []

    def change(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        changed = dataclasses.replace(
            request,
            task_description="Help well.",
            scope={"budget": "10 EUR", "names": ["a", "b"]},
            priority=DelegationPriority.HIGH,
            expected_output_schema="Two lines.",
            metadata={"by": "policy"},
        )
        return modify(changed)

    def look(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        seen.append(request)
        return allow()

    result, events = with_policies(change, look)
    assert [request.task_description for request in seen] == ["Help well."]
    assert result.outputs[0].raw == (
        '## Context\n### budget\n10 EUR\n### names\n["a", "b"]\n\n## Task\nHelp well.\n\n## Expected Output\nTwo lines.'
    )
    (started,), (completed,) = of(events, DelegationStarted), of(events, DelegationCompleted)
    assert started.request.task_description == "Help."
    assert completed.request == seen[0]
    assert completed.request.task_id == completed.response.task_id == started.request.task_id
    assert completed.response.metadata == {"by": "policy"}
    assert completed.output.task_description == "Help well."


def test_a_change_may_send_it_to_somebody_else_and_keeps_the_id_e24() -> None:
    redirect = modify(DelegationRequest(agent_role=" critic", task_description="Judge."))
    result, events = with_policies(redirect)
    assert result.outputs[0].raw == "Bad."
    (started,), (completed,) = of(events, DelegationStarted), of(events, DelegationCompleted)
    assert completed.response.task_id == started.request.task_id
    assert (completed.request.agent_role, completed.response.worker_role) == ("Critic", "Critic")


@pytest.mark.parametrize(
    "role, description, reason",
    [
        ("Lead", "Help.", "Agent 'Lead' can't delegate to itself. Available: 'Helper', 'Critic'"),
        ("Nobody", "Help.", "There is no agent 'Nobody'. Available: 'Helper', 'Critic'"),
        ("Critic", " ", "A policy left no agent or no task in the request"),
    ],
)
def test_a_changed_request_is_checked_again_e24(role: str, description: str, reason: str) -> None:
    _, events = with_policies(modify(DelegationRequest(agent_role=role, task_description=description)))
    assert refusal(events) == reason
    (failed,) = of(events, DelegationFailed)
    assert failed.request.agent_role == role


@pytest.mark.parametrize(
    "said, shown",
    [
        (None, "None"),
        (True, "bool"),
        ("allow", "str"),
        (DelegationPolicyResult.allow, "method"),
        (modify(None), "modify of NoneType"),  # type: ignore[arg-type]
    ],
)
def test_whatever_a_policy_says_wrong_is_a_refusal_that_names_it_e24(said: Any, shown: str) -> None:
    _, events = with_policies(allow(), lambda *_: said)
    expected = "must return allow(), reject(reason) or modify(request), and returned"
    assert refusal(events) == f"Policy 'policy_1' {expected} {shown}"
    assert isinstance(of(events, DelegationFailed)[0].error, TypeError)


def test_a_policy_that_raises_refuses_e24() -> None:
    _, events = with_policies(ValueError("broken"))
    assert refusal(events) == "Policy 'policy_0' failed: ValueError: broken"
    assert isinstance(of(events, DelegationFailed)[0].error, ValueError)


@pytest.mark.parametrize(
    "field, value", [("agent_role", None), ("task_description", 5), ("scope", "x"), ("expected_output_schema", {})]
)
def test_a_request_of_another_form_is_refused_where_it_is_made_e24(field: str, value: Any) -> None:
    fields: dict[str, Any] = {"agent_role": "Helper", "task_description": "Help.", field: value}
    with pytest.raises(ValidationError, match=f"DelegationRequest {field} must be"):
        DelegationRequest(**fields)


def test_a_rejection_without_a_text_is_a_rejection_e24() -> None:
    _, events = with_policies(DelegationPolicyResult.reject(None))  # type: ignore[arg-type]
    assert refusal(events) == "Policy 'policy_0' rejected it, and gave no reason"


def test_requests_are_put_to_the_policies_one_at_a_time_in_their_order_e24() -> None:
    at_work: list[str] = []
    order: list[str] = []

    async def slow_policy(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        assert at_work == []
        at_work.append(request.task_description)
        await asyncio.sleep(len(order) == 0 and 5)
        order.append(at_work.pop())
        return allow()

    def lead(scene: Scene) -> Any:
        if scene.turn:
            return "Done."
        return [("delegate", {"agent_role": "Helper", "task_description": str(number)}) for number in range(4)]

    run({"lead": lead, "helper": lambda _: "I helped."}, agent("Helper"), delegation_policies=[slow_policy])
    assert order == ["0", "1", "2", "3"]


# --- structured answers ---

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


@pytest.mark.parametrize("takes_schema", [True, False])
def test_a_json_schema_makes_the_answer_a_value_with_corrections_e24(takes_schema: bool) -> None:
    scenes = []

    def helper(scene: Scene) -> str:
        scenes.append(scene)
        return '{"n": 3}' if len(scenes) > 1 else "three"

    def want(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        return modify(dataclasses.replace(request, expected_output_schema=SCHEMA, max_output_retries=1))

    plays = {"lead": asks("Helper", then=last_answer), "helper": helper}
    order = {"has_schema_support": takes_schema}
    result, events = run(plays, agent("Helper"), delegation_policies=policies(want), order=order)
    (completed,) = of(events, DelegationCompleted)
    assert completed.response.parsed_output == completed.output.parsed_output == {"n": 3}
    assert result.outputs[0].raw == '{"n": 3}'
    assert ("## Output Format" in of(events, TaskInputPrepared)[-1].user_prompt) != takes_schema
    assert scenes[1].user.startswith("Your previous reply could not be read: it holds no complete JSON value")
    turns = [event.is_correction for event in of(events, TurnStarted) if event.agent == "Helper"]
    assert turns == [False, True]


def test_an_answer_that_never_fits_is_a_failure_e24() -> None:
    def want(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        return modify(dataclasses.replace(request, expected_output_schema=SCHEMA))

    result, events = with_policies(want, helper=lambda _: "three")
    assert result.outputs[0].raw.startswith("Error: Agent 'Helper' failed: ")
    assert [event.task for event in of(events, TaskFailed)] == ["lead.helper_1"]


# --- who is a peer ---


def test_without_a_list_of_agents_the_peers_are_those_of_the_tasks() -> None:
    lead = agent("Lead", allow_delegation=True)
    tasks = [
        Task.of("Lead", name="lead", agent=lead),
        Task.of("x", name="x", agent=agent("Helper"), fallback=agent("Stand-in")),
        Task.of("Write {topic}", name="y", llm="writer"),
    ]
    made = EnsembleDefinition(tasks=tasks, llm="writer", inputs={"topic": "tides"})
    plays = {
        "lead": asks("Writer", "Stand-in", then=lambda scene: "\n".join(scene.answers)),
        "helper": lambda _: "x",
        "writer": lambda scene: scene.system.splitlines()[2],
    }
    result, _ = perform(made, plays)
    assert result.outputs[0].raw.splitlines() == [
        f"Your personal goal is: {derive_agent('Write').goal}",
        "Error: There is no agent 'Stand-in'. Available: 'Helper', 'Writer'",
    ]


def test_a_fallback_that_may_delegate_gets_the_tool() -> None:
    stand_in = agent("Deputy", allow_delegation=True)
    tasks = [
        Task.of("Lead", name="lead", agent=agent("Lead"), fallback=stand_in),
        Task.of("x", name="x", agent=agent("Helper")),
    ]
    plays = {
        "lead": lambda _: OSError("ill"),
        "deputy": asks("Helper", then=last_answer),
        "helper": lambda _: "I helped.",
    }
    result, events = perform(EnsembleDefinition(tasks=tasks), plays)
    assert (result.outputs[0].raw, result.outputs[0].agent_role) == ("I helped.", "Deputy")
    assert of(events, DelegationStarted)[0].delegator == "Deputy"


def test_the_prompts_of_delegated_work_are_told_e23() -> None:
    _, events = run({"lead": asks("Helper"), "helper": lambda _: "I helped."}, agent("Helper"))
    prepared = of(events, TaskInputPrepared)[1]
    assert prepared.task == "lead.helper_1"
    assert prepared.user_prompt.startswith("## Task\nHelp.")
    assert of(events, TaskCompleted)[0].output.raw == "I helped."
