"""The manager (E22) and its constraints (E25) in whole runs, with actors in virtual time.

The second half is a model check: a manager that tries all sequences of calls to a depth, several in one reply, with
workers that fail and policies that refuse; an oracle of its own, which knows nothing but the events, says after each
run what should have been approved and what refused, and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import (
    DelegationContext,
    DelegationPolicyResult,
    DelegationRequest,
    HierarchicalConstraints,
    ManagedTask,
)
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import SpanStatus, Workflow
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import (
    DelegationCompleted,
    DelegationFailed,
    DelegationStarted,
    Event,
    TaskInputPrepared,
    TaskRetried,
    TaskStarted,
    ToolCallCompleted,
)
from ensemble_notebook.domain.planning.graph import derive_agent
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.errors import AgentExecutionError, ConstraintViolationError, MaxIterationsExceededError
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.actor import Scene, perform

FAILS = "fail"
REFUSED = "refused"


def delegate(role: str, description: str = "Do it.") -> tuple[str, dict[str, str]]:
    return "delegate_task", {"agent_role": role, "task_description": description}


def manages(*replies: Any) -> Any:
    """A manager that gives these replies in order."""
    return lambda scene: replies[scene.turn]


def worker(role: str, **fields: Any) -> Agent:
    return Agent(role=role, goal=f"Be {role}", llm="worker", **fields)


def team(*roles: str, **fields: Any) -> EnsembleDefinition:
    workers = [worker(role) for role in roles]
    fields.setdefault("tasks", [Task.of("The whole thing", name="whole")])
    return EnsembleDefinition(agents=workers, workflow=Workflow.HIERARCHICAL, manager_llm="manager", **fields)


async def does(scene: Scene) -> str:
    """A worker: its answer is its name; it fails where its task says so, and takes as long as its name says."""
    role = scene.system.splitlines()[0].removeprefix("You are ").removesuffix(".")
    await asyncio.sleep({"A": 3, "B": 1, "C": 2}.get(role, 1))
    if FAILS in scene.user:
        raise OSError("no line")
    return f"{role} was here"


def of(events: Sequence[Event], *kinds: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]


# --- the run of a manager ---


def test_worker_outputs_come_in_order_of_completion_and_the_manager_s_last_e22() -> None:
    plays = {"manager": manages([delegate("A"), delegate("b ")], [delegate("C")], "All done."), "worker": does}
    result, events = perform(team("A", "B", "C"), plays)
    assert [output.name for output in result.completed] == ["b_1", "a_1", "c_1", "manager"]
    assert [output.agent_role for output in result.completed] == ["B", "A", "C", "Manager"]
    assert result.completed[-1].raw == "All done."
    assert result.completed[-1].tool_call_count == 3
    assert [(event.delegator, event.depth) for event in of(events, DelegationStarted)] == [("Manager", 1)] * 3
    assert find_violations(ExecutionTrace(events)) == []


def test_the_manager_is_the_only_task_of_the_plan_and_workers_are_no_part_of_it_e22() -> None:
    plays = {"manager": manages([delegate("A")], "All done."), "worker": does}
    _, events = perform(team("A"), plays)
    manager, work = of(events, TaskStarted)
    assert (manager.task, manager.agent, manager.index, manager.total) == ("manager", "Manager", 0, 1)
    assert (work.task, work.index, work.total) == ("a_1", None, None)


def test_the_prompts_list_every_worker_and_every_task_e22() -> None:
    helper = worker("Helper", background="Old hand")
    tasks = [
        Task.of("Find {what}", name="find", agent=helper, expected_output="A list of {what}"),
        Task.of("Write it", name="write", context=["find"]),
    ]
    made = EnsembleDefinition(
        tasks=tasks,
        workflow="hierarchical",
        manager_llm="manager",
        llm="worker",
        inputs={"what": "tides"},
        hierarchical_constraints=HierarchicalConstraints(required_workers=["Helper"], global_max_delegations=4),
    )
    _, events = perform(made, {"manager": manages([delegate("Helper")], "Done."), "worker": does})
    prompts = of(events, TaskInputPrepared)[0]
    assert prompts.system_prompt.startswith("You are Manager.\n\nYour personal goal is: ")
    assert prompts.system_prompt.endswith(
        "\n\n## Workers\n"
        "### Helper\nGoal: Be Helper\nBackground: Old hand\n"
        f"### Writer\nGoal: {derive_agent('Write it').goal}\n\n"
        "## Rules\n- Delegate at least once to each of: 'Helper'.\n- Delegations in total: at most 4."
    )
    assert prompts.user_prompt == (
        "## Tasks\n\n"
        "### find\nFind tides\nExpected output: A list of tides\nSuggested worker: Helper\n\n"
        "### write\nWrite it\nExpected output: A clear, complete answer to the task.\nBuilds on the results of: find"
    )


class Terse:
    """A strategy of one's own."""

    async def system(self, workers: Sequence[Agent]) -> str:
        return f"Lead {', '.join(each.role for each in workers)}."

    async def user(self, tasks: Sequence[ManagedTask]) -> str:
        return "; ".join(f"{each.description} -> {each.expected_output} {each.builds_on}" for each in tasks)


def test_a_prompt_strategy_replaces_both_texts_e22() -> None:
    tasks = [Task.of("Find {what}", "A list", name="find"), Task.of("Write", "A page", name="w", context=["find"])]
    made = team("A", "B", tasks=tasks, manager_prompt=Terse(), inputs={"what": "tides"})
    _, events = perform(made, {"manager": manages("Done.")})
    (prompts,) = of(events, TaskInputPrepared)
    assert prompts.system_prompt == "Lead A, B."
    assert prompts.user_prompt == "Find tides -> A list (); Write -> A page ('find',)"


class Speechless(Terse):
    async def user(self, tasks: Sequence[ManagedTask]) -> Any:
        return None


def test_a_prompt_strategy_that_gives_no_text_fails_the_manager() -> None:
    result, _ = perform(team("A", manager_prompt=Speechless()), {"manager": manages("Done.")})
    assert str(result.failures[0].error) == "manager_prompt.user must return a text, and returned NoneType."


def test_the_manager_s_limit_of_delegations_is_its_own_e22() -> None:
    replies = [[delegate("A")]] * 5
    made = team("A", manager_max_iterations=2)
    result, _ = perform(made, {"manager": manages(*replies, "Done."), "worker": does})
    (failure,) = result.failures
    assert isinstance(failure.error, MaxIterationsExceededError)
    assert (failure.agent_role, failure.error.max_iterations) == ("Manager", 2)
    assert [output.name for output in result.completed] == ["a_1", "a_2"]


def test_a_failing_manager_leaves_what_its_workers_did_e22() -> None:
    plays = {"manager": manages([delegate("A")], OSError("ill")), "worker": does}
    result, _ = perform(team("A"), plays)
    assert isinstance(result.failures[0].error, AgentExecutionError)
    assert [output.name for output in result.completed] == ["a_1"]


def test_a_manager_s_unknown_worker_is_refused_and_nobody_is_itself_e23() -> None:
    plays = {"manager": manages([delegate("D"), delegate("Manager")], "Done.")}
    _, events = perform(team("A", "B"), plays)
    reasons = [event.response.errors[0] for event in of(events, DelegationFailed)]
    assert reasons == [f"There is no agent {role!r}. Available: 'A', 'B'" for role in ("D", "Manager")]


def test_a_worker_may_delegate_further_within_its_team_and_constraints_are_the_manager_s_alone() -> None:
    def busy(scene: Scene) -> Any:
        if scene.turn:
            return f"He says: {scene.answers[-1]}"
        return [("delegate", {"agent_role": "B", "task_description": "Do it."})]

    lead = Agent(role="A", goal="Be A", llm="busy", allow_delegation=True)
    made = EnsembleDefinition(
        tasks=[Task.of("x")],
        agents=[lead, worker("B")],
        workflow="hierarchical",
        manager_llm="manager",
        hierarchical_constraints=HierarchicalConstraints(allowed_workers=["A"], global_max_delegations=1),
    )
    result, events = perform(made, {"manager": manages([delegate("A")], "Done."), "busy": busy, "worker": does})
    assert [output.name for output in result.completed] == ["a_1", "manager"]
    assert result.completed[0].raw == "He says: B was here"
    assert [event.task for event in of(events, TaskStarted)] == ["manager", "a_1", "a_1.b_1"]
    assert [event.depth for event in of(events, DelegationStarted)] == [1, 2]
    assert find_violations(ExecutionTrace(events)) == []


def test_a_stopped_run_keeps_what_workers_had_done() -> None:
    plays = {"manager": manages([delegate("A"), delegate("B")], "Done."), "worker": does}
    result, events = perform(team("A", "B"), plays, stop_after=2)
    assert [output.name for output in result.completed] == ["b_1"]
    assert [event.status for event in of(events, DelegationFailed)] == [SpanStatus.CANCELLED]


def test_a_manager_sent_back_by_its_review_goes_on_under_the_same_constraints_e45() -> None:
    decisions = iter([ReviewDecision.retry("Ask B, too."), ReviewDecision.approve()])

    async def person(request: Any) -> ReviewDecision:
        return next(decisions)

    def manager(scene: Scene) -> Any:
        if scene.turn:
            return "Done."
        is_second = "## Revision Instructions (Attempt 2)\nAsk B, too." in scene.user
        return [delegate("A"), delegate("B")] if is_second else [delegate("A")]

    made = team(
        "A",
        "B",
        tasks=[Task.of("x", review=Review())],
        hierarchical_constraints=HierarchicalConstraints(max_calls_per_worker={"A": 1}),
    )
    result, events = perform(made, {"manager": manager, "worker": does}, review_handler=person)
    assert len(of(events, TaskRetried)) == 1
    assert [output.name for output in result.completed] == ["a_1", "b_1", "manager"]
    (refused,) = of(events, DelegationFailed)
    assert refused.response.errors == ("Agent 'A' has reached its delegation cap of 1",)


def test_without_a_required_worker_the_run_fails_after_a_good_end_e25() -> None:
    made = team("A", "B", hierarchical_constraints=HierarchicalConstraints(required_workers=["B", "A"]))
    result, _ = perform(made, {"manager": manages([delegate("A")], "Done."), "worker": does})
    error = result.failures[0].error
    assert isinstance(error, ConstraintViolationError)
    assert str(error) == "Hierarchical constraint violated: Required worker 'B' was never delegated a task"
    assert [output.name for output in error.completed_task_outputs] == ["a_1"]


def test_a_manager_that_fails_is_not_held_to_its_required_workers_e25() -> None:
    made = team("A", hierarchical_constraints=HierarchicalConstraints(required_workers=["A"]))
    result, _ = perform(made, {"manager": manages(OSError("ill"))})
    assert isinstance(result.failures[0].error, AgentExecutionError)


# --- model check ---


@dataclass(frozen=True)
class Ask:
    """One call of the manager: whom it asks, whether that fails, and whether a policy refuses it."""

    role: str
    word: str = ""


SETS = {
    "total": {"global_max_delegations": 2},
    "each": {"max_calls_per_worker": {"a": 1, "B": 2}},
    "stages": {"required_stages": [["A"], ["b"]], "required_workers": ["B"]},
    "wide stage": {"required_stages": [["A", "B"], ["C"]], "required_workers": ["A", "C"]},
    "all": {
        "allowed_workers": ["A", "B"],
        "required_workers": ["B"],
        "max_calls_per_worker": {"A": 1, "B": 1},
        "global_max_delegations": 2,
        "required_stages": [["A"], ["B"]],
    },
}


def scripts(roles: str, depth: int) -> Iterator[list[list[Ask]]]:
    """Every sequence of calls to a depth, cut into replies in every way; of those that policies refuse, one at most."""
    choices = [Ask(role, word) for role in roles for word in ("", FAILS, REFUSED)]
    for asks in product(choices, repeat=depth):
        if [ask.word for ask in asks].count(REFUSED) > 1:
            continue
        for cuts in product((False, True), repeat=depth - 1):
            replies = [[asks[0]]]
            for ask, is_cut in zip(asks[1:], cuts, strict=True):
                if is_cut:
                    replies.append([])
                replies[-1].append(ask)
            yield replies


async def stern(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
    """Refuses what is marked so, and takes its time, so that others would overtake if they could."""
    await asyncio.sleep(0.25)
    if REFUSED in request.task_description:
        return DelegationPolicyResult.reject("Not today")
    return DelegationPolicyResult.allow()


def play(replies: list[list[Ask]], constraints: dict[str, Any], roles: str) -> tuple[RunResult, list[Event]]:
    said = [[delegate(ask.role, ask.word or "Do it.") for ask in reply] for reply in replies]
    made = team(
        *roles,
        hierarchical_constraints=HierarchicalConstraints(**constraints),
        delegation_policies=[stern],
    )
    return perform(made, {"manager": manages(*said, "Done."), "worker": does})


class Oracle:
    """Judges a run by its events alone: a list of what began and what ended, in the order in which it did."""

    def __init__(self, constraints: dict[str, Any], events: list[Event]) -> None:
        self.allowed = [role.upper() for role in constraints.get("allowed_workers", ())]
        self.required = [role.upper() for role in constraints.get("required_workers", ())]
        self.total = constraints.get("global_max_delegations", 0)
        self.each = {role.upper(): cap for role, cap in constraints.get("max_calls_per_worker", {}).items()}
        self.stages = [[role.upper() for role in stage] for stage in constraints.get("required_stages", ())]
        self.requests = {event.span_id: event.request for event in of(events, DelegationStarted)}
        self.log = list(self._read(events))

    def _read(self, events: list[Event]) -> Iterator[tuple[str, str, str, str]]:
        """What happened to whom: ``begun``, ``done``, ``failed`` or ``refused``; the word of the call; the reason."""
        begun = set()
        for event in events:
            if isinstance(event, TaskStarted) and event.parent_id in self.requests:
                begun.add(event.parent_id)
                request = self.requests[event.parent_id]
                yield "begun", request.agent_role, request.task_description, ""
            elif isinstance(event, DelegationCompleted):
                yield "done", event.request.agent_role, event.request.task_description, ""
            elif isinstance(event, DelegationFailed):
                kind = "failed" if event.span_id in begun else "refused"
                yield kind, event.request.agent_role, event.request.task_description, event.response.errors[0]

    def verdict(self, role: str, past: list[tuple[str, str, str, str]]) -> str:
        """Which reason the constraints give against a worker, after what has happened by then."""
        begun = [who for kind, who, *_ in past if kind == "begun"]
        done = {who for kind, who, *_ in past if kind == "done"}
        if self.allowed and role not in self.allowed:
            return f"Agent '{role}' is not in the allowed_workers list"
        if self.total and len(begun) >= self.total:
            return f"Global delegation cap of {self.total} has been reached"
        if role in self.each and begun.count(role) >= self.each[role]:
            return f"Agent '{role}' has reached its delegation cap of {self.each[role]}"
        for number, stage in enumerate(self.stages):
            if role in stage:
                open_stages = [each + 1 for each in range(number) if not set(self.stages[each]) <= done]
                if open_stages:
                    return f"Cannot delegate to '{role}': stage {open_stages[0]} is not yet complete"
        return ""

    def faults(self) -> Iterator[str]:
        for place, (kind, role, word, reason) in enumerate(self.log):
            verdict = self.verdict(role, self.log[:place])
            if kind == "begun" and (verdict or word == REFUSED):
                yield f"{place}: {role} was let through against: {verdict or 'the policy'}"
            if kind == "refused" and not reason.startswith(verdict or "Not today"):
                yield f"{place}: {role} was refused for {reason!r}, and not for {verdict or 'the policy'!r}"
            if kind == "refused" and not verdict and word != REFUSED:
                yield f"{place}: {role} was refused for nothing"
            if kind in ("done", "failed") and (kind == "failed") != (word == FAILS):
                yield f"{place}: {role} {kind}, asked {word!r}"

    def missing(self) -> list[str]:
        done = {who for kind, who, *_ in self.log if kind == "done"}
        return [role for role in self.required if role not in done]


def check(replies: list[list[Ask]], constraints: dict[str, Any], roles: str) -> None:
    """Everything that must hold of one run, whatever the manager tried."""
    result, events = play(replies, constraints, roles)
    oracle = Oracle(constraints, events)
    assert list(oracle.faults()) == [], replies
    asked = [ask for reply in replies for ask in reply]
    ended = of(events, DelegationCompleted, DelegationFailed)
    assert len(oracle.requests) == len(ended) == len(asked)
    assert {each.task_id for each in oracle.requests.values()} == {event.response.task_id for event in ended}
    told = sorted(event.result for event in of(events, ToolCallCompleted))
    assert told == sorted(event.response.raw_output or f"Error: {event.response.errors[0]}" for event in ended)
    done = [role for kind, role, *_ in oracle.log if kind == "done"]
    manager = [] if oracle.missing() else ["Manager"]
    assert [output.agent_role for output in result.completed] == [*done, *manager]
    if oracle.missing():
        (failure,) = result.failures
        assert isinstance(failure.error, ConstraintViolationError)
        assert len(failure.error.violations) == len(oracle.missing())
        assert failure.error.completed_task_outputs == result.completed
    else:
        assert result.failures == []


@pytest.mark.parametrize("name", SETS)
def test_every_sequence_of_three_calls_to_two_workers_keeps_the_constraints_e25(name: str) -> None:
    roles = "ABC" if name == "wide stage" else "AB"
    for replies in scripts(roles[:2], 3):
        check(replies, SETS[name], roles)


def test_every_pair_of_calls_to_three_workers_after_a_full_stage_keeps_the_constraints_e25() -> None:
    for replies in scripts("ABC", 2):
        check([[Ask("A"), Ask("B")], *replies], SETS["wide stage"], "ABC")


def test_a_keeper_that_forgets_failed_workers_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself is checked: with a fault in the engine, it fails."""
    monkeypatch.setattr(
        "ensemble_notebook.engine.manager.ConstraintTracker.note_approved",
        lambda self, role: None,
    )
    with pytest.raises(AssertionError, match="was let through against"):
        check([[Ask("A", FAILS)], [Ask("A")], [Ask("A")]], SETS["total"], "AB")
